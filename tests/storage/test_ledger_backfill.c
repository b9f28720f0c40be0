/* test_ledger_backfill.c - standing orders and holds in the ledger: who is topped up by how much,
 * and that two schedulers at once make each job once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/ledger/queue/backfill.h"
#include "tests/support/rig.h"

static int empty(void **state)
{
    (void)state;
    free(kiln_test_sql(rig.stack, "SET client_min_messages = error;"
                                  " TRUNCATE batch, event, hold, backfill CASCADE"));
    return 0;
}

/* An order of two prompts that make ten jobs a pass. */
static uint64_t add(const char *name, struct kiln_backfill_spec spec)
{
    const struct kiln_backfill_line lines[2] = {{0, 4, "{\"prompt\":\"a\"}"},
                                                {4, 6, "{\"prompt\":\"b\"}"}};
    uint64_t id = 0;
    snprintf(spec.name, sizeof spec.name, "%s", name);
    snprintf(spec.who, sizeof spec.who, "me@here");
    spec.overrides = "";
    spec.width = spec.height = 64;
    spec.pass_jobs = 10;
    spec.window_from = spec.window_to = -1;
    kiln_test_ok(kiln_ledger_backfill_add(rig.ledger, "p", &spec, &id, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_backfill_lines(rig.ledger, id, lines, 2, &rig.err), rig.err);
    return id;
}

static int keep_due(void *arg, const struct kiln_backfill_due *due, struct kiln_error *err)
{
    (void)err;
    *(struct kiln_backfill_due *)arg = *due;
    ((struct kiln_backfill_due *)arg)->overrides = "";
    return 0;
}

/* Removes the order; whether its batch is still there. */
static bool removed(void)
{
    bool left;
    kiln_test_ok(kiln_ledger_backfill_remove(rig.ledger, "p", "o", &left, &rig.err), rig.err);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM backfill"), 0);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM batch"), left);
    return left;
}

/* Of the only order there is; room UINT64_MAX: none is due. */
static struct kiln_backfill_due due_now(void)
{
    struct kiln_backfill_due due = {.room = UINT64_MAX};
    kiln_test_ok(kiln_ledger_backfills_due(rig.ledger, "p", keep_due, &due, &rig.err), rig.err);
    return due;
}

static _Thread_local uint64_t last_again; /* of the last top_up */

/* Tops up by count jobs whose keys begin at `first`; how many were made. */
static uint64_t top_up(struct kiln_ledger *ledger, const struct kiln_backfill_due *due,
                       size_t first, size_t count)
{
    struct kiln_new_job *jobs = kiln_test_jobs("ignored", count);
    char keys[64][24];
    uint64_t made = 99, again = 99;
    struct kiln_error err;
    for (size_t i = 0; i < count; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", first + i);
        free((char *)jobs[i].key); /* the plain one */
        jobs[i].key = keys[i];
        jobs[i].job.index = (uint32_t)(due->cursor + i);
    }
    int rc = kiln_ledger_top_up(ledger, "p", due, jobs, count, count, &made, &again, &err);
    last_again = again;
    for (size_t i = 0; i < count; i++)
        jobs[i].key = NULL;
    kiln_test_jobs_free(jobs, count);
    kiln_test_ok(rc, err);
    return made;
}

static void an_order_is_topped_up_to_its_mark(void **state)
{
    (void)state;
    add("o", (struct kiln_backfill_spec){.mark = 7});
    struct kiln_backfill_due due = due_now();
    assert_int_equal(due.room, 7);
    assert_int_equal(top_up(rig.ledger, &due, 0, 5), 5);
    due = due_now();
    assert_int_equal(due.room, 2);
    assert_int_equal(due.cursor, 5);
    assert_int_equal(top_up(rig.ledger, &due, 5, 2), 2);
    assert_int_equal(due_now().room, 0);
    kiln_rig_expect("backfill-o", "queued", 0, 7);
    /* What runs counts, too: it may come back. */
    struct kiln_rig_found found = {0};
    struct kiln_job jobs[64];
    size_t got;
    kiln_test_ok(kiln_ledger_waiting(rig.ledger, "p", 0, 64, kiln_rig_collect, &found, &rig.err),
                 rig.err);
    kiln_test_ok(kiln_ledger_assign(rig.ledger, "w0", "a", found.at, 3, jobs, &got, &rig.err),
                 rig.err);
    assert_int_equal(due_now().room, 0);
    assert_true(kiln_rig_commit(&jobs[0]));
    assert_int_equal(due_now().room, 1);
    kiln_rig_release(jobs, got);
}

