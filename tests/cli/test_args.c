/* test_args.c - the options of a verb, numbers, ids, and texts for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/help.h"
#include "scheduler/cli/verb_tables.h"

static const struct kiln_option options[] = {
    {"batch", "NAME", ""}, {"all", NULL, ""}, {"set", "K=V", ""}, {NULL, NULL, NULL}};
static const struct kiln_option more[] = {{"out", "DIR", ""}, {NULL, NULL, NULL}};
static const struct kiln_verb verb = {
    .name = "probe", .args = "WORD", .options = options, .also = more};

/* Parses a copy of the words, which end with NULL; their strings outlive the call. */
static int parse(const char *const *words, int min, int max, char **argv, struct kiln_args *ret)
{
    struct kiln_cli cli = {.verb = &verb, .quiet = true};
    int argc = 0;
    for (; words[argc]; argc++)
        argv[argc] = (char *)words[argc];
    return kiln_args_parse(&cli, argc, argv, min, max, ret);
}

static void options_and_words_in_any_order(void **state)
{
    char *argv[16];
    struct kiln_args args;
    (void)state;
    assert_int_equal(
        parse((const char *[]){"probe", "one", "--batch", "b", "--all", "--set=x=1", "two", "--set",
                               "y=2", "--out", "d", "--", "--three", NULL},
              0, 3, argv, &args),
        0);
    assert_int_equal(args.rest_count, 3);
    assert_string_equal(args.rest[0], "one");
    assert_string_equal(args.rest[1], "two");
    assert_string_equal(args.rest[2], "--three");
    assert_string_equal(kiln_arg(&args, "batch"), "b");
    assert_string_equal(kiln_arg(&args, "all"), "");
    assert_string_equal(kiln_arg(&args, "set"), "y=2"); /* the last */
    assert_string_equal(kiln_arg(&args, "out"), "d");
    assert_null(kiln_arg(&args, "absent"));
    assert_int_equal(args.given_count, 5);
}

static void a_dash_is_a_word(void **state)
{
    char *argv[4];
    struct kiln_args args;
    (void)state;
    assert_int_equal(parse((const char *[]){"probe", "-", NULL}, 1, 1, argv, &args), 0);
    assert_string_equal(args.rest[0], "-");
}

static void wrong_lines_are_usage_errors(void **state)
{
    static const char *const lines[][4] = {
        {"probe", "--batch", NULL},
        {"probe", "--all=yes", NULL},
        {"probe", "--bacth", "x", NULL},
        {"probe", "-x", NULL},
        {"probe", NULL},
        {"probe", "a", "b", NULL},
        {"probe", "--ba", "value", NULL},
    };
    char *argv[4];
    struct kiln_args args;
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(parse(lines[i], 1, 1, argv, &args), EX_USAGE);
}

static void options_are_bounded(void **state)
{
    const char *words[KILN_GIVEN_MAX + 3] = {"probe"};
    char *argv[KILN_GIVEN_MAX + 3];
    struct kiln_args args;
    (void)state;
    for (int i = 1; i <= KILN_GIVEN_MAX; i++)
        words[i] = "--all";
    assert_int_equal(parse(words, 0, 0, argv, &args), 0);
    words[KILN_GIVEN_MAX + 1] = "--all";
    assert_int_equal(parse(words, 0, 0, argv, &args), EX_USAGE);
}

static void numbers_and_ids(void **state)
{
    struct kiln_cli cli = {.verb = &verb, .quiet = true};
    struct kiln_args args = {.given_count = 1, .given[0] = {&options[0], "12"}};
    long number = 0;
    uint64_t id = 0;
    (void)state;
    assert_int_equal(kiln_arg_int(&cli, &args, "batch", 1, 12, 5, &number), 0);
    assert_int_equal(number, 12);
    assert_int_equal(kiln_arg_int(&cli, &args, "batch", 1, 11, 5, &number), EX_USAGE);
    assert_int_equal(kiln_arg_int(&cli, &args, "out", 1, 11, 5, &number), 0);
    assert_int_equal(number, 5);
    static const char *const wrong[] = {"", "12x", "0x1", "1e3", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        args.given[0].value = wrong[i];
        assert_int_equal(kiln_arg_int(&cli, &args, "batch", 0, 1000000, 5, &number), EX_USAGE);
    }
    assert_int_equal(kiln_arg_job(&cli, "9223372036854775807", &id), 0);
    assert_true(id == INT64_MAX);
    static const char *const no_job[] = {"", "0", "-1", " 1", "1 ", "9223372036854775808", "abc"};
    for (size_t i = 0; i < sizeof no_job / sizeof *no_job; i++)
        assert_int_equal(kiln_arg_job(&cli, no_job[i], &id), EX_USAGE);
}

/* The value of an option in the first verb that has it. */
static const struct kiln_option *first_of_name(const char *name)
{
    const struct kiln_verb *row;
    for (size_t i = 0; (row = kiln_verb_at(i)); i++) {
        const struct kiln_option *const tables[] = {row->options, row->also};
        for (size_t t = 0; t < 2; t++)
            for (const struct kiln_option *o = tables[t]; o && o->name; o++)
                if (strcmp(o->name, name) == 0)
                    return o;
    }
    return NULL;
}

