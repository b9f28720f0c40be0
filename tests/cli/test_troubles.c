/* test_troubles.c - what stands in the way of jobs, from facts; and which of it is new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cli/fleet/trouble.h"

enum { WORKERS = 4 };

static struct kiln_roster_worker at[WORKERS];
static struct kiln_roster roster;
static struct kiln_trouble_facts facts;
static struct kiln_troubles troubles;

/* Four live workers, of which the last two have the model photo, and a scheduler that leads. */
static int furnish(void **state)
{
    (void)state;
    memset(at, 0, sizeof at);
    roster = (struct kiln_roster){.at = at, .count = WORKERS, .live = WORKERS};
    for (int i = 0; i < WORKERS; i++) {
        at[i].live = true;
        snprintf(at[i].row.name, sizeof at[i].row.name, "w%d", i);
        snprintf(at[i].row.host, sizeof at[i].row.host, "h%d", i);
        snprintf(at[i].beat.model, sizeof at[i].beat.model, "%s", i < 2 ? "sketch" : "photo");
    }
    facts = (struct kiln_trouble_facts){
        .pool = "p", .led = true, .roster = &roster, .lease_s = 10, .now_ms = 1000000000};
    return 0;
}

static void gone(int worker)
{
    roster.live -= at[worker].live;
    at[worker].live = false;
}

static void report(int worker, const char *what, int code, const char *error)
{
    snprintf(at[worker].beat.trouble, sizeof at[worker].beat.trouble, "%s", what);
    snprintf(at[worker].beat.trouble_code, sizeof at[worker].beat.trouble_code, "%s",
             kiln_code_name(code));
    snprintf(at[worker].beat.trouble_error, sizeof at[worker].beat.trouble_error, "%s", error);
}

static const struct kiln_trouble *only(void)
{
    kiln_troubles_find(&facts, &troubles);
    assert_int_equal(troubles.count, 1);
    assert_true(strlen(troubles.at[0].next) > 20);
    return &troubles.at[0];
}

static void nothing(void)
{
    kiln_troubles_find(&facts, &troubles);
    assert_int_equal(troubles.count, 0);
}

static void a_model_is_had_by_who_takes_jobs(void **state)
{
    (void)state;
    static const char *const models[] = {"photo", "", "other", "other", "third"};
    struct kiln_needed needed = {.count = 0};
    facts.needed = &needed;
    kiln_needed_add(&needed, models[0]);
    kiln_needed_add(&needed, models[1]);
    nothing();
    kiln_needed_add(&needed, models[2]);
    kiln_needed_add(&needed, models[3]);
    assert_int_equal(needed.count, 3);
    assert_string_equal(only()->text, "queued jobs need model 'other', which no live worker has");
    assert_false(only()->stops);
    needed.count = 0;
    kiln_needed_add(&needed, models[2]);
    kiln_needed_add(&needed, models[4]);
    assert_true(only()->stops);
    assert_string_equal(
        only()->text,
        "queued jobs need models 'other', 'third', which no worker that takes jobs has");
    needed.count = 0;
    kiln_needed_add(&needed, models[0]);
    at[2].beat.draining = true;
    nothing();
    gone(3);
    assert_string_equal(only()->text,
                        "queued jobs need model 'photo', which only draining workers have");
    at[0].beat.draining = at[1].beat.draining = true;
    assert_string_equal(only()->text, "every live worker is draining");
}

static void no_worker_is_said_and_who_is_starting(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++)
        gone(i);
    assert_string_equal(only()->text, "no worker is alive in pool p");
    assert_int_equal(only()->kind, KILN_TROUBLE_WORKERS);
    snprintf(at[1].row.state, sizeof at[1].row.state, "starting");
    at[1].row.last_seen_ms = facts.now_ms - 1000;
    assert_string_equal(only()->text, "no worker is alive in pool p; one is starting");
    at[1].row.last_seen_ms = facts.now_ms - 3600000; /* it was killed while it did */
    assert_string_equal(only()->text, "no worker is alive in pool p");
}

static void a_worker_that_does_not_start_says_why(void **state)
{
    (void)state;
    for (int i = 2; i < WORKERS; i++) {
        gone(i);
        snprintf(at[i].row.trouble, sizeof at[i].row.trouble, "no model in /m");
        at[i].row.last_seen_ms = facts.now_ms - 1000;
    }
    assert_string_equal(only()->text, "worker w2 on h2 does not start: no model in /m");
    assert_false(only()->stops);
    gone(0);
    gone(1);
    kiln_troubles_find(&facts, &troubles);
    assert_int_equal(troubles.count, 2);
    assert_int_equal(troubles.at[1].kind, KILN_TROUBLE_START);
    assert_true(troubles.at[1].stops);
    facts.now_ms += 2 * 3600000; /* of yesterday's failures nobody wants to hear */
    assert_int_equal(only()->kind, KILN_TROUBLE_WORKERS);
}

