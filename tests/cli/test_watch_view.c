/* test_watch_view.c - the lines of `kiln watch` for terminals of every size, without a terminal.
 *
 * How they look on a real one, and what the keys do, is shown by test_watch.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cli/fleet/watch/view.h"

#define HEIGHT_MAX 200

static struct kiln_line lines[HEIGHT_MAX];
static struct kiln_cli cli;
static struct kiln_snapshot look;
static struct kiln_rates rates;
static struct kiln_view view;

/* A pool with so many workers, groups and causes. */
static void furnish(size_t workers, size_t groups, size_t causes)
{
    kiln_snapshot_release(&look);
    look = (struct kiln_snapshot){
        .cli = &cli, .led = true, .groups = json_array(), .pauses = json_array()};
    look.counts.at[KILN_JOB_QUEUED] = 60;
    look.roster.at = calloc(workers + 1, sizeof *look.roster.at);
    look.roster.count = look.roster.live = workers;
    for (size_t i = 0; i < workers; i++) {
        struct kiln_roster_worker *worker = &look.roster.at[i];
        worker->live = true;
        snprintf(worker->row.name, sizeof worker->row.name, "worker-%zu", i);
        snprintf(worker->beat.device, sizeof worker->beat.device, "cuda:%zu", i % 8);
    }
    for (size_t i = 0; i < groups; i++)
        json_array_append_new(look.groups,
                              json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:s}", "model", "",
                                        "loras", "ink:0.8", "width", 512, "height", 768, "steps",
                                        (int)i + 1, "queued", 2, "assigned", 1, "oldest",
                                        "2026-11-21T15:04:05.000Z"));
    view = (struct kiln_view){.pool = "default",
                              .look = &look,
                              .rates = &rates,
                              .trouble = "",
                              .now_s = 1000,
                              .look_s = 1000,
                              .now_ms = 1795273505000, /* 15:05:05 of that day */
                              .cause_count = causes,
                              .interval_s = 1};
    for (size_t i = 0; i < causes; i++)
        view.causes[i] = (struct kiln_cause_shown){
            .jobs = 3, .example = 17, .code = KILN_DEVICE, .cause = "the GPU fell off the bus"};
}

/* How many lines begin with text. */
static int begin_with(const char *text, int height)
{
    int count = 0;
    for (int i = 0; i < height; i++)
        count += strncmp(lines[i].text, text, strlen(text)) == 0;
    return count;
}

static void lay(int width, int height)
{
    memset(lines, 0xee, sizeof lines);
    kiln_view_lay(&view, width, height, lines);
}

static void everything_is_shown_if_it_fits(void **state)
{
    (void)state;
    furnish(8, 3, 2);
    lay(80, 24);
    assert_int_equal(begin_with(" worker-", 24), 8);
    assert_int_equal(begin_with(" kiln watch   pool default   2026-11-21T15:05:05Z", 24), 1);
    assert_int_equal(begin_with(" jobs     60 queued   0 assigned", 24), 1);
    assert_int_equal(begin_with(" pace     nothing was done", 24), 1);
    assert_int_equal(begin_with(">WORKERS   8 live: 0 busy, 8 idle", 24), 1);
    assert_int_equal(begin_with(" GROUPS    3 with work", 24), 1);
    assert_int_equal(begin_with("        2        1  512x768         1     60 s  ink:0.8", 24), 1);
    assert_int_equal(begin_with(" FAILURES  6 jobs, 2 causes", 24), 1);
    assert_int_equal(begin_with("        3       17  device      the GPU", 24), 2);
    assert_int_equal(begin_with(" q quit", 24), 1);
    assert_int_equal(strncmp(lines[23].text, " q quit", 7), 0);
}