static void an_option_means_the_same_in_every_verb(void **state)
{
    static const struct kiln_option meanings[] = {
        {"out", "DIR", NULL}, {"limit", "N", NULL}, {"latents", NULL, NULL}, {"yes", NULL, NULL}};
    const struct kiln_verb *row;
    (void)state;
    for (size_t i = 0; (row = kiln_verb_at(i)); i++) {
        const struct kiln_option *const tables[] = {row->options, row->also};
        for (size_t t = 0; t < 2; t++)
            for (const struct kiln_option *o = tables[t]; o && o->name; o++)
                if (!o->value != !first_of_name(o->name)->value)
                    fail_msg("--%s takes a value in one verb and none in kiln %s", o->name,
                             row->name);
    }
    for (size_t m = 0; m < sizeof meanings / sizeof *meanings; m++) {
        const struct kiln_option *found = first_of_name(meanings[m].name);
        assert_non_null(found);
        if (meanings[m].value)
            assert_string_equal(found->value, meanings[m].value);
        else
            assert_null(found->value);
    }
}

static void texts_for_people(void **state)
{
    char text[64];
    (void)state;
    assert_string_equal(kiln_bytes_text(999, text, sizeof text), "999 B");
    assert_string_equal(kiln_bytes_text(1500, text, sizeof text), "1.5 KB");
    assert_string_equal(kiln_bytes_text(2.5e15, text, sizeof text), "2.5 PB");
    assert_string_equal(kiln_seconds_text(0.25, text, sizeof text), "0.2 s");
    assert_string_equal(kiln_seconds_text(-3, text, sizeof text), "0.0 s");
    assert_string_equal(kiln_seconds_text(125.2, text, sizeof text), "2 min 05 s");
    assert_string_equal(kiln_seconds_text(7260, text, sizeof text), "2 h 01 min");
    assert_string_equal(kiln_time_text(0, text, sizeof text), "1970-01-01T00:00:00.000Z");
    assert_string_equal(kiln_time_text(1795249854826, text, sizeof text),
                        "2026-11-21T08:30:54.826Z");
}

static void every_row_of_the_table_is_whole(void **state)
{
    (void)state;
    const struct kiln_cli table = {.verb_at = kiln_verb_at};
    const struct kiln_verb *row;
    for (size_t i = 0; (row = kiln_verb_at(i)); i++) {
        assert_non_null(row->args);
        assert_non_null(row->summary);
        assert_true(row->run || row->program);
        assert_ptr_equal(kiln_verb_find(&table, row->name), row); /* no name twice */
        for (const struct kiln_option *o = row->options; o && o->name; o++) {
            assert_non_null(o->help);
            for (int key = 0; key < KILN_KEY_COUNT;
                 key++) /* a setting would never reach the verb */
                assert_string_not_equal(o->name, kiln_keys[key].name);
        }
    }
    assert_null(kiln_verb_find(&table, "backfil"));
}

/* What a verb takes the words for; an exit status. */
static int target(const char *const *words, struct kiln_target *ret)
{
    struct kiln_cli cli = {.verb = &verb, .quiet = true, .silent = true};
    struct kiln_args args;
    char *argv[8];
    int status = parse(words, 0, 2, argv, &args);
    return status ? status : kiln_arg_target(&cli, &args, 0, ret);
}

static void a_number_is_a_job_and_a_name_a_batch(void **state)
{
    struct kiln_target what;
    (void)state;
    assert_int_equal(target((const char *[]){"probe", "17", NULL}, &what), 0);
    assert_true(what.job == 17 && !what.batch);
    assert_int_equal(target((const char *[]){"probe", "17a", NULL}, &what), 0);
    assert_true(what.job == 0);
    assert_string_equal(what.batch, "17a");
    assert_int_equal(target((const char *[]){"probe", "--batch", "17", NULL}, &what), 0);
    assert_true(what.job == 0);
    assert_string_equal(what.batch, "17");
    assert_int_equal(target((const char *[]){"probe", NULL}, &what), 0);
    assert_true(what.job == 0 && !what.batch);
    assert_int_equal(target((const char *[]){"probe", "b", "--batch", "b", NULL}, &what), EX_USAGE);
    assert_int_equal(target((const char *[]){"probe", "0", NULL}, &what), EX_USAGE);
    assert_int_equal(target((const char *[]){"probe", "9223372036854775808", NULL}, &what),
                     EX_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_words_in_any_order),
        cmocka_unit_test(a_dash_is_a_word),
        cmocka_unit_test(wrong_lines_are_usage_errors),
        cmocka_unit_test(options_are_bounded),
        cmocka_unit_test(numbers_and_ids),
        cmocka_unit_test(a_number_is_a_job_and_a_name_a_batch),
        cmocka_unit_test(an_option_means_the_same_in_every_verb),
        cmocka_unit_test(texts_for_people),
        cmocka_unit_test(every_row_of_the_table_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
