/* test_reader.c - sessions for reading: what they refuse, how long they take, how they are shared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schemas/clock.h"
#include "storage/ledger/internal.h"
#include "storage/ledger/queue/pause.h"
#include "storage/ledger/read/read.h"
#include "storage/ledger/read/reader.h"
#include "storage/ledger/upkeep/database_roles.h"
#include "tests/support/process.h"
#include "tests/support/rig.h"

static const char pool[] = "p"; /* of kiln_test_insert */

static struct kiln_reader *open_reader(int sessions, int64_t limit_ms)
{
    struct kiln_reader *reader = NULL;
    kiln_test_ok(
        kiln_reader_open(rig.stack->config, "reader", sessions, limit_ms, &reader, &rig.err),
        rig.err);
    return reader;
}

static struct kiln_ledger *take(struct kiln_reader *reader)
{
    struct kiln_ledger *session = NULL;
    kiln_test_ok(kiln_reader_take(reader, &session, &rig.err), rig.err);
    return session;
}

static int count_jobs(struct kiln_ledger *session)
{
    struct kiln_counts counts;
    return kiln_ledger_counts(session, pool, &counts, &rig.err);
}

/* One text of one row. */
static void ask(struct kiln_ledger *session, const char *sql, char *out, size_t size)
{
    const struct kiln_statement statement = {"test", sql};
    PGresult *rows;
    kiln_test_ok(kiln_ledger_run(session, &statement, &(struct kiln_params){0}, &rows, &rig.err),
                 rig.err);
    snprintf(out, size, "%s", PQgetvalue(rows, 0, 0));
    PQclear(rows);
}

static void no_more_sessions_than_the_pool_has(void **state)
{
    (void)state;
    struct kiln_reader *reader = open_reader(2, 200);
    struct kiln_ledger *first = take(reader), *second = take(reader), *third = NULL;
    kiln_test_ok(count_jobs(first), rig.err);
    kiln_test_ok(count_jobs(second), rig.err);
    int64_t start_ms = kiln_clock_ms();
    assert_int_equal(kiln_reader_take(reader, &third, &rig.err), KILN_TIMEOUT);
    assert_in_range(kiln_clock_ms() - start_ms, 200, 2000);
    assert_non_null(strstr(rig.err.text, "all 2 sessions"));
    kiln_reader_give(reader, first);
    third = take(reader);
    assert_ptr_equal(third, first); /* the connection that was used last */
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM pg_stat_activity"
                                                " WHERE application_name = 'reader'"),
                     2);
    kiln_reader_give(reader, second);
    kiln_reader_give(reader, third);
    kiln_reader_close(reader);
}

static void a_session_plans_for_people_and_writes_nothing(void **state)
{
    static const struct kiln_statement writes = {"test_write", "DELETE FROM worker"},
                                       once = {KILN_PLANNED_ONCE("test_once"), "SELECT 1"};
    struct kiln_pause before, pause = {.scope = KILN_SCOPE_ALL, .held = true};
    char text[64];
    (void)state;
    struct kiln_reader *reader = open_reader(4, 0);
    struct kiln_ledger *session = take(reader);
    static const char settings[] = "SELECT current_setting('enable_seqscan') || "
                                   "current_setting('plan_cache_mode') || "
                                   "current_setting('random_page_cost')";
    ask(session, settings, text, sizeof text);
    assert_string_equal(text, "onauto4");
    assert_int_equal(kiln_ledger_run(session, &once, &(struct kiln_params){0}, NULL, &rig.err), 0);
    ask(session, settings, text, sizeof text); /* as before a statement that is planned once */
    assert_string_equal(text, "onauto4");
    assert_int_equal(kiln_ledger_run(session, &writes, &(struct kiln_params){0}, NULL, &rig.err),
                     KILN_INTERNAL);
    assert_non_null(strstr(rig.err.text, "reading"));
    assert_int_equal(kiln_ledger_pause(session, pool, &pause, &before, &rig.err), KILN_INTERNAL);
    kiln_test_ok(count_jobs(session), rig.err); /* the session is as good as before */
    kiln_reader_give(reader, session);
    kiln_reader_close(reader);
}