/* What does not fit is cut, and each section still has something to say. */
static void a_crowd_is_shared_out_and_can_be_scrolled(void **state)
{
    (void)state;
    furnish(100, 50, 30);
    lay(80, 24);
    int workers = begin_with(" worker-", 24);
    assert_true(workers >= 5);
    assert_int_equal(begin_with("        2        1  512x768", 24), 3);
    assert_int_equal(begin_with("        3       17  device", 24), 2);
    assert_non_null(strstr(lines[3].text, "1 to "));
    view.from[KILN_SECTION_WORKERS] = 10;
    lay(80, 24);
    assert_int_equal(begin_with(" worker-10 ", 24), 1);
    view.from[KILN_SECTION_WORKERS] = 5000; /* beyond the end: the end */
    lay(80, 24);
    assert_int_equal(begin_with(" worker-99 ", 24), 1);
    assert_int_equal(view.from[KILN_SECTION_WORKERS], 100 - workers);
    lay(200, HEIGHT_MAX); /* a larger screen moves it back */
    assert_int_equal(begin_with(" worker-", HEIGHT_MAX), 100);
    assert_int_equal(view.from[KILN_SECTION_WORKERS], 0);
}

static void no_size_is_too_small(void **state)
{
    (void)state;
    furnish(20, 20, 20);
    for (int height = 1; height <= 40; height++)
        for (int width = 1; width <= 200; width += 7) {
            lay(width, height);
            assert_int_equal(strncmp(lines[height - 1].text, " q quit", 7), 0);
            for (int i = 0; i < height; i++)
                assert_true(strlen(lines[i].text) < KILN_VIEW_LINE_MAX);
            assert_int_equal((unsigned char)lines[height].text[0], 0xee); /* not touched */
        }
}

/* Names come from other machines, error texts from anywhere. */
static void nothing_can_move_the_cursor(void **state)
{
    (void)state;
    furnish(1, 0, 1);
    snprintf(look.roster.at[0].row.name, sizeof look.roster.at[0].row.name, "w\033[2J\nx");
    snprintf(view.causes[0].cause, sizeof view.causes[0].cause,
             "a\tb\xff\xc2\x9b"
             "c \xc3\xa9");
    lay(80, 24);
    assert_int_equal(begin_with(" w\\u001b[2J\\nx idle ", 24), 1);
    assert_int_equal(begin_with("        3       17  device      a\\tb?\\u009bc \xc3\xa9", 24), 1);
    for (int i = 0; i < 24; i++)
        for (const unsigned char *c = (const unsigned char *)lines[i].text; *c; c++)
            assert_true(*c >= ' ' && *c != 0x7f);
}

/* Columns that are cut and filled count what stands on the terminal, not bytes. */
static void strange_names_keep_the_columns_straight(void **state)
{
    static const char *const names[] = {"plain", "w\033[2J\033[2J\033[2J",
                                        "\xe7\xaa\xaf\xe7\xaa\xaf", "\xc3\xa9t\xc3\xa9"};
    (void)state;
    furnish(4, 0, 0);
    for (int i = 0; i < 4; i++) {
        struct kiln_roster_worker *worker = &look.roster.at[i];
        snprintf(worker->row.name, sizeof worker->row.name, "%s", names[i]);
        snprintf(worker->beat.device, sizeof worker->beat.device, "c\n");
        snprintf(worker->beat.host, sizeof worker->beat.host, "h\xc3\xa9\xff");
    }
    lay(120, 24); /* a fifth of it is the longest name */
    assert_int_equal(begin_with(" NAME                     NOW    DEVICE  ", 24), 1);
    assert_int_equal(begin_with(" plain                    idle   c\\n      ", 24), 1);
    assert_int_equal(
        begin_with(" w\\u001b[2J\\u001\xe2\x80\xa6u001b[2J idle   c\\n      ", 24), 1);
    assert_int_equal(
        begin_with(" \xe7\xaa\xaf\xe7\xaa\xaf                     idle   c\\n      ", 24), 1);
    assert_int_equal(begin_with(" \xc3\xa9t\xc3\xa9                      idle   c\\n      ", 24),
                     1);
    for (int i = 0, found = 0; i < 24; i++) {
        const char *host = strstr(lines[i].text, "h\xc3\xa9?             ");
        found += host != NULL;
        assert_true(i < 23 || found == 4);
    }
}

