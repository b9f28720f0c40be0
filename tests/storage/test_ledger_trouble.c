/* test_ledger_trouble.c - Postgres away, hanging, locked, forbidding, or of another version.
 *
 * In each case the right code, a sentence that says what to do, within the time limit, and the same
 * ledger works again once the trouble is over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "schemas/clock.h"
#include "storage/ledger/migrate.h"
#include "storage/ledger/pg.h"
#include "tests/support/jobs.h"
#include "tests/support/stack.h"

static struct kiln_test_stack *stack;
static struct kiln_error err;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_TABLES | KILN_STACK_TCP);
    return 0;
}

/* Of the ledgers that are opened from now on. */
static void set_limits(const char *seconds)
{
    kiln_test_ok(kiln_config_set(stack->config, "statement_timeout_s", seconds, "test", &err), err);
    kiln_test_ok(kiln_config_set(stack->config, "connect_timeout_s", seconds, "test", &err), err);
}

static int stop(void **state)
{
    (void)state;
    kiln_test_stack_stop(stack);
    return 0;
}

static struct kiln_ledger *open_ledger(const struct kiln_config *config)
{
    struct kiln_ledger *ledger;
    kiln_test_ok(kiln_ledger_open(config, "test", &ledger, &err), err);
    return ledger;
}

/* A config like the stack's with another conninfo. */
static struct kiln_config *config_with(const char *conninfo)
{
    struct kiln_config *config = kiln_config_new();
    kiln_test_ok(kiln_config_set(config, "postgres", conninfo, "test", &err), err);
    kiln_test_ok(kiln_config_set(config, "connect_timeout_s", "30", "test", &err), err);
    return config;
}

/* kiln_ledger_check on a fresh connection with this conninfo. */
static int check_with(const char *conninfo)
{
    struct kiln_config *config = config_with(conninfo);
    struct kiln_ledger *ledger = open_ledger(config);
    int rc = kiln_ledger_check(ledger, &err);
    kiln_ledger_close(ledger);
    kiln_config_free(config);
    return rc;
}

static void expect_text(const char *piece)
{
    if (!strstr(err.text, piece))
        fail_msg("expected \"%s\" in: %s", piece, err.text);
}

static void run_sql(const char *sql)
{
    free(kiln_test_sql(stack, sql));
}

static void nobody_listens(void **state)
{
    (void)state;
    char conninfo[128];
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=kiln", kiln_test_free_port());
    assert_int_equal(check_with(conninfo), KILN_UNAVAILABLE);
    expect_text("refused");
    assert_int_equal(check_with("host=/nonexistent user=kiln"), KILN_UNAVAILABLE);
}

static void the_next_host_is_tried(void **state)
{
    (void)state;
    char conninfo[160];
    snprintf(conninfo, sizeof conninfo,
             "host=127.0.0.1,127.0.0.1 port=%d,%d user=kiln dbname=postgres", kiln_test_free_port(),
             stack->port[KILN_TEST_POSTGRES]);
    kiln_test_ok(check_with(conninfo), err);
    snprintf(conninfo, sizeof conninfo, "postgresql://kiln@127.0.0.1:%d,127.0.0.1:%d/postgres",
             kiln_test_free_port(), stack->port[KILN_TEST_POSTGRES]);
    kiln_test_ok(check_with(conninfo), err);
}

static void a_server_that_hangs_costs_the_time_limit(void **state)
{
    (void)state;
    set_limits("1");
    struct kiln_ledger *ledger = open_ledger(stack->config);
    set_limits("30");
    kiln_test_ok(kiln_ledger_check(ledger, &err), err);
    kiln_test_freeze(stack, KILN_TEST_POSTGRES);
    int64_t start_ms = kiln_clock_ms();
    assert_int_equal(kiln_ledger_check(ledger, &err), KILN_TIMEOUT);
    int64_t asked = kiln_clock_ms() - start_ms;
    assert_int_equal(kiln_ledger_check(ledger, &err), KILN_TIMEOUT); /* connecting hangs too */
    expect_text("127.0.0.1");
    int64_t connected = kiln_clock_ms() - start_ms - asked;
    kiln_test_thaw(stack, KILN_TEST_POSTGRES);
    assert_true(asked >= 1000 && asked < 60000);
    assert_true(connected >= 1000 && connected < 60000);
    kiln_test_ok(kiln_ledger_check(ledger, &err), err);
    kiln_ledger_close(ledger);
}