static void a_question_ends_with_its_time_limit(void **state)
{
    static const struct kiln_statement slow = {"slow", "SELECT pg_sleep(30)"};
    (void)state;
    struct kiln_reader *reader = open_reader(1, 300);
    struct kiln_ledger *session = take(reader);
    kiln_test_ok(count_jobs(session), rig.err);
    int64_t start_ms = kiln_clock_ms();
    assert_int_equal(kiln_ledger_run(session, &slow, &(struct kiln_params){0}, NULL, &rig.err),
                     KILN_TIMEOUT);
    assert_in_range(kiln_clock_ms() - start_ms, 300, 2000);
    kiln_test_ok(count_jobs(session), rig.err);
    /* A server that hangs costs two seconds more, and the next question connects again. */
    kiln_test_freeze(rig.stack, KILN_TEST_POSTGRES);
    start_ms = kiln_clock_ms();
    assert_int_equal(count_jobs(session), KILN_TIMEOUT);
    assert_in_range(kiln_clock_ms() - start_ms, 2000, 6000);
    assert_non_null(strstr(rig.err.text, "Postgres"));
    kiln_test_thaw(rig.stack, KILN_TEST_POSTGRES);
    kiln_test_ok(count_jobs(session), rig.err);
    kiln_reader_give(reader, session);
    kiln_reader_close(reader);
}

/* A client that goes away ends what the server does for it. */
static void what_nobody_waits_for_is_ended(void **state)
{
    static const struct kiln_statement slow = {"slow", "SELECT pg_sleep(60) AS nobody_waits"};
    static const char asleep[] = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
                                 " AND query LIKE '%nobody_waits' AND pid <> pg_backend_pid()";
    (void)state;
    pid_t client = fork();
    if (client == 0) {
        struct kiln_ledger *session;
        int rc = kiln_ledger_open_reading(rig.stack->config, "gone", 0, &session, &rig.err);
        if (rc == 0)
            rc = kiln_ledger_run(session, &slow, &(struct kiln_params){0}, NULL, &rig.err);
        _exit(rc);
    }
    for (int i = 0; i < 200 && kiln_test_count(rig.stack, asleep) == 0; i++)
        kiln_test_sleep_ms(20);
    assert_int_equal(kiln_test_count(rig.stack, asleep), 1);
    kill(client, SIGKILL);
    waitpid(client, NULL, 0);
    for (int i = 0; i < 100 && kiln_test_count(rig.stack, asleep) > 0; i++)
        kiln_test_sleep_ms(50);
    assert_int_equal(kiln_test_count(rig.stack, asleep), 0);
}

static void a_restarted_server_is_found_again(void **state)
{
    (void)state;
    struct kiln_reader *reader = open_reader(2, 5000);
    struct kiln_ledger *session = take(reader);
    kiln_test_ok(count_jobs(session), rig.err);
    kiln_test_kill(rig.stack, KILN_TEST_POSTGRES);
    assert_int_equal(count_jobs(session), KILN_UNAVAILABLE);
    assert_non_null(strstr(rig.err.text, "Postgres"));
    kiln_test_restart(rig.stack, KILN_TEST_POSTGRES, NULL);
    kiln_test_ok(count_jobs(session), rig.err);
    kiln_reader_give(reader, session);
    kiln_reader_close(reader);
}

#define THREADS 3
#define QUESTIONS 50

static void *ask_again_and_again(void *arg)
{
    struct kiln_error err;
    struct kiln_counts counts;
    for (int i = 0; i < QUESTIONS; i++) {
        struct kiln_ledger *session;
        if (kiln_reader_take(arg, &session, &err) != 0)
            return arg;
        int rc = kiln_ledger_counts(session, pool, &counts, &err);
        kiln_reader_give(arg, session);
        if (rc != 0)
            return arg;
    }
    return NULL;
}

static void threads_share_the_sessions(void **state)
{
    (void)state;
    struct kiln_reader *reader = open_reader(2, 20000);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_again_and_again, reader), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    kiln_reader_close(reader);
}

struct listed {
    uint64_t ids[32];
    size_t count;
};

static int list_row(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    struct listed *listed = arg;
    (void)err;
    listed->ids[listed->count++] = kiln_row_u64(rows, row, 1);
    return 0;
}

