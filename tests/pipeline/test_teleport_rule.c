/* test_teleport_rule.c - what `kiln bench teleport` makes of its measurements: variety of a pool,
 * and the rows of kiln.json, against values computed by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/bench/detail.h"
#include "storage/formats/card/model_card.h"
#include "worker/bench/teleport/rule.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)
#define CELLS (KILN_LOW_CELLS * KILN_LOW_CELLS)

/* A picture as one number: distances are differences. */
static void put(float *at, int picture, float value)
{
    for (int i = 0; i < CELLS; i++)
        at[picture * CELLS + i] = value;
}

static void variety_counts_donors_but_only_of_the_pool(void **state)
{
    (void)state;
    static float donors[8 * CELLS], drawn[64 * CELLS];
    struct kiln_teleport_varied v;
    for (int d = 0; d < 8; d++) {
        put(donors, d, (float)(100 * d));
        for (int use = 0; use < 8; use++) /* from donor d: 3, 8, 13, ... above it */
            put(drawn, use * 8 + d, (float)(100 * d + 3 + 5 * use));
    }
    kiln_teleport_vary(donors, drawn, 1, &v);
    NEAR(v.near[0][0], 3.0);
    NEAR(v.near[0][1], (3 + 5) / 2.0); /* 3 is nearest to its donor, 8 to 3 */
    NEAR(v.near[0][2], (3 + 7 * 5) / 8.0);
    NEAR(v.near[3][2], (3 + 7 * 5) / 8.0); /* other donors are far away */
    assert_true(isnan(v.spread[0][0]));    /* one picture alone */
    NEAR(v.spread[0][1], 5.0);
    NEAR(v.spread[1][0], 100.0); /* 3 and 103 */
    NEAR(v.spread[1][1], (100 + 100 + 5 + 5 + 105 + 95) / 6.0);
}

static void full_runs_are_compared_in_groups_of_the_same_size(void **state)
{
    (void)state;
    static float full[72 * CELLS];
    struct kiln_teleport_varied v;
    for (int i = 0; i < 72; i++) /* couples 1 apart, couples 10 apart */
        put(full, i, (float)(10 * (i / 2) + i % 2));
    kiln_teleport_vary_full(full, 1, &v);
    NEAR(v.near[0][0], 1.0); /* 1 donor, 1 use: couples */
    /* 1 donor, 2 uses: 24 blocks of three, (0 1 10) and (11 20 21) in turn: 1, 1, 9 and 9, 1, 1. */
    NEAR(v.near[0][1], 11.0 / 3);
    NEAR(v.near[3][2], 1.0);              /* all 72 */
    NEAR(v.spread[0][0], v.spread[3][2]); /* always among all */
}

static struct kiln_teleport_finding finding(enum kiln_reuse_class class, uint32_t depth,
                                            double attributes, double whole, double near)
{
    struct kiln_teleport_finding f = {.class = class,
                                      .depth = depth,
                                      .size = {256, 256},
                                      .dtype = "bf16",
                                      .pairs = 500,
                                      .asked = 3000,
                                      .pictures = 500,
                                      .attributes = {attributes / 100, 0.001},
                                      .whole = {whole / 100, 0.003}};
    /* More donors leave more variety, more uses less. */
    for (int p = 0; p < KILN_TELEPORT_POOLS; p++)
        for (int u = 0; u < KILN_TELEPORT_USES; u++)
            f.near[p][u] = (struct kiln_estimate){near * (1 + 0.1 * p - 0.1 * u), 0.01};
    return f;
}

static json_t *rows_of(const struct kiln_teleport_finding *found, size_t count,
                       json_t **not_offered)
{
    struct kiln_error err = {0};
    json_t *rows;
    if (kiln_teleport_rows(found, count, &rows, not_offered, &err))
        fail_msg("%s", err.text);
    return rows;
}