static void a_restart_is_not_noticed(void **state)
{
    (void)state;
    struct kiln_ledger *ledger = open_ledger(stack->config);
    kiln_test_insert(ledger, "before the restart", 3);
    kiln_test_restart(stack, KILN_TEST_POSTGRES, NULL);
    kiln_test_insert(ledger, "after the restart", 3);
    kiln_test_kill(stack, KILN_TEST_POSTGRES);
    assert_int_equal(kiln_ledger_check(ledger, &err), KILN_UNAVAILABLE);
    kiln_test_restart(stack, KILN_TEST_POSTGRES, NULL);
    kiln_test_insert(ledger, "after the crash", 3);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job"), 9);
    kiln_ledger_close(ledger);
}

static void attempts_to_connect_are_paced(void **state)
{
    (void)state;
    char conninfo[128];
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=kiln", kiln_test_free_port());
    struct kiln_config *config = config_with(conninfo);
    struct kiln_ledger *ledger = open_ledger(config);
    int64_t start_ms = kiln_clock_ms();
    for (int i = 0; i < 5; i++) /* pauses of up to 50, 100, 200, 400 ms, at least half of each */
        assert_int_equal(kiln_ledger_check(ledger, &err), KILN_UNAVAILABLE);
    int64_t took = kiln_clock_ms() - start_ms;
    assert_true(took >= 375 && took < 60000);
    kiln_ledger_close(ledger);
    kiln_config_free(config);
}

static void wrong_credentials_are_denied_without_telling_them(void **state)
{
    (void)state;
    char path[200], conninfo[200];
    run_sql("CREATE ROLE guest LOGIN PASSWORD 'right'");
    snprintf(path, sizeof path, "%s/postgres/pg_hba.conf", stack->dir);
    FILE *hba = fopen(path, "we");
    fputs("host all guest 127.0.0.1/32 scram-sha-256\n"
          "host all kiln 127.0.0.1/32 trust\n",
          hba);
    fclose(hba);
    run_sql("SELECT pg_reload_conf()");
    int port = stack->port[KILN_TEST_POSTGRES];
    snprintf(conninfo, sizeof conninfo,
             "host=127.0.0.1 port=%d user=guest dbname=postgres password=s3cretword", port);
    int rc = KILN_UNAVAILABLE;
    for (int i = 0; i < 50 && rc != KILN_DENIED; i++) { /* until the file is read */
        rc = check_with(conninfo);
        assert_null(strstr(err.text, "s3cretword"));
    }
    assert_int_equal(rc, KILN_DENIED);
    expect_text("PGPASSFILE");
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=guest dbname=postgres", port);
    assert_int_equal(check_with(conninfo), KILN_DENIED); /* none is given: libpq's own finding */
    expect_text("PGPASSFILE");
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=stranger dbname=postgres",
             port);
    assert_int_equal(check_with(conninfo), KILN_DENIED);
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=kiln dbname=nowhere", port);
    assert_int_equal(check_with(conninfo), KILN_CONFIG);
    expect_text("dbname");
    snprintf(conninfo, sizeof conninfo,
             "host=127.0.0.1 port=%d user=guest dbname=postgres password=right", port);
    assert_int_equal(check_with(conninfo), KILN_DENIED); /* no right to the tables */
    expect_text("right");
}

static void a_bad_conninfo_is_refused_without_telling_it(void **state)
{
    (void)state;
    struct kiln_config *config = config_with("host=x password=a hidden=word");
    struct kiln_ledger *ledger;
    assert_int_equal(kiln_ledger_open(config, "test", &ledger, &err), KILN_CONFIG);
    assert_null(strstr(err.text, "hidden"));
    kiln_test_ok(kiln_config_set(config, "postgres", "hots=x", "test", &err), err);
    assert_int_equal(kiln_ledger_open(config, "test", &ledger, &err), KILN_CONFIG);
    expect_text("hots");
    kiln_config_free(config);
}

static void a_database_that_only_reads_is_waited_for(void **state)
{
    (void)state;
    struct kiln_ledger *ledger = open_ledger(stack->config);
    kiln_test_ok(kiln_ledger_check(ledger, &err), err);
    run_sql("ALTER SYSTEM SET default_transaction_read_only = on");
    run_sql("SELECT pg_reload_conf()");
    struct kiln_new_job *jobs = kiln_test_jobs("read only", 1);
    uint64_t inserted;
    int rc = 0;
    for (int i = 0; i < 200 && rc == 0; i++) { /* until the server has read it */
        rc = kiln_ledger_insert_jobs(ledger, "p", jobs, 1, &inserted, &err);
        jobs->key = (free((char *)jobs->key), strdup(i % 2 ? "odd" : "even"));
    }
    assert_int_equal(rc, KILN_UNAVAILABLE);
    expect_text("takes no writes");
    kiln_ledger_close(ledger);
    assert_int_equal(check_with(stack->conninfo), KILN_UNAVAILABLE);
    expect_text("takes no writes");
    kiln_test_jobs_free(jobs, 1);
    PGconn *conn = PQconnectdb(stack->conninfo);
    PQclear(PQexec(conn, "SET default_transaction_read_only = off"));
    PQclear(PQexec(conn, "ALTER SYSTEM RESET default_transaction_read_only"));
    PQclear(PQexec(conn, "SELECT pg_reload_conf()"));
    PQfinish(conn);
    for (rc = -1; rc != 0;)
        rc = check_with(stack->conninfo);
}

