/* changes.h - the statement that reads which rows are new since a snapshot.
 *
 * A table with a column `changed xid8` (the transaction that wrote the row) and one of rows that
 * went, `(changed, job_id)`, are followed without a gap: a row is new if its transaction was not in
 * the last snapshot, so commits that come late, out of order or never are right by construction.
 * What a snapshot did not see was numbered after it (changed >= its xmax) or was running then (in
 * its xip); both are ranges of an index on (changed, job_id).
 *
 * A follower takes a snapshot, the target, reads page by page up to it, and then makes it the last
 * snapshot.  Rows may be read twice.  Rows that came from another cluster may have any number;
 * beyond the target's xmax they are not looked at.
 */
#ifndef KILN_LEDGER_CHANGES_H
#define KILN_LEDGER_CHANGES_H

/* Each gives (changed, job_id) of a page of rows, in this order.  $1 the last snapshot, $2 and $3
 * behind this row, $4 rows, $5 the target.  written, gone: names of the two tables. */
#define KILN_CHANGES_SQL(written, gone)                                                            \
    "SELECT changed, job_id FROM ((SELECT changed, job_id FROM " written KILN_CHANGES_SINCE        \
    " UNION ALL (SELECT changed, job_id FROM " gone KILN_CHANGES_SINCE                             \
    " UNION ALL " KILN_CHANGES_RUNNING " (SELECT job_id FROM " written KILN_CHANGES_OF_X           \
    " UNION ALL " KILN_CHANGES_RUNNING " (SELECT job_id FROM " gone KILN_CHANGES_OF_X              \
    ") c ORDER BY changed, job_id LIMIT $4::integer"

#define KILN_CHANGES_AT_XMAX "$2::xid8 < pg_snapshot_xmax($1::pg_snapshot)"
/* One lower bound: with two, the scan of the index may begin at the lower one of them. */
#define KILN_CHANGES_SINCE                                                                         \
    " WHERE (changed, job_id) >"                                                                   \
    "  (CASE WHEN " KILN_CHANGES_AT_XMAX " THEN pg_snapshot_xmax($1) ELSE $2 END,"                 \
    "   CASE WHEN " KILN_CHANGES_AT_XMAX " THEN 0 ELSE $3::bigint END)"                            \
    "  AND changed < pg_snapshot_xmax($5::pg_snapshot)"                                            \
    "  ORDER BY changed, job_id LIMIT $4::integer)"
#define KILN_CHANGES_RUNNING                                                                       \
    "(SELECT x, job_id FROM pg_snapshot_xip($1::pg_snapshot) AS xip (x), LATERAL"
#define KILN_CHANGES_OF_X                                                                          \
    " WHERE changed = x AND job_id > CASE WHEN x = $2::xid8 THEN $3::bigint ELSE 0 END"            \
    "  ORDER BY job_id LIMIT $4::integer) r WHERE x >= $2::xid8"                                   \
    " ORDER BY x, job_id LIMIT $4::integer)"

#endif
