/* test_migrate_index.c - an index that is built while the fleet commits, and repaired after a kill.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libpq-fe.h>
#include <pthread.h>

#include "schemas/clock.h"
#include "storage/ledger/migrate.h"
#include "tests/support/process.h"
#include "tests/support/rig.h"

#define FILES_MAX 64
#define INDEX "event_reason"
#define VALID                                                                                      \
    "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid = to_regclass('" INDEX "')"

static const char text[] =
    "-- A test's own.\n\n"
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS " INDEX " ON event (reason) WHERE code <> 0;\n";
static struct kiln_embedded files[FILES_MAX];
static int newest;
static char name[40];

/* The schema's own files and one more. */
static int start(void **state)
{
    int count = kiln_rig_start(state), i = 0;
    newest = kiln_migrate_version() + 1;
    snprintf(name, sizeof name, "%04d_test.concurrent.sql", newest);
    for (; kiln_embedded_sql[i].name; i++)
        files[i] = kiln_embedded_sql[i];
    files[i] = (struct kiln_embedded){name, text, sizeof text - 1};
    free(kiln_test_sql(rig.stack,
                       "INSERT INTO event (job_id, was, state, code, attempt, reason) SELECT i, 1,"
                       "  3, 5, 1, 'reason ' || i FROM generate_series(1, 50000) i"));
    return count;
}

/* As before the file was there. */
static int forget_index(void **state)
{
    (void)state;
    char sql[128];
    snprintf(sql, sizeof sql, "DELETE FROM schema_migrations WHERE version = %d", newest);
    free(kiln_test_sql(rig.stack, "DROP INDEX IF EXISTS " INDEX));
    free(kiln_test_sql(rig.stack, sql));
    return 0;
}

struct build {
    pthread_t thread;
    struct kiln_migration migration;
    struct kiln_error err;
    int rc, told;
    char phase[64];
};

static void note_progress(void *arg, const char *index, const char *phase, double done)
{
    struct build *build = arg;
    build->told += strcmp(index, INDEX) == 0 && done >= 0 && done <= 1;
    snprintf(build->phase, sizeof build->phase, "%s", phase);
}

static void *migrate(void *arg)
{
    struct build *build = arg;
    build->migration =
        (struct kiln_migration){.files = files, .progress = note_progress, .arg = build};
    build->rc = kiln_migrate(rig.stack->config, &build->migration, &build->err);
    return NULL;
}

static void begin_build(struct build *build)
{
    *build = (struct build){0};
    assert_int_equal(pthread_create(&build->thread, NULL, migrate, build), 0);
}

static void end_build(struct build *build)
{
    pthread_join(build->thread, NULL);
}

/* A transaction that has written and goes on: no build of an index can end before it. */
static PGconn *open_transaction(void)
{
    PGconn *conn = PQconnectdb(rig.stack->conninfo);
    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    PQclear(PQexec(conn, "BEGIN"));
    PGresult *written = PQexec(conn, "INSERT INTO event (job_id, was, state, code, attempt)"
                                     " VALUES (0, 1, 3, 5, 1)");
    assert_int_equal(PQresultStatus(written), PGRES_COMMAND_OK);
    PQclear(written);
    return conn;
}

static void wait_until_builder_waits(void)
{
    for (int i = 0; i < 3000; i++) {
        if (kiln_test_count(rig.stack, "SELECT count(*) FROM pg_stat_progress_create_index"
                                       " WHERE phase LIKE 'waiting%'") > 0)
            return;
        kiln_test_sleep_ms(20);
    }
    fail_msg("no index is being built");
}