static void another_version_of_the_schema_is_refused(void **state)
{
    (void)state;
    char sentence[64];
    snprintf(sentence, sizeof sentence, "knows only %d", kiln_migrate_version());
    run_sql("INSERT INTO schema_migrations (version, name, sha256) VALUES (9999, 'future', 'x')");
    assert_int_equal(check_with(stack->conninfo), KILN_CONFIG);
    expect_text("schema 9999");
    expect_text(sentence);
    run_sql("DELETE FROM schema_migrations");
    assert_int_equal(check_with(stack->conninfo), KILN_CONFIG);
    expect_text("run `kiln migrate`");
    run_sql("ALTER TABLE schema_migrations RENAME TO gone");
    assert_int_equal(check_with(stack->conninfo), KILN_CONFIG);
    expect_text("run `kiln migrate`");
    run_sql("ALTER TABLE gone RENAME TO schema_migrations");
}

static void a_locked_row_costs_the_lock_timeout(void **state)
{
    (void)state;
    set_limits("2");
    struct kiln_ledger *ledger = open_ledger(stack->config);
    set_limits("30");
    uint64_t moved, id;
    kiln_test_insert(ledger, "locked", 1);
    id = (uint64_t)kiln_test_count(stack, "SELECT max(id) FROM job");
    PGconn *other = PQconnectdb(stack->conninfo);
    PQclear(PQexec(other, "BEGIN"));
    PQclear(PQexec(other, "SELECT * FROM job FOR UPDATE"));
    assert_int_equal(kiln_ledger_cancel(ledger, "p", id, NULL, &moved, &err), KILN_TIMEOUT);
    struct kiln_job job;
    size_t count = 9; /* an assignment does not wait at all */
    kiln_test_ok(kiln_ledger_assign(ledger, "w", "a", &id, 1, &job, &count, &err), err);
    assert_int_equal(count, 0);
    PQfinish(other);
    kiln_test_ok(kiln_ledger_cancel(ledger, "p", id, NULL, &moved, &err), err);
    assert_int_equal(moved, 1);
    kiln_ledger_close(ledger);
}

static void every_state_has_its_code(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        int code;
    } expected[] = {
        {"53100", KILN_FULL},        {"53300", KILN_UNAVAILABLE}, {"57P01", KILN_UNAVAILABLE},
        {"57P03", KILN_UNAVAILABLE}, {"57014", KILN_TIMEOUT},     {"55P03", KILN_TIMEOUT},
        {"28P01", KILN_DENIED},      {"42501", KILN_DENIED},      {"40P01", KILN_UNAVAILABLE},
        {"08006", KILN_UNAVAILABLE}, {"25006", KILN_UNAVAILABLE}, {"XX001", KILN_CORRUPT},
        {"22021", KILN_BAD_INPUT},   {"3D000", KILN_CONFIG},      {"42601", KILN_INTERNAL},
        {"XYZ12", KILN_INTERNAL},
    };
    PGconn *conn = PQconnectdb(stack->conninfo);
    char sql[100], got[6];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        snprintf(sql, sizeof sql, "DO $$ BEGIN RAISE 'no' USING ERRCODE = '%s'; END $$",
                 expected[i].sqlstate);
        PGresult *result = PQexec(conn, sql);
        assert_int_equal(kiln_pg_explain(conn, result, "test", got, &err), expected[i].code);
        assert_string_equal(got, expected[i].sqlstate);
        PQclear(result);
    }
    PGresult *bare = PQmakeEmptyPGresult(conn, PGRES_FATAL_ERROR);
    assert_int_equal(kiln_pg_explain(conn, bare, "test", got, &err), KILN_UNAVAILABLE);
    assert_string_equal(got, "");
    PQclear(bare);
    PQfinish(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(the_next_host_is_tried),
        cmocka_unit_test(a_server_that_hangs_costs_the_time_limit),
        cmocka_unit_test(a_restart_is_not_noticed),
        cmocka_unit_test(attempts_to_connect_are_paced),
        cmocka_unit_test(wrong_credentials_are_denied_without_telling_them),
        cmocka_unit_test(a_bad_conninfo_is_refused_without_telling_it),
        cmocka_unit_test(a_database_that_only_reads_is_waited_for),
        cmocka_unit_test(another_version_of_the_schema_is_refused),
        cmocka_unit_test(a_locked_row_costs_the_lock_timeout),
        cmocka_unit_test(every_state_has_its_code),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