/* The cursor decides: who saw it where it is no more makes nothing. */
static void a_second_scheduler_makes_nothing_twice(void **state)
{
    (void)state;
    add("o", (struct kiln_backfill_spec){.mark = 10});
    struct kiln_backfill_due mine = due_now(), its = due_now();
    assert_int_equal(top_up(rig.ledger, &mine, 0, 4), 4);
    assert_int_equal(top_up(rig.ledger, &its, 100, 10), 0);
    assert_int_equal(due_now().cursor, 4);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM job"), 4);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT made FROM backfill"), 4);
}

static void *race(void *arg)
{
    struct kiln_ledger *ledger;
    struct kiln_error err;
    (void)arg;
    kiln_test_ok(kiln_ledger_open(rig.stack->config, "racer", &ledger, &err), err);
    for (int round = 0; round < 60; round++) {
        struct kiln_backfill_due due = {0};
        kiln_test_ok(kiln_ledger_backfills_due(ledger, "p", keep_due, &due, &err), err);
        size_t count = due.room < 3 ? (size_t)due.room : 3;
        if (count > 0)
            top_up(ledger, &due, (size_t)due.cursor, count);
    }
    kiln_ledger_close(ledger);
    return NULL;
}

static void schedulers_that_race_stay_below_the_mark(void **state)
{
    (void)state;
    pthread_t threads[3];
    add("o", (struct kiln_backfill_spec){.mark = 50});
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    kiln_rig_expect("backfill-o", "queued", 0, 50);
    assert_int_equal(due_now().cursor, 50);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(DISTINCT index) FROM job"), 50);
}

static void an_identity_is_made_once(void **state)
{
    (void)state;
    add("o", (struct kiln_backfill_spec){.mark = 10});
    struct kiln_backfill_due due = due_now();
    assert_int_equal(top_up(rig.ledger, &due, 0, 4), 4);
    due = due_now();
    assert_int_equal(top_up(rig.ledger, &due, 2, 4), 2);
    due = due_now();
    assert_int_equal(due.cursor, 8);
    assert_int_equal(due.room, 4);
    /* An order that is given again goes on with the batch of the one before. */
    bool left;
    assert_true(removed());
    assert_int_equal(kiln_ledger_backfill_remove(rig.ledger, "p", "o", &left, &rig.err),
                     KILN_NOT_FOUND);
    add("o", (struct kiln_backfill_spec){.mark = 10});
    due = due_now();
    assert_int_equal(due.room, 4);
    assert_int_equal(top_up(rig.ledger, &due, 0, 4), 0);
    assert_int_equal(due_now().cursor, 4);
}

/* What the removal of an order cancelled is due again when it is given again, under its identity.
 */
static void what_was_cancelled_is_made_again(void **state)
{
    (void)state;
    uint64_t cancelled = 0;
    add("o", (struct kiln_backfill_spec){.mark = 6});
    struct kiln_backfill_due due = due_now(), stale = due;
    assert_int_equal(top_up(rig.ledger, &due, 0, 6), 6);
    assert_true(removed());
    kiln_test_ok(kiln_ledger_cancel(rig.ledger, "p", 0, "backfill-o", &cancelled, &rig.err),
                 rig.err);
    assert_int_equal(cancelled, 6);
    add("o", (struct kiln_backfill_spec){.mark = 4, .rate = 60});
    due = due_now();
    assert_int_equal(top_up(rig.ledger, &stale, 0, 4), 0); /* of the order that is gone */
    assert_int_equal(last_again, 0);
    assert_int_equal(top_up(rig.ledger, &due, 4, 4), 2);
    assert_int_equal(last_again, 2);
    kiln_rig_expect("backfill-o", "queued", 0, 4);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT made FROM backfill"), 4);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM backfill WHERE due_at BETWEEN"
                                                " now() + interval '2 min' AND now() + "
                                                "interval '4 min'"),
                     1);
    assert_int_equal(due_now().room, 0);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM job"), 8);
}