/* Newest first, by two keys; each page is resumed from the text of the one before. */
static void pages_neither_repeat_nor_miss_a_row(void **state)
{
    static const struct kiln_statement newest = {
        "newest", "SELECT batch_id, id FROM job WHERE pool = $1 AND (batch_id, id) < ($2, $3)"
                  " ORDER BY batch_id DESC, id DESC LIMIT $4"};
    struct kiln_page page = {.rows_max = 4, .keys = 2, .after = {INT64_MAX, INT64_MAX}};
    struct kiln_params params = {0};
    struct listed listed = {0};
    char text[KILN_PAGE_TEXT_MAX] = "";
    (void)state;
    free(kiln_test_sql(rig.stack, "TRUNCATE job CASCADE"));
    kiln_test_insert(rig.ledger, "paged", 10);
    struct kiln_reader *reader = open_reader(1, 0);
    struct kiln_ledger *session = take(reader);
    int pages = 0;
    do {
        kiln_bind_text(&params, pool);
        if (*text)
            kiln_test_ok(kiln_page_resume(&page, text, &rig.err), rig.err);
        kiln_test_ok(
            kiln_ledger_page(session, &newest, &params, &page, list_row, &listed, &rig.err),
            rig.err);
        kiln_page_text(&page, text);
        /* Newer rows, and the row that the page ended with goes. */
        char sql[100], batch[16];
        snprintf(batch, sizeof batch, "later %d", pages);
        kiln_test_insert(rig.ledger, batch, 3);
        snprintf(sql, sizeof sql, "DELETE FROM job WHERE id = %lld", (long long)page.after[1]);
        free(kiln_test_sql(rig.stack, sql));
    } while (page.more && ++pages < 10);
    assert_int_equal(pages, 2);
    assert_int_equal(listed.count, 10);
    for (size_t i = 1; i < listed.count; i++)
        assert_true(listed.ids[i] < listed.ids[i - 1]);
    kiln_reader_give(reader, session);
    kiln_reader_close(reader);
}

static void a_page_takes_only_its_own_text(void **state)
{
    static const char *const wrong[] = {"",     "7",    "7.",   "7.8.9", " 7.8",
                                        "7.08", "+7.8", "7.8'", "a.b",   "99999999999999999999.1"};
    struct kiln_page page = {.rows_max = 1, .keys = 2};
    char text[KILN_PAGE_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(kiln_page_resume(&page, wrong[i], &rig.err), KILN_BAD_INPUT);
    assert_int_equal(page.after[0], 0);
    kiln_test_ok(kiln_page_resume(&page, "-7.9223372036854775807", &rig.err), rig.err);
    assert_int_equal(page.after[0], -7);
    assert_true(page.after[1] == INT64_MAX);
    page.after[0] = INT64_MIN;
    page.after[1] = INT64_MIN;
    kiln_page_text(&page, text);
    kiln_test_ok(kiln_page_resume(&page, text, &rig.err), rig.err);
}

/* Where there are roles, a user that may read as kiln_reader does; no other is changed. */
static void questions_are_asked_as_the_reader(void **state)
{
    const char *const passwords[KILN_ROLE_COUNT] = {0};
    char who[64];
    int made = 0;
    (void)state;
    free(kiln_test_sql(rig.stack, "CREATE ROLE kiln_reader")); /* of another database: no rights */
    struct kiln_reader *reader = open_reader(1, 0);
    struct kiln_ledger *session = take(reader);
    ask(session, "SELECT current_user::text", who, sizeof who);
    assert_string_not_equal(who, "kiln_reader");
    kiln_reader_give(reader, session);
    kiln_reader_close(reader);
    free(kiln_test_sql(rig.stack, "DROP ROLE kiln_reader"));
    kiln_test_ok(kiln_roles_make(rig.stack->config, passwords, &made, &rig.err), rig.err);
    assert_int_equal(made, KILN_ROLE_COUNT);
    assert_int_equal(
        kiln_test_count(rig.stack,
                        "SELECT pg_has_role('kiln_operator', 'kiln_reader', 'MEMBER')::int"),
        1);
    reader = open_reader(1, 0);
    session = take(reader);
    ask(session, "SELECT current_user::text", who, sizeof who);
    assert_string_equal(who, "kiln_reader");
    kiln_test_ok(count_jobs(session), rig.err);
    kiln_reader_give(reader, session);
    kiln_reader_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_sessions_than_the_pool_has),
        cmocka_unit_test(a_session_plans_for_people_and_writes_nothing),
        cmocka_unit_test(a_question_ends_with_its_time_limit),
        cmocka_unit_test(what_nobody_waits_for_is_ended),
        cmocka_unit_test(a_restarted_server_is_found_again),
        cmocka_unit_test(threads_share_the_sessions),
        cmocka_unit_test(pages_neither_repeat_nor_miss_a_row),
        cmocka_unit_test(a_page_takes_only_its_own_text),
        cmocka_unit_test(questions_are_asked_as_the_reader),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
