/* test_card_reuse.c - the object "teleport" of kiln.json: what donors may save a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/storage/card.h"

#define ROW                                                                                        \
    "\"class\": \"same_prompt\", \"depth\": 1, \"donors\": 4, \"uses\": 4, \"variety\": 0.99, "    \
    "\"loss\": "                                                                                   \
    "[0.1, "                                                                                       \
    "-0.4], \"for\": [\"256x256\"]"

static void rows_of_reuse_are_read(void **state)
{
    (void)state;
    struct kiln_model_card card =
        parse("{\"teleport\": {\"model\": \"572f17112d631616\", \"dtypes\": [\"bf16\"], \"rows\": ["
              "{" ROW ", \"later\": 1}, {\"class\": \"donor_says_more\", \"depth\": 7, \"donors\": "
              "1, \"uses\": 9,"
              " \"variety\": 0, \"loss\": [0, 0], \"for\": [\"64x64\", \"128x64..256x256\"],"
              " \"dtypes\": [\"bf16\", \"fp8\"]}]}}");
    const struct kiln_card_reuse *reuse = &card.reuse;
    assert_int_equal(reuse->row_count, 2);
    assert_int_equal(reuse->steps, KILN_STEPS_DEFAULT);
    assert_int_equal(reuse->rows[0].class, KILN_REUSE_SAME_PROMPT);
    assert_true(reuse->rows[0].variety == 0.99 && reuse->rows[0].loss_whole == -0.4);
    assert_int_equal(reuse->rows[1].class, KILN_REUSE_DONOR_SAYS_MORE);
    assert_int_equal(reuse->rows[1].uses, 9);
    assert_true(kiln_card_reuse_at(&reuse->rows[1], 192, 64));
    assert_false(kiln_card_reuse_at(&reuse->rows[1], 96, 64));
    struct kiln_card_reuse_run run = {KILN_REUSE_OWN, KILN_REUSE_SAME_PROMPT, 1, 256, 256};
    assert_true(kiln_card_reuse_fits(reuse, &run, "572f17112d631616", "bf16"));
    assert_false(kiln_card_reuse_fits(reuse, &run, "572f17112d631617", "bf16"));
    assert_false(kiln_card_reuse_fits(reuse, &run, "572f17112d631616", "fp8"));
    run.depth = 2;
    assert_false(kiln_card_reuse_fits(reuse, &run, "572f17112d631616", "bf16"));
    run = (struct kiln_card_reuse_run){KILN_REUSE_OWN, KILN_REUSE_DONOR_SAYS_MORE, 7, 128, 64};
    assert_true(kiln_card_reuse_fits(reuse, &run, "572f17112d631616", "bf16"));
    assert_true(kiln_card_reuse_fits(reuse, &run, "572f17112d631616", "fp8"));
    assert_int_equal(kiln_card_reuse_soften(reuse, 1), 0);
    card = parse("{\"teleport\": {\"soften\": [4, 0, 16]}}");
    assert_int_equal(kiln_card_reuse_soften(&card.reuse, 1), 4);
    assert_int_equal(kiln_card_reuse_soften(&card.reuse, 2), 0);
    assert_int_equal(kiln_card_reuse_soften(&card.reuse, 3), 16);
    assert_int_equal(kiln_card_reuse_soften(&card.reuse, 4), 0);
    card = parse("{}");
    assert_false(kiln_card_reuse_fits(&card.reuse, &run, "572f17112d631616", "bf16"));
}

static bool bounds_of(const struct kiln_card_reuse *reuse, enum kiln_reuse_table table,
                      enum kiln_reuse_class class, uint32_t depth, uint32_t width, uint32_t height,
                      double ret[2])
{
    const struct kiln_card_reuse_run run = {table, class, depth, width, height};
    return kiln_card_reuse_bounds(reuse, &run, ret);
}

static void bounds_of_the_change_are_found(void **state)
{
    (void)state;
    struct kiln_model_card card =
        parse("{\"teleport\": {\"rows\": [{" ROW "}, {" ROW ", \"change\": [0, 0.5]}, "
              "{\"class\": \"reworded\", \"depth\": 7, \"donors\": 1, \"uses\": 1, \"variety\": 0,"
              " \"loss\": [0, 0], \"for\": [\"64x64\"], \"change\": [0.25, 1.5]}]}}");
    const struct kiln_card_reuse *reuse = &card.reuse;
    double bounds[2];
    assert_true(bounds_of(reuse, KILN_REUSE_OWN, KILN_REUSE_SAME_PROMPT, reuse->rows[0].depth, 256,
                          256, bounds));
    assert_true(bounds[0] == 0 && bounds[1] == 0.5);
    assert_true(bounds_of(reuse, KILN_REUSE_OWN, KILN_REUSE_REWORDED, 7, 64, 64, bounds));
    assert_true(bounds[0] == 0.25 && bounds[1] == 1.5);
    assert_false(bounds_of(reuse, KILN_REUSE_OWN, KILN_REUSE_REWORDED, 7, 64, 96, bounds));
    assert_false(bounds_of(reuse, KILN_REUSE_OWN, KILN_REUSE_REWORDED, 6, 64, 64, bounds));
    assert_false(bounds_of(reuse, KILN_REUSE_OWN, KILN_REUSE_CANONICAL, 7, 64, 64, bounds));
    assert_false(bounds_of(reuse, KILN_REUSE_SMALL, KILN_REUSE_REWORDED, 7, 64, 64, bounds));
}

static void rows_of_small_donors_stand_apart(void **state)
{
    (void)state;
    uint32_t count;
    const struct kiln_model_card card =
        parse("{\"teleport\": {\"small\": {\"measured\": {}, \"rows\": [{\"class\": \"canonical\","
              " \"depth\": 6, \"donors\": 1, \"uses\": 1, \"variety\": 0, \"loss\": [0, 0],"
              " \"for\": [\"64x64\"]}]}, \"rows\": [{" ROW "}, {" ROW "}]}}");
    const struct kiln_card_reuse_row *rows =
        kiln_card_reuse_rows(&card.reuse, KILN_REUSE_OWN, &count);
    assert_int_equal(count, 2);
    assert_int_equal(rows[1].class, KILN_REUSE_SAME_PROMPT);
    rows = kiln_card_reuse_rows(&card.reuse, KILN_REUSE_SMALL, &count);
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].class, KILN_REUSE_CANONICAL);
    assert_int_equal(rows[0].depth, 6);
}

static void rows_of_coarse_runs_are_of_one_mode(void **state)
{
    (void)state;
    uint32_t count;
    const struct kiln_model_card card = parse("{\"teleport\": {\"coarse\": {\"rows\": [{" ROW
                                              "}], \"mode\": \"4+2\"}, \"rows\": []}}");
    const struct kiln_card_reuse_row *rows =
        kiln_card_reuse_rows(&card.reuse, KILN_REUSE_COARSE, &count);
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].class, KILN_REUSE_SAME_PROMPT);
    assert_int_equal(card.reuse.coarse.small, 4);
    assert_int_equal(card.reuse.coarse.full, 2);
}

#define INK "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define PEN "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void rows_of_loras_are_of_their_files(void **state)
{
    (void)state;
    const struct kiln_model_card card = parse(
        "{\"teleport\": {\"rows\": [{" ROW "}], \"loras\": [{\"name\": \"ink\", \"sha256\": \"" INK
        "\", \"strength\": 0.8, \"rows\": [{" ROW "}, {" ROW "}], \"measured\": {}},"
        " {\"sha256\": \"" PEN
        "\", \"rows\": [{\"class\": \"canonical\", \"depth\": 6, \"donors\": 1,"
        " \"uses\": 1, \"variety\": 0, \"loss\": [0, 0], \"for\": [\"64x64\"]}]}]}}");
    const struct kiln_card_reuse *reuse = &card.reuse;
    struct kiln_job job = {.lora_count = 1, .loras = {{.scale = 0.8, .sha256 = INK}}};
    enum kiln_reuse_table table;
    uint32_t count;
    assert_true(kiln_card_reuse_table_of(reuse, &job, false, false, &table));
    assert_int_equal(kiln_card_reuse_rows(reuse, table, &count)[1].class, KILN_REUSE_SAME_PROMPT);
    assert_int_equal(count, 2);
    assert_false(kiln_card_reuse_table_of(reuse, &job, true, false, &table));
    assert_false(kiln_card_reuse_table_of(reuse, &job, false, true, &table));
    memcpy(job.loras[0].sha256, PEN, sizeof PEN);
    assert_true(kiln_card_reuse_table_of(reuse, &job, false, false, &table));
    assert_int_equal(kiln_card_reuse_rows(reuse, table, &count)->class, KILN_REUSE_CANONICAL);
    assert_int_equal(count, 1);
    job.loras[0].scale = 1.01; /* 1 if nothing is said */
    assert_false(kiln_card_reuse_table_of(reuse, &job, false, false, &table));
    static const double close[] = {1.0001, 1.0004, 1.0006, 1.001, 1.0011};
    for (size_t i = 0; i < sizeof close / sizeof *close; i++) { /* a job and its set agree */
        char set[KILN_LORA_SET_MAX];
        job.loras[0].scale = close[i];
        kiln_lora_set_key(job.loras, 1, set, sizeof set);
        const bool serves = kiln_card_reuse_serves(reuse, set);
        assert_int_equal(kiln_card_reuse_table_of(reuse, &job, false, false, &table), serves);
        assert_int_equal(serves, close[i] < 1.0005);
    }
    job = (struct kiln_job){.lora_count = 0};
    assert_true(kiln_card_reuse_table_of(reuse, &job, true, false, &table));
    assert_int_equal(table, KILN_REUSE_SMALL);
    kiln_card_reuse_rows(reuse, KILN_REUSE_OWN, &count);
    assert_int_equal(count, 1);
}

