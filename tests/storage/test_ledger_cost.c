/* test_ledger_cost.c - learned costs in the ledger: what is kept comes back, the last word wins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/queue/cost.h"
#include "tests/support/rig.h"

struct found {
    struct kiln_cost_row rows[600];
    size_t count, stop_after;
};

static int add_row(void *arg, const struct kiln_cost_row *row, struct kiln_error *err)
{
    struct found *found = arg;
    if (found->count < sizeof found->rows / sizeof found->rows[0])
        found->rows[found->count] = *row;
    found->count++;
    return found->count == found->stop_after ? kiln_fail(err, KILN_CANCELLED, "enough") : 0;
}

static void read_all(const char *pool, struct found *ret)
{
    memset(ret, 0, sizeof *ret);
    kiln_test_ok(kiln_ledger_costs(rig.ledger, pool, add_row, ret, &rig.err), rig.err);
}

static void keep(const char *pool, const struct kiln_cost_row *rows, size_t count)
{
    kiln_test_ok(kiln_ledger_keep_costs(rig.ledger, pool, rows, count, &rig.err), rig.err);
}

static void what_is_kept_comes_back(void **state)
{
    struct kiln_cost_row rows[2] = {{.kind = KILN_COST_BATCH,
                                     .model = "turbo",
                                     .device = "nvidia-h200",
                                     .width = 1344,
                                     .height = 768,
                                     .steps = 8,
                                     .jobs = 4,
                                     .guided = true,
                                     .mean = 1.25,
                                     .spread = 0.0625,
                                     .samples = 17},
                                    {.kind = KILN_COST_LOAD_WARM,
                                     .lora_set = "ink:0.8+oil:1",
                                     .mean = 0.1,
                                     .spread = 1e-3,
                                     .samples = 4000000000}};
    static struct found found;
    (void)state;
    keep("first", rows, 0);
    keep("first", rows, 2);
    read_all("first", &found);
    assert_int_equal(found.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct kiln_cost_row *row = &found.rows[i], *was = &rows[row->kind != rows[0].kind];
        assert_int_equal(row->kind, was->kind);
        assert_string_equal(row->model, was->model);
        assert_string_equal(row->device, was->device);
        assert_string_equal(row->lora_set, was->lora_set);
        assert_int_equal(row->width, was->width);
        assert_int_equal(row->height, was->height);
        assert_int_equal(row->steps, was->steps);
        assert_int_equal(row->jobs, was->jobs);
        assert_int_equal(row->guided, was->guided);
        assert_true(row->mean == was->mean && row->spread == was->spread);
    }
    read_all("second", &found); /* another pool knows nothing of it */
    assert_int_equal(found.count, 0);
}

static void the_last_word_wins(void **state)
{
    struct kiln_cost_row row = {.kind = KILN_COST_SPEED, .mean = 2, .spread = 1, .samples = 1};
    static struct found found;
    (void)state;
    keep("again", &row, 1);
    row.mean = 3;
    row.samples = 2;
    keep("again", &row, 1);
    read_all("again", &found);
    assert_int_equal(found.count, 1);
    assert_true(found.rows[0].mean == 3);
    assert_int_equal(found.rows[0].samples, 2);
}

static void many_rows_in_pages(void **state)
{
    static struct kiln_cost_row rows[KILN_COST_WRITE_MAX + 1];
    static struct found found;
    (void)state;
    for (size_t i = 0; i <= KILN_COST_WRITE_MAX; i++) {
        rows[i] = (struct kiln_cost_row){
            .kind = KILN_COST_LOAD_COLD, .mean = 1, .spread = 1, .samples = 1};
        snprintf(rows[i].lora_set, sizeof rows[i].lora_set, "s%zu:1", i);
    }
    assert_int_equal(
        kiln_ledger_keep_costs(rig.ledger, "pages", rows, KILN_COST_WRITE_MAX + 1, &rig.err),
        KILN_BAD_INPUT);
    keep("pages", rows, KILN_COST_WRITE_MAX);
    keep("pages", rows + KILN_COST_WRITE_MAX, 1);
    read_all("pages", &found);
    assert_int_equal(found.count, KILN_COST_WRITE_MAX + 1);
    found = (struct found){.stop_after = 3};
    assert_int_equal(kiln_ledger_costs(rig.ledger, "pages", add_row, &found, &rig.err),
                     KILN_CANCELLED);
    assert_int_equal(found.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_comes_back),
        cmocka_unit_test(the_last_word_wins),
        cmocka_unit_test(many_rows_in_pages),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