static void troubles_are_told_at_the_top(void **state)
{
    (void)state;
    furnish(1, 0, 0);
    look.intake = 7;
    kiln_troubles_find(&(struct kiln_trouble_facts){.pool = "default"}, &look.troubles);
    for (int i = 0; i < 5; i++)
        json_array_append_new(look.pauses, json_pack("{s:s}", "text", "tenant ann"));
    view.trouble = "Redis does not answer";
    view.look_s = 940;
    lay(80, 24);
    assert_string_equal(lines[3].text, " ! Redis does not answer; this view is 60 s old");
    assert_int_equal(lines[3].ink, KILN_INK_BAD);
    assert_string_equal(lines[4].text, " ! no scheduler leads pool default");
    assert_int_equal(lines[4].ink, KILN_INK_BAD);
    assert_string_equal(lines[5].text, "   start kiln-scheduler, or `kiln up` for a private stack");
    assert_string_equal(lines[6].text, " ! paused: tenant ann");
    assert_string_equal(lines[8].text, " ! paused: and 3 more");
    assert_string_equal(lines[9].text, " ! 7 entries wait in the intake stream");
    for (int i = 0; i < 5; i++)
        look.troubles.at[i] = look.troubles.at[0];
    look.troubles.count = 5;
    lay(80, 24);
    assert_string_equal(lines[10].text, " ! and 2 more: `kiln status`");
    view.look = NULL; /* the first look has failed */
    lay(80, 24);
    assert_string_equal(lines[1].text, " ! Redis does not answer");
}

static void a_batch_has_a_bar(void **state)
{
    (void)state;
    furnish(1, 0, 0);
    look.has_batch = true;
    look.batch.jobs.at[KILN_JOB_DONE] = 30;
    look.batch.jobs.at[KILN_JOB_QUEUED] = 10;
    view.batch = "sketches";
    lay(80, 24);
    assert_string_equal(lines[3].text, " batch    [###############-----]  75 %  30 of 40 ended  "
                                       "sketches (still coming in)");
    look.batch.jobs = (struct kiln_counts){{0}};
    look.batch.whole = true;
    lay(80, 24);
    assert_string_equal(lines[3].text,
                        " batch    [--------------------]   0 %  0 of 0 ended  sketches");
}

/* Added over the last minute; a process that began anew does not make it negative. */
static void a_pace_is_that_of_the_last_minute(void **state)
{
    (void)state;
    struct kiln_rates own = {0};
    assert_true(kiln_rate_per_min(&own, "w", 5) == 0);
    for (int s = 0; s <= 300; s++)
        kiln_rate_note(&own, "w", (uint64_t)(s < 200 ? s : 200 + 10 * (s - 200)), s);
    double per_min = kiln_rate_per_min(&own, "w", 300);
    assert_true(per_min > 595 && per_min < 605);
    kiln_rate_note(&own, "w", 3, 301);
    assert_true(kiln_rate_per_min(&own, "w", 301) == 0);
    kiln_rate_note(&own, "w", 6, 304);
    assert_true(kiln_rate_per_min(&own, "w", 304) == 60);
    for (int i = 0; i < 100; i++) { /* workers come and go: no memory of all of them */
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        kiln_rate_note(&own, name, 1, 400 + 10 * i);
    }
    assert_true(own.count < 20);
    kiln_rate_release(&own);
}

static int start(void **state)
{
    (void)state;
    cli.config = kiln_config_new();
    return cli.config ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    kiln_snapshot_release(&look);
    kiln_config_free(cli.config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_shown_if_it_fits),
        cmocka_unit_test(a_crowd_is_shared_out_and_can_be_scrolled),
        cmocka_unit_test(no_size_is_too_small),
        cmocka_unit_test(nothing_can_move_the_cursor),
        cmocka_unit_test(strange_names_keep_the_columns_straight),
        cmocka_unit_test(troubles_are_told_at_the_top),
        cmocka_unit_test(a_batch_has_a_bar),
        cmocka_unit_test(a_pace_is_that_of_the_last_minute),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
