/* test_card_variety.c - variety in kiln.json: what a job is told, of guidance too, and what is
 * refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/storage/card.h"

static void a_job_is_told_of_more_than_was_measured(void **state)
{
    (void)state;
    char why[KILN_CARD_WHY];
    const struct kiln_model_card card =
        parse("{\"variety\": {\"model\": \"later\", \"most\": {\"256x256\": 0.4,"
              " \"448x512..512x512\": 0.2, \"896x512\": 0}, \"measured\": {}}}");
    assert_int_equal(card.variety_count, 3);
    assert_false(kiln_model_card_too_varied(&card, 0.4, 256, 256, why));
    assert_string_equal(why, "");
    assert_false(kiln_model_card_too_varied(&card, 0.2, 480, 512, why));
    assert_false(kiln_model_card_too_varied(&card, 0, 640, 640, why)); /* wants none */
    assert_true(kiln_model_card_too_varied(&card, 0.3, 512, 512, why));
    assert_string_equal(why, "variety 0.3 at 512x512: the picture may show less of what the prompt "
                             "says; measured to cost next to nothing: up to 0.4 at 256x256, up to "
                             "0.2 at 448x512..512x512, up to 0 at 896x512");
    assert_true(kiln_model_card_too_varied(&card, 0.1, 896, 512, why)); /* none held there */
    assert_true(kiln_model_card_too_varied(&card, 0.1, 640, 640, why)); /* nobody measured it */
}

static void guidance_is_not_for_a_model_that_replaces_noise(void **state)
{
    (void)state;
    char why[KILN_CARD_WHY];
    const struct kiln_model_card card = parse("{\"schedule\": {\"noise\": 0.5}}");
    const struct kiln_model_card other = parse("{\"schedule\": {\"steps\": 2}}");
    assert_false(kiln_model_card_unguided(&other, 4, why));
    assert_false(kiln_model_card_unguided(&card, 0, why));
    assert_string_equal(why, "");
    assert_true(kiln_model_card_unguided(&card, 2.5, why));
    assert_string_equal(why,
                        "guidance 2.5: kiln.json says that this model's steps replace noise; such "
                        "models are made to run without guidance, so the picture may be poor; "
                        "leave guidance out");
}

static void nobody_is_told_where_nothing_was_measured(void **state)
{
    (void)state;
    static const char *const none[] = {"{}", "{\"variety\": {}}", "{\"variety\": {\"most\": {}}}"};
    char why[KILN_CARD_WHY];
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        const struct kiln_model_card card = parse(none[i]);
        assert_false(kiln_model_card_too_varied(&card, 1, 512, 512, why));
        assert_string_equal(why, "");
    }
}

static void a_long_list_is_cut_in_the_sentence(void **state)
{
    (void)state;
    char text[2048], why[KILN_CARD_WHY];
    struct kiln_model_card card;
    struct kiln_error err;
    size_t len = (size_t)sprintf(text, "{\"variety\": {\"most\": {\"64x64\": 0.125");
    for (int i = 1; i < KILN_LIST_MAX; i++)
        len += (size_t)sprintf(text + len, ", \"%dx64\": 0.125", 64 + 16 * i);
    len += (size_t)sprintf(text + len, "}}}");
    assert_int_equal(kiln_model_card_parse(text, len, "x", &card, &err), 0);
    assert_true(kiln_model_card_too_varied(&card, 0.5, 64, 64, why));
    assert_int_equal(strlen(why), KILN_CARD_WHY - 1);
    strcpy(text + len - 3, ", \"2048x64\": 0}}}");
    assert_int_equal(kiln_model_card_parse(text, strlen(text), "x", &card, &err), KILN_CONFIG);
    assert_non_null(strstr(err.text, "\"variety.most\": at most 32 sizes are allowed"));
}

static void bad_values_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"variety\": 0.4}", "\"variety\": expected an object, found a number"},
        {"{\"variety\": {\"most\": 0.4}}", "\"variety.most\": expected an object, found a number"},
        {"{\"variety\": {\"most\": {\"16:9\": 0.4}}}", "\"variety.most\": \"16:9\""},
        {"{\"variety\": {\"most\": {\"250x256\": 0.4}}}", "\"variety.most\": width is 250"},
        {"{\"variety\": {\"most\": {\"256x256\": 1.1}}}",
         "\"variety.most\": 256x256: expected a number from 0 to 1"},
        {"{\"variety\": {\"most\": {\"256x256\": -0.1}}}", "expected a number from 0 to 1"},
        {"{\"variety\": {\"most\": {\"256x256\": \"0.4\"}}}", "expected a number from 0 to 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_refused(bad[i].text, bad[i].says);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_told_of_more_than_was_measured),
        cmocka_unit_test(guidance_is_not_for_a_model_that_replaces_noise),
        cmocka_unit_test(nobody_is_told_where_nothing_was_measured),
        cmocka_unit_test(a_long_list_is_cut_in_the_sentence),
        cmocka_unit_test(bad_values_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
