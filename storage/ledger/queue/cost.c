/* cost.c - the cost table: whole at the start, a page of changes at a time later. */
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
    kiln_bind_text(&params, pool);
    return kiln_ledger_each(ledger, &read, &params, read_row, &reading, err);
}

static void bind_numbers(struct kiln_params *params, const struct kiln_cost_row *rows, size_t count)
{
    struct kiln_array kind, width, height, steps, jobs, guided, samples;
    kiln_array_start(&kind, KILN_ARRAY_INT2);
    kiln_array_start(&width, KILN_ARRAY_INT4);
    kiln_array_start(&height, KILN_ARRAY_INT4);
    kiln_array_start(&steps, KILN_ARRAY_INT4);
    kiln_array_start(&jobs, KILN_ARRAY_INT4);
    kiln_array_start(&guided, KILN_ARRAY_BOOL);
    kiln_array_start(&samples, KILN_ARRAY_INT4);
    for (size_t i = 0; i < count; i++) {
        kiln_array_int(&kind, rows[i].kind);
        kiln_array_int(&width, rows[i].width);
        kiln_array_int(&height, rows[i].height);
        kiln_array_int(&steps, rows[i].steps);
        kiln_array_int(&jobs, rows[i].jobs);
        kiln_array_int(&guided, rows[i].guided);
        kiln_array_int(&samples, rows[i].samples < INT32_MAX ? rows[i].samples : INT32_MAX);
    }
    kiln_bind_array(params, &kind);
    kiln_bind_array(params, &width);
    kiln_bind_array(params, &height);
    kiln_bind_array(params, &steps);
    kiln_bind_array(params, &jobs);
    kiln_bind_array(params, &guided);
    kiln_bind_array(params, &samples);
}

static void bind_rest(struct kiln_params *params, const struct kiln_cost_row *rows, size_t count)
{
    struct kiln_array model, device, lora_set, mean, spread;
    kiln_array_start(&model, KILN_ARRAY_TEXT);
    kiln_array_start(&device, KILN_ARRAY_TEXT);
    kiln_array_start(&lora_set, KILN_ARRAY_TEXT);
    kiln_array_start(&mean, KILN_ARRAY_FLOAT8);
    kiln_array_start(&spread, KILN_ARRAY_FLOAT8);
    for (size_t i = 0; i < count; i++) {
        kiln_array_text(&model, rows[i].model);
        kiln_array_text(&device, rows[i].device);
        kiln_array_text(&lora_set, rows[i].lora_set);
        kiln_array_double(&mean, rows[i].mean);
        kiln_array_double(&spread, rows[i].spread);
    }
    kiln_bind_array(params, &model);
    kiln_bind_array(params, &device);
    kiln_bind_array(params, &lora_set);
    kiln_bind_array(params, &mean);
    kiln_bind_array(params, &spread);
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
    kiln_bind_text(&params, pool);
    bind_numbers(&params, rows, count);
    bind_rest(&params, rows, count);
    int rc = kiln_ledger_run(ledger, &keep, &params, NULL, err);
    kiln_params_release(&params);
    return rc;
}