static void a_loss_counts_with_its_error(void **state)
{
    (void)state;
    char why[KILN_FIGURE_WHY];
    struct kiln_teleport_finding f = finding(KILN_REUSE_REWORDED, 3, -0.4, -1.2, 1);
    assert_true(kiln_teleport_holds(&f, why));
    assert_string_equal(why, "");
    f.attributes.value = -0.0042; /* 0.42 + 0.1 */
    assert_false(kiln_teleport_holds(&f, why));
    assert_non_null(strstr(why, "attributes: too few pictures to tell (-0.4 ± 0.1 points"));
    f.whole.value = -0.02;
    assert_false(kiln_teleport_holds(&f, why));
    assert_non_null(strstr(why, "whole prompts: -2.0 ± 0.3 points, more than the -1.5 allowed"));
    f = finding(KILN_REUSE_REWORDED, 3, 2, 2, 1);
    f.whole.error = 0; /* no fault in few pictures proves nothing */
    f.pairs = 29;
    assert_false(kiln_teleport_holds(&f, why));
    f.pairs = f.pictures = 50; /* an error of one of 50 at least, 2 points: 2 gained leave 0 */
    assert_true(kiln_teleport_holds(&f, why));
    f.whole.value = 0;
    assert_false(kiln_teleport_holds(&f, why));
}

static void rows_say_no_more_than_was_measured(void **state)
{
    (void)state;
    json_t *not_offered;
    struct kiln_teleport_finding found[] = {finding(KILN_REUSE_SAME_PROMPT, 1, 0.1, -0.8, 1.0),
                                            finding(KILN_REUSE_SAME_PROMPT, 2, -3, -9, 0.8)};
    json_t *rows = rows_of(found, 2, &not_offered);
    /* One donor, used once, leaves 1 - 0.01; two may be used twice, four and eight eight times. */
    assert_true(json_array_size(rows) >= 3);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *loss = json_object_get(row, "loss");
        assert_string_equal(json_string_value(json_object_get(row, "class")), "same_prompt");
        assert_int_equal(json_integer_value(json_object_get(row, "depth")), 1);
        NEAR(json_number_value(json_array_get(loss, 0)), 0.0); /* a gain of 0.1, less 0.1 */
        NEAR(json_number_value(json_array_get(loss, 1)), 1.1); /* 0.8 and 0.3 */
    }
    const json_t *first = json_array_get(rows, 0);
    assert_int_equal(json_integer_value(json_object_get(first, "donors")), 1);
    assert_int_equal(json_integer_value(json_object_get(first, "uses")), 1);
    NEAR(json_number_value(json_object_get(first, "variety")), 0.99);
    assert_int_equal(json_array_size(not_offered), 1);
    assert_non_null(strstr(json_string_value(json_array_get(not_offered, 0)),
                           "same_prompt, skip 2 at 256x256, bf16: attributes: -3.0 ± 0.1 points"));
    json_decref(rows);
    json_decref(not_offered);
}

/* A style that the judge does not know may have been lost unseen. */
static void a_style_must_not_be_lost(void **state)
{
    (void)state;
    char why[KILN_FIGURE_WHY];
    struct kiln_teleport_finding f = finding(KILN_REUSE_SAME_PROMPT, 1, 0, 0, 1);
    f.with_lora = true;
    f.style = (struct kiln_estimate){-0.006, 0.003};
    assert_true(kiln_teleport_holds(&f, why));
    f.style.value = -0.008;
    assert_false(kiln_teleport_holds(&f, why));
    assert_non_null(strstr(why, "style: too few pictures to tell (-0.8 ± 0.3 points"));
    f.style = (struct kiln_estimate){NAN, NAN};
    assert_false(kiln_teleport_holds(&f, why));
    assert_non_null(strstr(why, "style: "));
}

/* One row for all number formats: it must hold in each, and says what the worst of them came to. */
static void a_row_is_the_worst_of_the_formats(void **state)
{
    (void)state;
    json_t *not_offered;
    struct kiln_teleport_finding found[] = {finding(KILN_REUSE_SAME_PROMPT, 1, 0, -0.2, 1.2),
                                            finding(KILN_REUSE_SAME_PROMPT, 2, 0, 0, 1.2),
                                            finding(KILN_REUSE_SAME_PROMPT, 1, -0.3, 0, 1.0),
                                            finding(KILN_REUSE_SAME_PROMPT, 2, 0, -2, 1.2)};
    found[2].dtype = found[3].dtype = "fp8";
    found[0].change[0] = 0.5, found[0].change[1] = 2;
    found[2].change[0] = 0.25, found[2].change[1] = 1.5;
    json_t *rows = rows_of(found, 4, &not_offered);
    const json_t *row = json_array_get(rows, 0), *loss = json_object_get(row, "loss");
    const json_t *change = json_object_get(row, "change");
    for (size_t i = 0; i < json_array_size(rows); i++)
        assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, i), "depth")), 1);
    NEAR(json_number_value(json_object_get(row, "variety")), 0.99);
    NEAR(json_number_value(json_array_get(loss, 0)), 0.4);
    NEAR(json_number_value(json_array_get(loss, 1)), 0.5);
    NEAR(json_number_value(json_array_get(change, 0)), 0.25);
    NEAR(json_number_value(json_array_get(change, 1)), 2);
    assert_int_equal(json_array_size(not_offered), 1);
    assert_non_null(strstr(json_string_value(json_array_get(not_offered, 0)),
                           "same_prompt, skip 2 at 256x256, fp8: whole prompts: -2.0"));
    json_decref(rows);
    json_decref(not_offered);
}