static void the_fleet_commits_while_an_index_is_built(void **state)
{
    struct kiln_job job;
    struct kiln_ledger *daemon = NULL;
    struct build build;
    char sql[128];
    (void)state;
    PGconn *other = open_transaction();
    begin_build(&build);
    wait_until_builder_waits();
    int64_t began_ms = kiln_clock_ms();
    kiln_rig_assigned("during", 1, &job);
    assert_true(kiln_rig_commit(&job));
    kiln_rig_release(&job, 1);
    assert_in_range(kiln_clock_ms() - began_ms, 0, 25000);
    kiln_test_ok(kiln_ledger_open(rig.stack->config, "daemon", &daemon, &rig.err), rig.err);
    kiln_test_ok(kiln_ledger_check(daemon, &rig.err), rig.err);
    kiln_test_sleep_ms(1200); /* it is asked twice a second */
    assert_int_equal(kiln_test_count(rig.stack, VALID), 0);
    PQfinish(other);
    end_build(&build);
    kiln_test_ok(build.rc, build.err);
    assert_int_equal(build.migration.from, newest - 1);
    assert_int_equal(build.migration.to, newest);
    assert_true(build.told > 0);
    assert_int_equal(kiln_test_count(rig.stack, VALID), 1);
    /* Programs that do not know the index go on. */
    snprintf(sql, sizeof sql, "SELECT works_with FROM schema_migrations WHERE version = %d",
             newest);
    assert_in_range(kiln_test_count(rig.stack, sql), 1, newest - 1);
    kiln_test_ok(kiln_ledger_check(daemon, &rig.err), rig.err);
    kiln_ledger_close(daemon);
}

static void an_interrupted_build_is_repaired(void **state)
{
    struct build build;
    (void)state;
    PGconn *other = open_transaction();
    begin_build(&build);
    wait_until_builder_waits();
    free(kiln_test_sql(rig.stack, "SELECT pg_terminate_backend(pid) FROM"
                                  " pg_stat_progress_create_index"));
    end_build(&build);
    assert_int_equal(build.rc, KILN_UNAVAILABLE);
    assert_non_null(strstr(build.err.text, INDEX));
    assert_int_equal(
        kiln_test_count(rig.stack, "SELECT count(*) FROM pg_index WHERE NOT indisvalid"), 1);
    PQfinish(other);
    begin_build(&build);
    end_build(&build);
    kiln_test_ok(build.rc, build.err);
    assert_int_equal(kiln_test_count(rig.stack, VALID), 1);
    begin_build(&build);
    end_build(&build);
    kiln_test_ok(build.rc, build.err);
    assert_int_equal(build.migration.from, newest); /* nothing to do */
}

/* The second one may not wait in a statement, for which the build of the first would wait. */
static void two_migrators_do_not_wait_for_each_other(void **state)
{
    struct build builds[3];
    (void)state;
    PGconn *other = open_transaction();
    for (int i = 0; i < 3; i++)
        begin_build(&builds[i]);
    wait_until_builder_waits();
    kiln_test_sleep_ms(1500); /* longer than the server takes to look for a deadlock */
    PQfinish(other);
    for (int i = 0; i < 3; i++) {
        end_build(&builds[i]);
        kiln_test_ok(builds[i].rc, builds[i].err);
    }
    assert_int_equal(kiln_test_count(rig.stack, VALID), 1);
}

static void nothing_but_an_index_is_built_this_way(void **state)
{
    static const char *const wrong[] = {
        "DROP TABLE event", "CREATE INDEX " INDEX " ON event (reason)",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS \"E\" ON event (reason)", ""};
    struct build build;
    (void)state;
    struct kiln_embedded *file = &files[0];
    while (file->name != name)
        file++;
    const struct kiln_embedded right = *file;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        *file = (struct kiln_embedded){name, wrong[i], strlen(wrong[i])};
        begin_build(&build);
        end_build(&build);
        assert_int_equal(build.rc, KILN_INTERNAL);
        assert_non_null(strstr(build.err.text, name));
    }
    *file = right;
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM event") > 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fleet_commits_while_an_index_is_built),
        cmocka_unit_test_setup(an_interrupted_build_is_repaired, forget_index),
        cmocka_unit_test_setup(two_migrators_do_not_wait_for_each_other, forget_index),
        cmocka_unit_test_setup(nothing_but_an_index_is_built_this_way, forget_index),
    };
    return cmocka_run_group_tests(tests, start, kiln_rig_stop);
}