/* Nothing would ever fill such a batch, and listings would say for ever that it is coming in. */
static void a_batch_that_never_had_a_job_goes_with_its_order(void **state)
{
    (void)state;
    add("o", (struct kiln_backfill_spec){.mark = 6});
    assert_false(removed());
    /* The jobs of an earlier order of this name keep their batch, also where gc removed them. */
    add("o", (struct kiln_backfill_spec){.mark = 6});
    struct kiln_backfill_due due = due_now();
    assert_int_equal(top_up(rig.ledger, &due, 0, 1), 1);
    assert_true(removed());
    add("o", (struct kiln_backfill_spec){.mark = 6});
    free(kiln_test_sql(rig.stack, "DELETE FROM job"));
    assert_true(removed());
}

/* A removal that waits for a top-up sees the jobs that it made. */
static void *remove_it(void *arg)
{
    struct kiln_ledger *ledger;
    struct kiln_error err;
    kiln_test_ok(kiln_ledger_open(rig.stack->config, "remover", &ledger, &err), err);
    kiln_test_ok(kiln_ledger_backfill_remove(ledger, "p", "o", arg, &err), err);
    kiln_ledger_close(ledger);
    return NULL;
}

static void a_first_top_up_keeps_the_batch_of_a_removal_at_once(void **state)
{
    (void)state;
    pthread_t removing;
    uint64_t both = 0;
    for (int round = 0; round < 40; round++) {
        bool left;
        empty(NULL);
        add("o", (struct kiln_backfill_spec){.mark = 6});
        struct kiln_backfill_due due = due_now();
        assert_int_equal(pthread_create(&removing, NULL, remove_it, &left), 0);
        uint64_t made = top_up(rig.ledger, &due, 0, 1);
        pthread_join(removing, NULL);
        assert_int_equal(left, made);
        assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM batch"), made);
        both += made;
    }
    print_message("of 40 rounds %llu made a job first\n", (unsigned long long)both);
}

static void it_ends_where_it_was_told_to(void **state)
{
    (void)state;
    uint64_t id = add("o", (struct kiln_backfill_spec){.mark = 10, .until_jobs = 6});
    struct kiln_backfill_due due = due_now();
    assert_int_equal(due.room, 6);
    assert_int_equal(top_up(rig.ledger, &due, 0, 6), 6);
    free(kiln_test_sql(rig.stack, "UPDATE batch_tally SET queued = 0"));
    assert_int_equal(due_now().room, 0);
    free(kiln_test_sql(rig.stack, "UPDATE backfill SET until_jobs = NULL"));
    assert_int_equal(due_now().room, 10);
    free(kiln_test_sql(rig.stack, "UPDATE backfill SET until_at = now() + interval '1 h'"));
    assert_int_equal(due_now().room, 10);
    free(kiln_test_sql(rig.stack, "UPDATE backfill SET until_at = now()"));
    assert_int_equal(due_now().room, 0);
    /* Fixed seeds: one pass of ten. */
    free(kiln_test_sql(rig.stack, "UPDATE backfill SET until_at = NULL, seed_fixed = true"));
    assert_int_equal(due_now().room, 4);
    kiln_test_ok(kiln_ledger_backfill_fail(rig.ledger, id, "its style is gone", &rig.err), rig.err);
    assert_int_equal(due_now().room, 0);
}

static void a_rate_is_kept(void **state)
{
    (void)state;
    add("o", (struct kiln_backfill_spec){.mark = 5000, .rate = 3600});
    struct kiln_backfill_due due = due_now();
    assert_in_range(due.room, 1, 10);
    assert_int_equal(top_up(rig.ledger, &due, 0, (size_t)due.room), due.room);
    free(kiln_test_sql(rig.stack, "UPDATE backfill SET due_at = now() + interval '1 s'"));
    assert_int_equal(due_now().room, 0);
    free(kiln_test_sql(rig.stack, "UPDATE backfill SET due_at = now() - interval '10 s'"));
    assert_in_range(due_now().room, 11, 20);
    /* Nobody was there for a day: a minute of it is made up for, and not twice. */
    free(kiln_test_sql(rig.stack, "UPDATE backfill SET due_at = now() - interval '1 day'"));
    due = due_now();
    assert_int_equal(due.room, 61);
    assert_int_equal(top_up(rig.ledger, &due, 1000, 61), 61);
    assert_in_range(due_now().room, 0, 10);
}

