/* ledger_doctor.c - see ledger_doctor.h. */
#include "storage/ledger_doctor.h"

#include "storage/ledger.h"
#include "storage/ledger_internal.h"

int kiln_ledger_rights(struct kiln_ledger *ledger, struct kiln_rights *ret, struct kiln_error *err)
{
    static const struct kiln_statement ask = {
        "rights", "SELECT current_user, has_table_privilege('job', 'SELECT'),"
                  " has_table_privilege('job', 'INSERT'),"
                  " has_column_privilege('job', 'state', 'UPDATE'),"
                  " pg_has_role((SELECT relowner FROM pg_class WHERE oid = 'job'::regclass),"
                  "   'USAGE')"};
    PGresult *rows;
    int rc = kiln_ledger_run(ledger, &ask, &(struct kiln_params){0}, &rows, err);
    if (rc)
        return rc;
    kiln_row_copy(rows, 0, 0, ret->user, sizeof ret->user);
    ret->read = kiln_row_bool(rows, 0, 1);
    ret->take_in = kiln_row_bool(rows, 0, 2);
    ret->move = kiln_row_bool(rows, 0, 3);
    ret->schema = kiln_row_bool(rows, 0, 4);
    PQclear(rows);
    return 0;
}

struct walk {
    kiln_each_stuck *each;
    void *arg;
};

static int forward(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct walk *walk = arg;
    struct kiln_stuck_row stuck = {.batch = kiln_row_text(rows, row, 0),
                                   .announced = kiln_row_u64(rows, row, 1),
                                   .come = kiln_row_u64(rows, row, 2),
                                   .last_ms = kiln_row_i64(rows, row, 3)};
    return walk->each(walk->arg, &stuck, err);
}

int kiln_ledger_stuck(struct kiln_ledger *ledger, const char *pool, int64_t silent_s,
                      kiln_each_stuck *each, void *arg, struct kiln_error *err)
{
    /* The number of a call's newest entry holds the time at which Redis took it. */
    static const struct kiln_statement list = {
        "stuck", "SELECT b.name, c.announced, c.accepted + c.duplicate + c.refused, s.last_ms"
                 " FROM batch b JOIN intake_call c ON c.batch_id = b.id,"
                 " LATERAL (SELECT greatest(c.entry >> 20,"
                 "   (extract(epoch FROM b.created_at) * 1000)::bigint) AS last_ms) s"
                 " WHERE b.pool = $1::text AND c.token <> '' AND (c.announced IS NULL OR"
                 "   c.accepted + c.duplicate + c.refused < c.announced)"
                 " AND s.last_ms < (extract(epoch FROM now()) - $2::bigint) * 1000"
                 " ORDER BY s.last_ms"};
    struct walk walk = {each, arg};
    struct kiln_params params = {0};
    kiln_bind_text(&params, pool);
    kiln_bind_i64(&params, silent_s);
    return kiln_ledger_each(ledger, &list, &params, forward, &walk, err);
}