static void a_card_may_have_rows_of_loras_alone(void **state)
{
    (void)state;
    const struct kiln_model_card none = parse("{\"teleport\": {\"loras\": [{\"sha256\": \"" INK
                                              "\", \"rows\": []}]}}"),
                                 one = parse("{\"teleport\": {\"loras\": [{\"sha256\": \"" INK
                                             "\", \"rows\": [{" ROW "}]}]}}");
    assert_false(kiln_card_reuse_offers(&none.reuse));
    assert_true(kiln_card_reuse_offers(&one.reuse));
    assert_false(kiln_card_reuse_serves(&one.reuse, ""));
    assert_true(kiln_card_reuse_serves(&one.reuse, "ink:1@0011223344556677"));
    assert_true(kiln_card_reuse_serves(&one.reuse, "ink:0.25@0011223344556677"));
    assert_false(kiln_card_reuse_serves(&one.reuse, "ink:1.25@0011223344556677"));
    assert_false(kiln_card_reuse_serves(&none.reuse, "ink:1@0011223344556677"));
}

static void rows_of_other_formats_are_left_out(void **state)
{
    (void)state;
    static const char *const also = "{" ROW ", \"dtypes\": [\"bf16\", \"fp8\"]}, {" ROW "}";
    char text[4096];
    snprintf(text, sizeof text,
             "{\"teleport\": {\"dtypes\": [\"bf16\"], \"rows\": [{" ROW "}, %s], \"loras\":"
             " [{\"sha256\": \"" INK "\", \"rows\": [{" ROW "}]}, {\"sha256\": \"" PEN
             "\", \"rows\": [%s]}], \"small\": {\"rows\": [{" ROW "}]}}}",
             also, also);
    struct kiln_model_card card = parse(text);
    struct kiln_card_reuse *reuse = &card.reuse;
    uint32_t count;
    kiln_card_reuse_keep(reuse, "bf16");
    assert_int_equal(reuse->row_count, 3);
    kiln_card_reuse_keep(reuse, "fp8");
    assert_int_equal(reuse->row_count, 1);
    assert_int_equal(reuse->rows[0].dtypes.count, 2);
    assert_int_equal(reuse->small_count, 0);
    kiln_card_reuse_rows(reuse, KILN_REUSE_LORA, &count);
    assert_int_equal(count, 0);
    assert_int_equal(kiln_card_reuse_rows(reuse, KILN_REUSE_LORA + 1, &count)->dtypes.count, 2);
    assert_int_equal(count, 1);
    kiln_card_reuse_keep(reuse, "fp32");
    assert_int_equal(reuse->row_count, 0);
}