/* 1: donors x uses that reach a level; the deeper row covers the shallower one where it leaves as
 * much; below all levels the deepest alone stays. */
static void superfluous_rows_are_left_out(void **state)
{
    (void)state;
    json_t *not_offered;
    struct kiln_teleport_finding found[7];
    for (uint32_t depth = 1; depth <= 7; depth++)
        found[depth - 1] =
            finding(KILN_REUSE_REWORDED, depth, 0, 0, depth <= 2 ? 2.0 : 0.1 / depth);
    json_t *rows = rows_of(found, 7, &not_offered);
    assert_int_equal(json_array_size(rows), 2);
    const json_t *one = json_array_get(rows, 0), *two = json_array_get(rows, 1);
    assert_int_equal(json_integer_value(json_object_get(one, "depth")), 2);
    assert_int_equal(json_integer_value(json_object_get(one, "donors")), 1);
    assert_int_equal(json_integer_value(json_object_get(one, "uses")), 8);
    assert_int_equal(json_integer_value(json_object_get(two, "depth")), 7);
    assert_int_equal(json_integer_value(json_object_get(two, "donors")), 1);
    assert_int_equal(json_array_size(not_offered), 0);
    json_decref(rows);
    json_decref(not_offered);
}

static void a_worker_reads_the_rows(void **state)
{
    (void)state;
    json_t *not_offered;
    struct kiln_model_card card;
    struct kiln_error err = {0};
    struct kiln_teleport_finding found[] = {finding(KILN_REUSE_SAME_PROMPT, 1, 0, 0, 1.1),
                                            finding(KILN_REUSE_CANONICAL, 7, 0, -0.5, 0.1)};
    found[1].size = (struct kiln_picture_size){512, 288};
    found[1].near[0][0] = (struct kiln_estimate){3, NAN}; /* one pool: how wrong is unknown */
    json_t *rows = rows_of(found, 2, &not_offered);
    json_t *whole =
        json_pack("{s:{s:s, s:[s], s:i, s:o, s:o}}", "teleport", "model", "0123456789abcdef",
                  "dtypes", "bf16", "steps", 8, "rows", rows, "not_offered", not_offered);
    char *text = json_dumps(whole, 0);
    if (kiln_model_card_parse(text, strlen(text), "kiln.json", &card, &err))
        fail_msg("%s: %s", err.text, text);
    assert_int_equal(card.reuse.row_count, json_array_size(rows));
    const struct kiln_card_reuse_row *last = &card.reuse.rows[card.reuse.row_count - 1];
    assert_int_equal(last->class, KILN_REUSE_CANONICAL);
    assert_int_equal(last->depth, 7);
    NEAR(last->variety, 0.0);
    NEAR(last->loss_whole, 0.8);
    assert_true(kiln_card_reuse_at(last, 512, 288) && !kiln_card_reuse_at(last, 256, 256));
    const struct kiln_card_reuse_run run = {KILN_REUSE_OWN, KILN_REUSE_CANONICAL, 7, 512, 288};
    assert_true(kiln_card_reuse_fits(&card.reuse, &run, "0123456789abcdef", "bf16"));
    free(text);
    json_decref(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variety_counts_donors_but_only_of_the_pool),
        cmocka_unit_test(full_runs_are_compared_in_groups_of_the_same_size),
        cmocka_unit_test(a_loss_counts_with_its_error),
        cmocka_unit_test(rows_say_no_more_than_was_measured),
        cmocka_unit_test(a_style_must_not_be_lost),
        cmocka_unit_test(a_row_is_the_worst_of_the_formats),
        cmocka_unit_test(superfluous_rows_are_left_out),
        cmocka_unit_test(a_worker_reads_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