static void workers_with_one_trouble_are_one_line(void **state)
{
    (void)state;
    report(1, "store", KILN_FULL, "/a: No space left on device");
    assert_string_equal(only()->text,
                        "the store of worker w1 is full: /a: No space left on device");
    assert_false(only()->stops);
    assert_non_null(strstr(only()->next, "kiln gc"));
    report(3, "store", KILN_FULL, "/b: No space left on device");
    assert_string_equal(
        only()->text,
        "the store of 2 of 4 workers, such as w1 is full: /a: No space left on device");
    report(0, "store", KILN_DENIED, "bucket: ExpiredToken");
    at[2].beat.draining = true; /* takes nothing either */
    kiln_troubles_find(&facts, &troubles);
    assert_int_equal(troubles.count, 2);
    assert_int_equal(troubles.at[0].code, KILN_DENIED);
    assert_true(troubles.at[0].stops && troubles.at[1].stops);
    assert_non_null(strstr(troubles.at[0].next, "credentials file"));
}

static void a_ledger_and_an_intake_that_refuse(void **state)
{
    (void)state;
    report(2, "ledger", KILN_FULL, "Postgres, commit: could not extend file");
    assert_non_null(strstr(only()->text, "takes no commits of worker w2"));
    assert_non_null(strstr(only()->next, "disk of Postgres"));
    facts.intake = "Postgres, insert: disk is full";
    kiln_troubles_find(&facts, &troubles);
    assert_int_equal(troubles.at[0].kind, KILN_TROUBLE_INTAKE);
    assert_int_equal(troubles.count, 2);
}

static void what_is_not_known_is_not_said(void **state)
{
    (void)state;
    facts.roster = NULL;
    facts.redis = "Redis at x: refused";
    assert_int_equal(only()->kind, KILN_TROUBLE_REDIS);
    facts.paused = "everything is paused";
    assert_int_equal(only()->kind, KILN_TROUBLE_PAUSED);
}

static void a_deaf_worker_is_named(void **state)
{
    (void)state;
    at[0].beat.deaf_ms = 10001;
    assert_string_equal(only()->text, "worker w0 cannot read its stream in Redis");
}

/* Whatever a worker or a server says, a trouble is one line, and the list has an end. */
static void hostile_words_stay_on_their_line(void **state)
{
    (void)state;
    report(1, "store", KILN_FULL, "a\nb\x1b[2J");
    snprintf(at[1].beat.trouble_code, sizeof at[1].beat.trouble_code, "no such code");
    assert_null(strchr(only()->text, '\n'));
    assert_null(strchr(only()->text, '\x1b'));
    char text[KILN_ERROR_TEXT_MAX];
    assert_non_null(strstr(kiln_worker_trouble_text(&at[1], text, sizeof text), "\\u001b"));
}

static void only_news_is_new(void **state)
{
    (void)state;
    struct kiln_troubles last = {.count = 0};
    const struct kiln_trouble *fresh[KILN_TROUBLES_MAX];
    report(1, "store", KILN_FULL, "/a/1: No space left on device");
    (void)only();
    assert_int_equal(kiln_troubles_new(&last, &troubles, fresh), 1);
    report(1, "store", KILN_FULL, "/a/2: No space left on device");
    (void)only();
    assert_int_equal(kiln_troubles_new(&last, &troubles, fresh), 0);
    facts.led = false;
    kiln_troubles_find(&facts, &troubles);
    assert_int_equal(kiln_troubles_new(&last, &troubles, fresh), 1);
    assert_int_equal(fresh[0]->kind, KILN_TROUBLE_SCHEDULER);
    facts.led = true;
    (void)only();
    assert_int_equal(kiln_troubles_new(&last, &troubles, fresh), 0);
    facts.led = false; /* over, and again */
    kiln_troubles_find(&facts, &troubles);
    assert_int_equal(kiln_troubles_new(&last, &troubles, fresh), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_model_is_had_by_who_takes_jobs, furnish),
        cmocka_unit_test_setup(no_worker_is_said_and_who_is_starting, furnish),
        cmocka_unit_test_setup(a_worker_that_does_not_start_says_why, furnish),
        cmocka_unit_test_setup(workers_with_one_trouble_are_one_line, furnish),
        cmocka_unit_test_setup(a_ledger_and_an_intake_that_refuse, furnish),
        cmocka_unit_test_setup(what_is_not_known_is_not_said, furnish),
        cmocka_unit_test_setup(a_deaf_worker_is_named, furnish),
        cmocka_unit_test_setup(hostile_words_stay_on_their_line, furnish),
        cmocka_unit_test_setup(only_news_is_new, furnish),
    };
    return cmocka_run_group_tests_name("troubles", tests, NULL, NULL);
}
