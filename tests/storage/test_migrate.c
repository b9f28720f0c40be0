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
#include "storage/ledger/migrate.h"
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
    struct kiln_migration migration = {.dry_run = dry_run, .from = -1, .to = -1};
    int rc = kiln_migrate(stack->config, &migration, &err);
    *from = migration.from;
    *to = migration.to;
    return rc;
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
    struct kiln_migration migration = {0};
    (void)arg;
    return kiln_migrate(stack->config, &migration, &own) == 0 ? stack : NULL;
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

/* What the ledger says of a version: the oldest schema whose programs may go on; 0: none. */
static int works_with(int version)
{
    char sql[100];
    snprintf(sql, sizeof sql,
             "SELECT coalesce(max(works_with), 0) FROM schema_migrations"
             " WHERE version = %d",
             version);
    return (int)kiln_test_count(stack, sql);
}

/* What a program that was written before can tell: it reads and writes the old columns, finds its
 * ON CONFLICT targets and indexes, and its inserts are taken. */
static const char seen_sql[] =
    "CREATE TABLE seen AS SELECT 'column' AS kind, format('%s.%s %s %s %s', attrelid::regclass,"
    "  attname, format_type(atttypid, atttypmod), attnotnull, attgenerated) AS what,"
    "  attnotnull AND NOT atthasdef AS hard, attrelid AS rel"
    "  FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid IN"
    "  (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r')"
    " UNION ALL SELECT 'constraint', conrelid::regclass || ' ' || pg_get_constraintdef(oid), true,"
    "  conrelid FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
    " UNION ALL SELECT 'index', regexp_replace(indexdef, ' WITH \\([^)]*\\)', ''), false,"
    "  indexrelid FROM pg_indexes," /* how it is stored is its own affair */
    "  LATERAL (SELECT format('%I', tablename)::regclass::oid AS indexrelid) t"
    "  WHERE schemaname = 'public'"
    " UNION ALL SELECT 'trigger', pg_get_triggerdef(oid), tgfoid NOT IN (SELECT oid FROM pg_proc"
    "  WHERE proname IN ('image_set_changed', 'image_note_change', 'latent_note_gone',"
    "  'lora_note_end')), tgrelid"
    "  FROM pg_trigger WHERE NOT tgisinternal"; /* those only note, and refuse nothing */

static void what_is_gentle_only_adds(void **state)
{
    (void)state;
    int decided = 0, from, to, oldest[100];
    kiln_test_ok(migrate(false, &from, &to), err);
    assert_true(to < 100);
    for (int version = 0; version <= to; version++)
        oldest[version] = works_with(version);
    empty(NULL);
    for (const struct kiln_embedded *file = kiln_embedded_sql; file->name; file++) {
        int version = atoi(file->name);
        run_sql("ALTER TABLE IF EXISTS seen RENAME TO before");
        run_sql(file->text);
        run_sql("CREATE TABLE IF NOT EXISTS before (kind text, what text, hard bool, rel oid)");
        run_sql(seen_sql);
        long long lost =
            kiln_test_count(stack, "SELECT count(*) FROM (SELECT kind, what FROM before"
                                   " EXCEPT SELECT kind, what FROM seen) x");
        /* On tables of before: a constraint or trigger, or a column that must be given now. */
        long long hard = kiln_test_count(
            stack, "SELECT count(*) FROM seen s WHERE hard AND rel IN (SELECT rel FROM before)"
                   " AND rel <> 'before'::regclass AND (kind, what, hard) NOT IN"
                   " (SELECT kind, what, hard FROM before)");
        run_sql("DROP TABLE before");
        if (oldest[version] > 0 && lost + hard > 0)
            fail_msg("%s is said to be gentle: %lld things are gone, %lld are asked of older "
                     "programs",
                     file->name, lost, hard);
        decided += oldest[version] > 0;
    }
    assert_true(decided >= 5);
}

/* A program goes on only if every migration that it does not know works with its schema: so each
 * reaches back as far as the one before it. */
static void older_programs_go_on_over_several_migrations(void **state)
{
    (void)state;
    int from, to;
    kiln_test_ok(migrate(false, &from, &to), err);
    for (int version = 1; version <= kiln_migrate_version(); version++) {
        int oldest = works_with(version);
        assert_in_range(oldest, 0, version - 1);
        if (oldest > 0 && oldest < version - 1)
            assert_int_equal(works_with(version - 1), oldest);
    }
    assert_int_equal(works_with(3), 0);
    run_sql("UPDATE schema_migrations SET works_with = CASE version WHEN 8 THEN 7 END"); /* once */
    kiln_test_ok(migrate(false, &from, &to), err);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM schema_migrations"
                                            " WHERE version > 3 AND works_with = 3"),
                     kiln_migrate_version() - 3);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM schema_migrations"
                                            " WHERE version <= 3 AND works_with IS NULL"),
                     3);
    /* Nothing is taken for granted of a version that is not listed. */
    struct kiln_embedded files[100];
    size_t count = 0;
    while (kiln_embedded_sql[count].name)
        count++;
    assert_true(count < 98);
    memcpy(files, kiln_embedded_sql, count * sizeof *files);
    files[count] = (struct kiln_embedded){"0100_more.sql", "SELECT 1", 8};
    files[count + 1] = (struct kiln_embedded){0};
    struct kiln_migration migration = {.files = files};
    kiln_test_ok(kiln_migrate(stack->config, &migration, &err), err);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM schema_migrations"
                                            " WHERE version = 100 AND works_with IS NULL"),
                     1);
}

static void rights_that_lack_are_named(void **state)
{
    (void)state;
    struct kiln_config *config = kiln_config_new();
    char conninfo[300];
    struct kiln_migration migration = {0};
    run_sql("DROP ROLE IF EXISTS guest");
    run_sql("CREATE ROLE guest LOGIN");
    snprintf(conninfo, sizeof conninfo, "host=%s/postgres user=guest dbname=postgres", stack->dir);
    kiln_test_ok(kiln_config_set(config, "postgres", conninfo, "test", &err), err);
    assert_int_equal(kiln_migrate(config, &migration, &err), KILN_DENIED);
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
        cmocka_unit_test_setup(what_is_gentle_only_adds, empty),
        cmocka_unit_test_setup(older_programs_go_on_over_several_migrations, empty),
        cmocka_unit_test_setup(rights_that_lack_are_named, empty),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