static void what_is_held_gets_nothing(void **state)
{
    (void)state;
    static const struct {
        enum kiln_pause_scope scope;
        const char *name;
        uint64_t room;
    } cases[] = {{KILN_SCOPE_ALL, "", 0},           {KILN_SCOPE_BACKFILL, "", 0},
                 {KILN_SCOPE_ONE_BACKFILL, "o", 0}, {KILN_SCOPE_ONE_BACKFILL, "other", 5},
                 {KILN_SCOPE_TENANT, "o", 5},       {KILN_SCOPE_WINDOW, "o", 5}};
    struct kiln_pause before;
    add("o", (struct kiln_backfill_spec){.mark = 5});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kiln_pause pause = {.scope = cases[i].scope, .held = true, .who = "me"};
        snprintf(pause.name, sizeof pause.name, "%s", cases[i].name);
        kiln_test_ok(kiln_ledger_pause(rig.ledger, "p", &pause, &before, &rig.err), rig.err);
        assert_int_equal(due_now().room, cases[i].room);
        assert_int_equal(due_now().closed, cases[i].scope == KILN_SCOPE_WINDOW);
        pause.held = false;
        kiln_test_ok(kiln_ledger_pause(rig.ledger, "p", &pause, &before, &rig.err), rig.err);
        assert_true(before.held);
        assert_int_equal(due_now().room, 5);
    }
}

static int keep_hold(void *arg, const struct kiln_pause *pause, struct kiln_error *err)
{
    (void)err;
    *(struct kiln_pause *)arg = *pause;
    return 0;
}

/* Of two who write at once each is told of the other, or of what was there before both. */
static void *order_opposites(void *arg)
{
    struct kiln_ledger *ledger;
    struct kiln_pause pause = {.scope = KILN_SCOPE_TENANT, .name = "ann", .held = arg != NULL};
    struct kiln_pause before;
    struct kiln_error err;
    snprintf(pause.who, sizeof pause.who, "%s", arg ? "pauser" : "resumer");
    kiln_test_ok(kiln_ledger_open(rig.stack->config, pause.who, &ledger, &err), err);
    for (int i = 0; i < 50; i++)
        kiln_test_ok(kiln_ledger_pause(ledger, "p", &pause, &before, &err), err);
    kiln_ledger_close(ledger);
    return NULL;
}

static void the_last_word_counts(void **state)
{
    (void)state;
    pthread_t threads[2];
    struct kiln_pause found = {0}, before;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, order_opposites, i ? &threads : NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    kiln_test_ok(kiln_ledger_pauses(rig.ledger, "p", true, keep_hold, &found, &rig.err), rig.err);
    assert_string_equal(found.who, found.held ? "pauser" : "resumer");
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM hold"), 1);
    struct kiln_pause pause = {.scope = KILN_SCOPE_TENANT, .name = "ann", .who = "third"};
    kiln_test_ok(kiln_ledger_pause(rig.ledger, "p", &pause, &before, &rig.err), rig.err);
    assert_string_equal(before.who, found.who);
    assert_int_equal(before.held, found.held);
    found.held = true;
    kiln_test_ok(kiln_ledger_pauses(rig.ledger, "p", false, keep_hold, &found, &rig.err), rig.err);
    assert_true(found.held); /* nothing is in force: the callback was not asked */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_order_is_topped_up_to_its_mark, empty),
        cmocka_unit_test_setup(a_second_scheduler_makes_nothing_twice, empty),
        cmocka_unit_test_setup(schedulers_that_race_stay_below_the_mark, empty),
        cmocka_unit_test_setup(an_identity_is_made_once, empty),
        cmocka_unit_test_setup(what_was_cancelled_is_made_again, empty),
        cmocka_unit_test_setup(a_batch_that_never_had_a_job_goes_with_its_order, empty),
        cmocka_unit_test_setup(a_first_top_up_keeps_the_batch_of_a_removal_at_once, empty),
        cmocka_unit_test_setup(it_ends_where_it_was_told_to, empty),
        cmocka_unit_test_setup(a_rate_is_kept, empty),
        cmocka_unit_test_setup(what_is_held_gets_nothing, empty),
        cmocka_unit_test_setup(the_last_word_counts, empty),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