static void bad_rows_of_reuse_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *reuse, *says;
    } cases[] = {
        {"3", "\"teleport\": expected an object"},
        {"{\"model\": \"x\"}", "\"teleport.model\""},
        {"{\"dtypes\": [\"int4\"]}", "\"teleport.dtypes\""},
        {"{\"soften\": 4}", "\"teleport.soften\": expected a list"},
        {"{\"soften\": [1.5]}", "\"teleport.soften\": expected whole numbers"},
        {"{\"soften\": [257]}", "\"teleport.soften\": expected a number from 0 to 256"},
        {"{\"soften\": [1,1,1,1,1,1,1,1,1]}", "at most 8 depths"},
        {"{\"rows\": {}}", "\"teleport.rows\": expected a list"},
        {"{\"rows\": [{}]}", "number 1 lacks \"class\""},
        {"{\"rows\": [{" ROW "}, {\"class\": \"same_prompt\"}]}", "number 2 lacks \"depth\""},
        {"{\"rows\": [{\"class\": \"near\"}]}", "\"class\": \"near\": expected \"same_prompt\""},
        {"{\"rows\": [{\"donors\": 0}]}", "\"donors\": expected a whole number from 1"},
        {"{\"rows\": [{\"variety\": -1}]}", "\"variety\": expected a number from 0 to 2"},
        {"{\"rows\": [{\"loss\": [1]}]}", "expected two numbers"},
        {"{\"rows\": [{\"loss\": [1, 2, 3]}]}", "at most 2 losses"},
        {"{\"rows\": [{\"for\": [\"big\"]}]}", "\"for\""},
        {"{\"rows\": [{\"change\": [1]}]}", "\"change\": expected two numbers: the least"},
        {"{\"rows\": [{\"change\": [2, 1]}]}", "\"change\": expected two numbers: the least"},
        {"{\"rows\": [{\"change\": [0, 0]}]}", "\"change\": expected two numbers: the least"},
        {"{\"rows\": [{\"change\": [-1, 1]}]}", "\"change\": expected a number from 0"},
        {"{\"steps\": 1, \"rows\": [{" ROW "}]}", "number 1: depth 1 of 1 steps leaves none"},
        {"{\"steps\": 1, \"small\": {\"rows\": [{" ROW "}]}}",
         "\"teleport.small.rows\": number 1: depth 1 of 1 steps leaves none"},
        {"{\"coarse\": {\"rows\": [{" ROW "}]}}", "\"teleport.coarse\": its rows need a \"mode\""},
        {"{\"coarse\": {\"rows\": [{" ROW "}], \"mode\": \"1+3\"}}",
         "\"teleport.coarse.rows\": number 1: depth 1 of 1 steps leaves none"},
        {"{\"coarse\": {\"mode\": \"auto\"}}",
         "\"teleport.coarse.mode\": \"auto\": expected steps"},
        {"{\"coarse\": []}", "\"teleport.coarse\": expected an object"},
        {"{\"loras\": {}}", "\"teleport.loras\": expected a list"},
        {"{\"loras\": [{}]}", "\"teleport.loras\": a LoRA without \"sha256\""},
        {"{\"loras\": [{\"sha256\": \"12\"}]}", "\"sha256\": expected 64 hex digits"},
        {"{\"loras\": [{\"strength\": 0}]}", "\"strength\": expected a number above 0"},
        {"{\"loras\": [{\"sha256\": \"" INK "\", \"rows\": [{}]}]}", "number 1 lacks \"class\""},
        {"{\"steps\": 1, \"loras\": [{\"sha256\": \"" INK "\", \"rows\": [{" ROW "}]}]}",
         "\"teleport.loras.rows\": number 1: depth 1 of 1 steps leaves none"},
        {"{\"rows\": [{\"dtypes\": [\"int4\"]}]}", "\"dtypes\""},
        {"{\"small\": 3}", "\"teleport.small\": expected an object"},
        {"{\"small\": {\"rows\": [{}]}}", "number 1 lacks \"class\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"teleport\": %s}", cases[i].reuse);
        expect_refused(text, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_reuse_are_read),
        cmocka_unit_test(bounds_of_the_change_are_found),
        cmocka_unit_test(rows_of_small_donors_stand_apart),
        cmocka_unit_test(rows_of_coarse_runs_are_of_one_mode),
        cmocka_unit_test(rows_of_loras_are_of_their_files),
        cmocka_unit_test(a_card_may_have_rows_of_loras_alone),
        cmocka_unit_test(rows_of_other_formats_are_left_out),
        cmocka_unit_test(bad_rows_of_reuse_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
