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
    return kiln_ledger_ask(ledger, &ask, &(struct kiln_params){0},
                           KILN_FIELDS(ret->user, ret->read, ret->take_in, ret->move, ret->schema),
                           err);
}

static int read_stuck(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_stuck_row stuck;
    KILN_READ(rows, row, 0, stuck.batch, stuck.announced, stuck.come, stuck.last_ms);
    return ((kiln_each_stuck *)caller->each)(caller->arg, &stuck, err);
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
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, silent_s);
    return kiln_ledger_each(ledger, &list, &params, read_stuck, KILN_CALLER(each, arg), err);
}

/* --- what waiting jobs need ------------------------------------------------------------------- */

static int read_need(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_need_row need;
    KILN_READ(rows, row, 0, need.model, need.width, need.height, need.jobs, need.unfit, need.batch);
    return ((kiln_each_need *)caller->each)(caller->arg, &need, err);
}

int kiln_ledger_needs(struct kiln_ledger *ledger, const char *pool, kiln_each_need *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement list = {
        "needs", "SELECT j.model, j.width, j.height, count(*),"
                 " count(*) FILTER (WHERE j.tries > 0 AND j.error_code = $2::smallint), min(b.name)"
                 " FROM job j JOIN batch b ON b.id = j.batch_id"
                 " WHERE j.pool = $1::text AND j.waits GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool, KILN_NO_MEMORY);
    return kiln_ledger_each(ledger, &list, &params, read_need, KILN_CALLER(each, arg), err);
}

static int read_lora(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    return ((kiln_each_lora *)caller->each)(caller->arg, kiln_row_text(rows, row, 0),
                                            kiln_row_u64(rows, row, 1), kiln_row_text(rows, row, 2),
                                            err);
}

int kiln_ledger_needed_loras(struct kiln_ledger *ledger, const char *pool, kiln_each_lora *each,
                             void *arg, struct kiln_error *err)
{
    static const struct kiln_statement list = {
        "needed_loras", "SELECT l ->> 'name', count(*), min(b.name)"
                        " FROM job j JOIN batch b ON b.id = j.batch_id,"
                        " LATERAL jsonb_array_elements(j.loras) l"
                        " LEFT JOIN lora_file f ON f.sha256 = l ->> 'sha256'"
                        " WHERE j.pool = $1::text AND j.waits AND j.model = ''"
                        " AND f.stored IS NOT TRUE"
                        " GROUP BY 1 ORDER BY 2 DESC, 1"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_each(ledger, &list, &params, read_lora, KILN_CALLER(each, arg), err);
}

int kiln_ledger_site(struct kiln_ledger *ledger, struct kiln_ledger_site *ret,
                     struct kiln_error *err)
{
    /* pg_settings hides this row from whom it does not concern; asking by name would fail. */
    static const struct kiln_statement ask = {
        "site", "SELECT inet_server_addr() IS NULL OR inet_server_addr() <<= '127.0.0.0/8'"
                " OR inet_server_addr() = '::1', pg_backend_pid(),"
                " coalesce((SELECT setting FROM pg_settings WHERE name = 'data_directory'), '')"};
    return kiln_ledger_ask(ledger, &ask, &(struct kiln_params){0},
                           KILN_FIELDS(ret->local, ret->pid, ret->dir), err);
}
