/* test_migrate.c - the schema arrives once, in one piece, and only where it belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libpq-fe.h>
#include <pthread.h>

#include "schemas/embedded.h"
#include "storage/migrate.h"
#include "tests/support/jobs.h"
#include "tests/support/stack.h"

static struct kiln_test_stack *stack;
static struct kiln_error err;

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_POSTGRES);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    kiln_test_stack_stop(stack);
    return 0;
}

static void run_sql(const char *sql)
{
    free(kiln_test_sql(stack, sql));
}

/* Each test finds an empty database. */
static int empty(void **state)
{
    (void)state;
    run_sql("DROP SCHEMA public CASCADE");
    run_sql("CREATE SCHEMA public");
    return 0;
}

static long long tables(void)
{
    return kiln_test_count(stack, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'");
}

static int migrate(bool dry_run, int *from, int *to)
{
    *from = *to = -1;
    return kiln_migrate(stack->config, dry_run, from, to, &err);
}

static void expect_text(const char *piece)
{
    if (!strstr(err.text, piece))
        fail_msg("expected \"%s\" in: %s", piece, err.text);
}

static void an_empty_database_gets_the_schema_once(void **state)
{
    (void)state;
    int from, to, files = 0;
    kiln_test_ok(migrate(true, &from, &to), err);
    assert_int_equal(from, 0);
    assert_int_equal(to, kiln_migrate_version());
    assert_int_equal(tables(), 0);
    kiln_test_ok(migrate(false, &from, &to), err);
    assert_int_equal(from, 0);
    assert_true(tables() > 5);
    kiln_test_ok(migrate(false, &from, &to), err);
    assert_int_equal(from, kiln_migrate_version());
    assert_int_equal(to, from);
    while (kiln_embedded_sql[files].name)
        files++;
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM schema_migrations"), files);
    assert_int_equal(kiln_test_count(stack, "SELECT max(version) FROM schema_migrations"), to);
}

static void a_newer_database_is_refused(void **state)
{
    (void)state;
    int from, to;
    kiln_test_ok(migrate(false, &from, &to), err);
    run_sql("INSERT INTO schema_migrations (version, name, sha256) VALUES (9999, 'x', 'x')");
    assert_int_equal(migrate(false, &from, &to), KILN_CONFIG);
    expect_text("schema 9999");
    expect_text("newer Kiln");
    assert_int_equal(migrate(true, &from, &to), KILN_CONFIG);
}

static void a_changed_file_is_refused(void **state)
{
    (void)state;
    int from, to;
    kiln_test_ok(migrate(false, &from, &to), err);
    run_sql("UPDATE schema_migrations SET sha256 = repeat('0', 64) WHERE version = 1");
    assert_int_equal(migrate(false, &from, &to), KILN_CONFIG);
    expect_text(kiln_embedded_sql[0].name);
}

static void a_failure_leaves_nothing_behind(void **state)
{
    (void)state;
    int from, to;
    run_sql("CREATE TABLE latent ()"); /* in the way, near the end of the first file */
    assert_int_equal(migrate(false, &from, &to), KILN_INTERNAL);
    expect_text(kiln_embedded_sql[0].name);
    expect_text("already exists");
    assert_int_equal(tables(), 1);
    run_sql("DROP TABLE latent");
    kiln_test_ok(migrate(false, &from, &to), err);
}

static void *migrate_too(void *arg)
{
    struct kiln_error own;
    int from, to;
    (void)arg;
    return kiln_migrate(stack->config, false, &from, &to, &own) == 0 ? stack : NULL;
}

static void several_may_migrate_at_once(void **state)
{
    (void)state;
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, migrate_too, NULL), 0);
    for (int i = 0; i < 6; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    int files = 0; /* numbers may be left out */
    while (kiln_embedded_sql[files].name)
        files++;
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM schema_migrations"), files);
}

static void rights_that_lack_are_named(void **state)
{
    (void)state;
    struct kiln_config *config = kiln_config_new();
    char conninfo[300];
    int from, to;
    run_sql("DROP ROLE IF EXISTS guest");
    run_sql("CREATE ROLE guest LOGIN");
    snprintf(conninfo, sizeof conninfo, "host=%s/postgres user=guest dbname=postgres", stack->dir);
    kiln_test_ok(kiln_config_set(config, "postgres", conninfo, "test", &err), err);
    assert_int_equal(kiln_migrate(config, false, &from, &to, &err), KILN_DENIED);
    kiln_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_database_gets_the_schema_once, empty),
        cmocka_unit_test_setup(a_newer_database_is_refused, empty),
        cmocka_unit_test_setup(a_changed_file_is_refused, empty),
        cmocka_unit_test_setup(a_failure_leaves_nothing_behind, empty),
        cmocka_unit_test_setup(several_may_migrate_at_once, empty),
        cmocka_unit_test_setup(rights_that_lack_are_named, empty),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
