/* cost.c - see cost.h. */
#include "storage/ledger/queue/cost.h"

#include "storage/ledger/internal.h"

static int read_cost(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    struct kiln_cost_row cost;
    KILN_READ(rows, row, 0, cost.kind, cost.model, cost.device, cost.lora_set, cost.width,
              cost.height, cost.steps, cost.jobs, cost.guided, cost.mean, cost.spread,
              cost.samples);
    bool known = cost.kind < KILN_COST_KINDS;
    return known ? ((kiln_each_cost *)caller->each)(caller->arg, &cost, err) : 0;
}

int kiln_ledger_costs(struct kiln_ledger *ledger, const char *pool, kiln_each_cost *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement read = {
        "costs", "SELECT kind, model, device, lora_set, width, height, steps, jobs, guided, mean,"
                 " spread, samples FROM cost WHERE pool = $1 ORDER BY updated_at"};
    struct kiln_params params = {0};
    KILN_BIND(&params, pool);
    return kiln_ledger_each(ledger, &read, &params, read_cost, KILN_CALLER(each, arg), err);
}

int kiln_ledger_keep_costs(struct kiln_ledger *ledger, const char *pool,
                           const struct kiln_cost_row *rows, size_t count, struct kiln_error *err)
{
    static const struct kiln_statement keep = {
        "keep_costs",
        "INSERT INTO cost AS c (pool, kind, width, height, steps, jobs, guided, samples, model,"
        " device, lora_set, mean, spread)"
        " SELECT $1, * FROM unnest($2::smallint[], $3::integer[], $4::integer[], $5::integer[],"
        " $6::integer[], $7::boolean[], $8::integer[], $9::text[], $10::text[], $11::text[],"
        " $12::double precision[], $13::double precision[])"
        " ON CONFLICT (pool, kind, model, device, lora_set, width, height, steps, jobs, guided)"
        " DO UPDATE SET mean = excluded.mean, spread = excluded.spread,"
        " samples = excluded.samples, updated_at = now()"};
    struct kiln_params params = {0};
    if (count == 0)
        return 0;
    if (count > KILN_COST_WRITE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "ledger: %zu costs in one write, %d at most", count,
                         KILN_COST_WRITE_MAX);
    KILN_BIND(&params, pool);
    KILN_BIND_COLUMN(&params, INT2, count, rows[i].kind);
    KILN_BIND_COLUMN(&params, INT4, count, rows[i].width);
    KILN_BIND_COLUMN(&params, INT4, count, rows[i].height);
    KILN_BIND_COLUMN(&params, INT4, count, rows[i].steps);
    KILN_BIND_COLUMN(&params, INT4, count, rows[i].jobs);
    KILN_BIND_COLUMN(&params, BOOL, count, rows[i].guided);
    KILN_BIND_COLUMN(&params, INT4, count,
                     rows[i].samples < INT32_MAX ? rows[i].samples : INT32_MAX);
    KILN_BIND_COLUMN(&params, TEXT, count, rows[i].model);
    KILN_BIND_COLUMN(&params, TEXT, count, rows[i].device);
    KILN_BIND_COLUMN(&params, TEXT, count, rows[i].lora_set);
    KILN_BIND_COLUMN(&params, FLOAT8, count, rows[i].mean);
    KILN_BIND_COLUMN(&params, FLOAT8, count, rows[i].spread);
    return kiln_ledger_run(ledger, &keep, &params, NULL, err);
}
