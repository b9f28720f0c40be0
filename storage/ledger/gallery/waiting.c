/* waiting.c - how many pictures the index of words does not have yet.
 *
 * New since the follower's snapshot (storage/ledger/read/changes.h says why these ranges), or below
 * what its rebuild has reached.  A picture that has only changed is in the index already.  Each
 * part is cut off before the pool and the index are asked, so that the answer costs little however
 * many there are; where a part is full, there may be more.  OFFSET 0 keeps the planner from a merge
 * with all rows of the index: 170 ms for a million. */
#include "storage/ledger/gallery/gallery.h"
#include "storage/ledger/internal.h"

#define MOST "1001" /* KILN_GALLERY_WAITING_MAX, and one that says that there are more */

int kiln_gallery_waiting(struct kiln_ledger *session, const char *pool, uint32_t *ret,
                         struct kiln_error *err)
{
    static const struct kiln_statement statement = {
        KILN_PLANNED_ONCE("gallery_waiting"),
        "SELECT count(*) FROM (SELECT 1 FROM (SELECT 1) one LEFT JOIN gallery_state s ON true,"
        " LATERAL ((SELECT job_id, pool FROM image"
        "   WHERE changed >= pg_snapshot_xmax(s.snapshot) ORDER BY changed, job_id LIMIT " MOST ")"
        "  UNION ALL (SELECT job_id, pool FROM pg_snapshot_xip(s.snapshot) AS xip (x), LATERAL"
        "   (SELECT job_id, pool FROM image WHERE changed = x LIMIT " MOST ") r)"
        "  UNION ALL (SELECT job_id, pool FROM image"
        "   WHERE job_id < CASE WHEN s.snapshot IS NULL THEN 9223372036854775807"
        "                ELSE coalesce(s.rebuilt, 0) END"
        "   AND coalesce(pg_visible_in_snapshot(changed, s.snapshot), true)"
        "   ORDER BY job_id DESC LIMIT " MOST ")) i"
        " WHERE i.pool = $1"
        " AND NOT EXISTS (SELECT FROM gallery_text t WHERE t.job_id = i.job_id OFFSET 0)"
        " LIMIT " MOST ") w"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_ask(session, &statement, &params, KILN_FIELDS(*ret), err);
}
