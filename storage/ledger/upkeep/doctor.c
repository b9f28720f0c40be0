/* doctor.c - see doctor.h. */
#include "storage/ledger/upkeep/doctor.h"

#include "storage/ledger/internal.h"
#include "storage/ledger/ledger.h"

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
    KILN_BIND(&params, pool, silent_s);
    return kiln_ledger_each(ledger, &list, &params, forward, &walk, err);
}

/* --- what waiting jobs need ------------------------------------------------------------------- */

struct need_walk {
    kiln_each_need *need;
    kiln_each_lora *lora;
    void *arg;
};

static int forward_need(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct need_walk *walk = arg;
    struct kiln_need_row need = {.model = kiln_row_text(rows, row, 0),
                                 .width = (uint32_t)kiln_row_u64(rows, row, 1),
                                 .height = (uint32_t)kiln_row_u64(rows, row, 2),
                                 .jobs = kiln_row_u64(rows, row, 3),
                                 .unfit = kiln_row_u64(rows, row, 4),
                                 .batch = kiln_row_text(rows, row, 5)};
    return walk->need(walk->arg, &need, err);
}

int kiln_ledger_needs(struct kiln_ledger *ledger, const char *pool, kiln_each_need *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement list = {
        "needs", "SELECT j.model, j.width, j.height, count(*),"
                 " count(*) FILTER (WHERE j.tries > 0 AND j.error_code = $2::smallint), min(b.name)"
                 " FROM job j JOIN batch b ON b.id = j.batch_id"
                 " WHERE j.pool = $1::text AND j.waits GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"};
    struct need_walk walk = {.need = each, .arg = arg};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, KILN_NO_MEMORY);
    return kiln_ledger_each(ledger, &list, &params, forward_need, &walk, err);
}

static int forward_lora(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct need_walk *walk = arg;
    return walk->lora(walk->arg, kiln_row_text(rows, row, 0), kiln_row_u64(rows, row, 1),
                      kiln_row_text(rows, row, 2), err);
}

int kiln_ledger_needed_loras(struct kiln_ledger *ledger, const char *pool, kiln_each_lora *each,
                             void *arg, struct kiln_error *err)
{
    static const struct kiln_statement list = {
        "needed_loras", "SELECT l ->> 'name', count(*), min(b.name)"
                        " FROM job j JOIN batch b ON b.id = j.batch_id,"
                        " LATERAL jsonb_array_elements(j.loras) l"
                        " WHERE j.pool = $1::text AND j.waits AND j.model = ''"
                        " GROUP BY 1 ORDER BY 2 DESC, 1"};
    struct need_walk walk = {.lora = each, .arg = arg};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_each(ledger, &list, &params, forward_lora, &walk, err);
}

int kiln_ledger_site(struct kiln_ledger *ledger, struct kiln_ledger_site *ret,
                     struct kiln_error *err)
{
    /* pg_settings hides this row from whom it does not concern; asking by name would fail. */
    static const struct kiln_statement ask = {
        "site", "SELECT inet_server_addr() IS NULL OR inet_server_addr() <<= '127.0.0.0/8'"
                " OR inet_server_addr() = '::1', pg_backend_pid(),"
                " coalesce((SELECT setting FROM pg_settings WHERE name = 'data_directory'), '')"};
    PGresult *rows;
    int rc = kiln_ledger_run(ledger, &ask, &(struct kiln_params){0}, &rows, err);
    if (rc)
        return rc;
    ret->local = kiln_row_bool(rows, 0, 0);
    ret->pid = (long)kiln_row_i64(rows, 0, 1);
    kiln_row_copy(rows, 0, 2, ret->dir, sizeof ret->dir);
    PQclear(rows);
    return 0;
}
