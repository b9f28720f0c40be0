/* cost.c - see cost.h. */
#include "storage/ledger/queue/cost.h"

#include "storage/ledger/internal.h"

struct reading {
    kiln_each_cost *each;
    void *arg;
};

static int read_row(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct reading *reading = arg;
    int64_t kind = kiln_row_i64(rows, row, 0);
    if (kind < 0 || kind >= KILN_COST_KINDS)
        return 0;
    struct kiln_cost_row cost = {.kind = (enum kiln_cost_kind)kind,
                                 .width = (uint32_t)kiln_row_u64(rows, row, 4),
                                 .height = (uint32_t)kiln_row_u64(rows, row, 5),
                                 .steps = (uint32_t)kiln_row_u64(rows, row, 6),
                                 .jobs = (uint32_t)kiln_row_u64(rows, row, 7),
                                 .guided = kiln_row_bool(rows, row, 8),
                                 .mean = kiln_row_double(rows, row, 9),
                                 .spread = kiln_row_double(rows, row, 10),
                                 .samples = (uint32_t)kiln_row_u64(rows, row, 11)};
    kiln_row_copy(rows, row, 1, cost.model, sizeof cost.model);
    kiln_row_copy(rows, row, 2, cost.device, sizeof cost.device);
    kiln_row_copy(rows, row, 3, cost.lora_set, sizeof cost.lora_set);
    return reading->each(reading->arg, &cost, err);
}

int kiln_ledger_costs(struct kiln_ledger *ledger, const char *pool, kiln_each_cost *each, void *arg,
                      struct kiln_error *err)
{
    static const struct kiln_statement read = {
        "costs", "SELECT kind, model, device, lora_set, width, height, steps, jobs, guided, mean,"
                 " spread, samples FROM cost WHERE pool = $1 ORDER BY updated_at"};
    struct kiln_params params = {0};
    struct reading reading = {each, arg};
    KILN_BIND(&params, pool);
    return kiln_ledger_each(ledger, &read, &params, read_row, &reading, err);
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
    int rc = kiln_ledger_run(ledger, &keep, &params, NULL, err);
    kiln_params_release(&params);
    return rc;
}
