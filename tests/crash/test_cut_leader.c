/* test_cut_leader.c - the leading scheduler loses its network and does not get it back.
 *
 * Nobody tells Postgres: its end of the connection, and with it the leader's lock, lives on, and a
 * standby can do nothing.  Two limits of the session end that soon: a leader that says nothing for
 * longer than a lease (idle_session_timeout), and an answer that nobody takes (tcp_user_timeout; a
 * server that waits for room to send is not idle, and TCP alone would try for a quarter of an
 * hour).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/network.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/stack_postgres.h"
#include "tests/support/stored.h"
#include "tests/support/worker_process.h"

#define JOBS 10
#define MANY 20000 /* ten pages */
#define READS                                                                                      \
    "application_name = 'kiln-scheduler' AND state = 'active'"                                     \
    " AND query LIKE '%FROM job WHERE pool = $1 AND waits%'"
#define LINE                                                                                       \
    "{\"prompt\":\"a car\",\"width\":64,\"height\":64,\"steps\":1,\"kind\":\"latent-cache\"}"
#define LEADS_S 12 /* three seconds of silence, the standby's next try, and some patience */

struct site {
    struct kiln_test_stack *stack, view[2];
    struct test_room *room[2];
    struct kiln_test_scheduler scheduler[2];
    struct kiln_test_worker worker;
};

static void launch(struct site *site, int which)
{
    test_room_enter(site->room[which]);
    kiln_test_scheduler_launch(&site->scheduler[which], &site->view[which], which ? "b" : "a");
    test_room_leave();
}

/* Each scheduler has a room of its own. */
static void start(struct site *site)
{
    *site = (struct site){0};
    site->stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES | KILN_STACK_TCP);
    for (int i = 0; i < 2; i++) {
        struct kiln_test_stack *view = &site->view[i];
        site->room[i] = test_room_new(i);
        *view = *site->stack;
        snprintf(view->conf, sizeof view->conf, "%.120s/%d.conf", site->stack->dir, i);
        FILE *conf = fopen(view->conf, "we");
        assert_non_null(conf);
        fprintf(conf,
                "redis = redis://%s:%d/0\n"
                "postgres = host=%s port=%d user=kiln dbname=postgres\nstatement_timeout_s = 6\n",
                test_network_address(TEST_CABLE_REDIS), view->port[KILN_TEST_REDIS],
                test_network_address(TEST_CABLE_POSTGRES), view->port[KILN_TEST_POSTGRES]);
        assert_int_equal(fclose(conf), 0);
    }
    launch(site, 0);
    assert_true(kiln_test_scheduler_hears(&site->scheduler[0], " leading ", 60));
}

static void cut_leader(struct site *site, bool apart)
{
    test_room_cut(site->room[0], TEST_CABLE_REDIS, apart);
    test_room_cut(site->room[0], TEST_CABLE_POSTGRES, apart);
}

static void enqueue(struct site *site, const char *batch, size_t count)
{
    kiln_test_enqueue(site->stack, batch, batch, LINE, 0, count, true);
}

static void done_are(struct site *site, long long count)
{
    assert_true(
        kiln_test_until(site->stack, "SELECT count(*) FROM job WHERE state = 2", count, 60));
}

static void other_leads(struct site *site)
{
    double since = kiln_test_now_s();
    assert_true(kiln_test_scheduler_hears(&site->scheduler[1], " leading ", LEADS_S));
    printf("the other leads after %.1f s\n", kiln_test_now_s() - since);
}

static void stop(struct site *site)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_test_scheduler_stop(&site->scheduler[i]), 0);
        test_room_free(site->room[i]);
    }
    kiln_test_stack_stop(site->stack);
}

/* The other takes over in time and does the work; the first, healed, stands by. */
static void a_leader_that_fell_silent_loses_its_lock(void **state)
{
    struct site site;
    (void)state;
    start(&site);
    kiln_test_worker_start(&site.worker, site.stack, "w", NULL, true);
    enqueue(&site, "first", JOBS);
    done_are(&site, JOBS);
    cut_leader(&site, true);
    launch(&site, 1);
    other_leads(&site);
    enqueue(&site, "second", JOBS);
    done_are(&site, 2 * JOBS);
    cut_leader(&site, false);
    enqueue(&site, "third", JOBS);
    done_are(&site, 3 * JOBS);
    assert_int_equal(kiln_test_count(site.stack, "SELECT count(*) FROM event WHERE state = 2"),
                     3 * JOBS);
    assert_int_equal(kiln_test_scheduler_said(&site.scheduler[0], " leading "), 1);
    assert_int_equal(kiln_test_worker_stop(&site.worker), 0);
    (void)kiln_test_assert_stored(site.stack);
    stop(&site);
}

/* The table is locked while the new leader reads the queue, page by page; when it gets its page,
 * that goes nowhere. */
static void lock_amid_reading(struct site *site)
{
    free(kiln_test_sql(site->stack,
                       "BEGIN; DO $$ BEGIN FOR i IN 1..2000000 LOOP PERFORM"
                       " pg_stat_clear_snapshot(); EXIT WHEN EXISTS (SELECT FROM pg_stat_activity"
                       " WHERE " READS "); END LOOP; END $$;"
                       "LOCK TABLE job IN ACCESS EXCLUSIVE MODE"));
    assert_true(kiln_test_until(site->stack,
                                "SELECT count(*) FROM pg_stat_activity WHERE " READS
                                " AND wait_event_type = 'Lock'",
                                1, 2));
}

static void a_leader_that_takes_no_answer_loses_its_lock(void **state)
{
    struct site site;
    (void)state;
    start(&site);
    enqueue(&site, "first", MANY);
    assert_true(kiln_test_until(site.stack, "SELECT count(*) FROM job", MANY, 60));
    assert_int_equal(kiln_test_scheduler_stop(&site.scheduler[0]), 0);
    launch(&site, 0);
    lock_amid_reading(&site);
    cut_leader(&site, true);
    free(kiln_test_sql(site.stack, "COMMIT"));
    if (!kiln_test_until(site.stack,
                         "SELECT count(*) FROM pg_stat_activity WHERE " READS
                         " AND wait_event = 'ClientWrite'",
                         1, 2))
        printf("it was the last page, a short one\n");
    launch(&site, 1);
    other_leads(&site);
    cut_leader(&site, false);
    stop(&site);
}

/* So that a page of the queue is more than a socket holds, as it is on a line with losses. */
static void small_buffers(void)
{
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_wmem", "we");
    if (!file || fputs("4096 16384 32768", file) < 0 || fclose(file) != 0)
        kiln_test_die("cannot set tcp_wmem");
}

int main(void)
{
    char why[96];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!test_network_own(why, sizeof why)) {
        printf("skip: %s\n", why);
        return 77;
    }
    small_buffers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_that_fell_silent_loses_its_lock),
        cmocka_unit_test(a_leader_that_takes_no_answer_loses_its_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
