/* test_ledger_lora.c - the registry of LoRAs in the ledger: versions, changes, files seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "storage/ledger/lora/change.h"
#include "storage/ledger/lora/ratings.h"
#include "storage/ledger/safety/vote.h"
#include "storage/ledger/upkeep/backup.h"
#include "storage/ledger/upkeep/favourite.h"
#include "storage/ledger/upkeep/garbage.h"
#include "tests/support/rig.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C64 "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static struct kiln_lora_list list;
static struct kiln_lora_row last;
static unsigned rows_seen;
static char last_entry[200];

static void read_list(uint64_t version)
{
    bool changed = false;
    kiln_lora_list_release(&list);
    kiln_test_ok(kiln_lora_list(rig.ledger, "p", version, UINT64_MAX, &list, &changed, &rig.err),
                 rig.err);
    assert_true(changed);
}

static int note_row(void *arg, const struct kiln_lora_row *row, struct kiln_error *err)
{
    (void)arg;
    (void)err;
    last = *row;
    snprintf(last_entry, sizeof last_entry, "%s", row->entry);
    rows_seen++;
    return 0;
}

/* The live row of a name into `last`; its id, 0 for none. */
static uint64_t live(const char *name)
{
    rows_seen = 0;
    last = (struct kiln_lora_row){0};
    kiln_test_ok(kiln_lora_rows(rig.ledger, "p", KILN_LORA_NOW, name, note_row, NULL, &rig.err),
                 rig.err);
    return last.id;
}

static int change(uint64_t ends, const char *name, const char *sha256, const char *entry,
                  uint64_t *ret)
{
    struct kiln_lora_file_facts file = {
        .bytes = 1000, .rank = 8, .modules = 30, .strength = 0.25, .stored = true};
    snprintf(file.sha256, sizeof file.sha256, "%s", sha256);
    return kiln_lora_change(rig.ledger, "p",
                            &(struct kiln_lora_change){.ends = ends,
                                                       .name = name,
                                                       .tenant = "",
                                                       .file = &file,
                                                       .new_file = true,
                                                       .enabled = true,
                                                       .routable = true,
                                                       .who = "ann@vm",
                                                       .entry = entry},
                            ret, &rig.err);
}

static uint64_t changed(uint64_t ends, const char *name, const char *sha256, const char *entry)
{
    uint64_t version = 0;
    kiln_test_ok(change(ends, name, sha256, entry, &version), rig.err);
    return version;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void an_empty_registry_is_version_0(void **state)
{
    (void)state;
    bool changed = true;
    read_list(KILN_LORA_NOW);
    assert_int_equal(list.version, 0);
    assert_int_equal(list.count, 0);
    assert_string_equal(list.texts, "{\"loras\":[]}");
    assert_null(kiln_lora_find(&list, "ink"));
    kiln_test_ok(kiln_lora_list(rig.ledger, "p", KILN_LORA_NOW, 0, &list, &changed, &rig.err),
                 rig.err);
    assert_false(changed);
    assert_int_equal(kiln_lora_list(rig.ledger, "p", 1, 0, &list, &changed, &rig.err),
                     KILN_NOT_FOUND);
}

static void every_version_can_be_read_again(void **state)
{
    (void)state;
    assert_int_equal(changed(0, "ink", A64, "{\"name\": \"ink\", \"triggers\": [\"inkwash\"]}"), 1);
    assert_int_equal(changed(0, "clay", B64, "{\"name\": \"clay\", \"triggers\": [\"clay\"]}"), 2);
    assert_int_equal(changed(live("ink"), "sumi", A64, "{\"name\": \"sumi\"}"), 3);  /* a name */
    assert_int_equal(changed(live("sumi"), "sumi", C64, "{\"name\": \"sumi\"}"), 4); /* a file */
    assert_int_equal(changed(live("clay"), "clay", B64, NULL), 5);
    read_list(KILN_LORA_NOW);
    assert_int_equal(list.version, 5);
    assert_int_equal(list.count, 1);
    assert_string_equal(kiln_lora_find(&list, "sumi")->sha256, C64);
    assert_true(kiln_lora_find(&list, "sumi")->stored);
    assert_string_equal(list.texts, "{\"loras\":[{\"name\": \"sumi\"}]}");
    read_list(2);
    assert_int_equal(list.version, 2);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.at[0].name, "clay");
    assert_string_equal(kiln_lora_find(&list, "ink")->sha256, A64);
    assert_null(kiln_lora_find(&list, "sumi"));
    assert_non_null(strstr(list.texts, "inkwash"));
    read_list(4);
    assert_int_equal(list.count, 2);
    live("sumi");
    rows_seen = 0;
    kiln_test_ok(kiln_lora_history(rig.ledger, last.lora, note_row, NULL, &rig.err), rig.err);
    assert_int_equal(rows_seen, 3);
    assert_int_equal(last.since, 4);
    assert_int_equal(last.until, 0);
    assert_int_equal(last.file.rank, 8);
    assert_string_equal(last.file.sha256, C64);
    assert_true(last.file.strength == 0.25);
    assert_true(last.at_ms > 1700000000000);
}

static void a_job_gets_the_files_behind_its_loras(void **state)
{
    (void)state;
    struct kiln_lora_name names[] = {
        {.name = "ink", .sha256 = A64, .stored = true},
        {.name = "mine", .tenant = "ann", .sha256 = B64, .stored = true},
        {.name = "seen", .sha256 = C64}};
    const struct kiln_lora_list three = {.at = names, .count = 3};
    struct kiln_job job = {.tenant = "ann", .lora_count = KILN_LORAS_MAX};
    static const char *const wanted[KILN_LORAS_MAX] = {"seen", "mine", "ink"};
    for (int i = 0; i < KILN_LORAS_MAX; i++)
        snprintf(job.loras[i].name, sizeof job.loras[i].name, "%s", wanted[i]);
    snprintf(job.loras[2].sha256, sizeof job.loras[2].sha256, "%s", C64);
    kiln_test_ok(kiln_lora_pin(&three, &job, &rig.err), rig.err);
    assert_string_equal(job.loras[0].sha256, C64); /* which only directories have */
    assert_string_equal(job.loras[1].sha256, B64);
    assert_string_equal(job.loras[2].sha256, C64); /* as it was */
    job.loras[1].sha256[0] = '\0';
    job.tenant = "bob";
    assert_int_equal(kiln_lora_pin(&three, &job, &rig.err), KILN_BAD_INPUT);
    assert_string_equal(rig.err.text, "loras: \"mine\" is not for tenant \"bob\"");
}

/* --- changing --------------------------------------------------------------------------------- */

static void a_repeated_change_changes_nothing(void **state)
{
    (void)state;
    static const char first[] = "{\"name\": \"neon\", \"scale\": 1}";
    static const char second[] = "{\"name\": \"neon\", \"scale\": 0.5}";
    uint64_t added = changed(0, "neon", A64, first);
    assert_int_equal(changed(0, "neon", A64, first), added);
    uint64_t row = live("neon"), edited = changed(row, "neon", A64, second);
    assert_int_equal(edited, added + 1);
    assert_int_equal(changed(row, "neon", A64, second), edited);
    assert_int_equal(changed(live("neon"), "neon", A64, second), edited); /* nothing to change */
    row = live("neon");
    uint64_t removed = changed(row, "neon", A64, NULL);
    assert_int_equal(changed(row, "neon", A64, NULL), removed);
    assert_int_equal(live("neon"), 0);
    read_list(KILN_LORA_NOW);
    assert_int_equal(list.version, removed);
}

static void nobody_overwrites_the_change_of_another(void **state)
{
    (void)state;
    uint64_t version;
    changed(0, "pixel", A64, "{\"name\": \"pixel\"}");
    uint64_t row = live("pixel");
    uint64_t now = changed(row, "pixel", A64, "{\"name\": \"pixel\", \"scale\": 0.7}");
    assert_int_equal(change(row, "pixel", A64, "{\"name\": \"pixel\", \"scale\": 0.9}", &version),
                     KILN_STALE);
    assert_non_null(strstr(rig.err.text, "'pixel'"));
    assert_int_equal(change(row, "pixel", A64, NULL, &version), KILN_STALE);
    assert_int_equal(change(0, "pixel", B64, "{\"name\": \"pixel\"}", &version), KILN_EXISTS);
    changed(0, "voxel", B64, "{\"name\": \"voxel\"}");
    assert_int_equal(change(live("voxel"), "pixel", B64, "{\"name\": \"pixel\"}", &version),
                     KILN_EXISTS);
    assert_int_equal(change(999999, "dots", B64, "{\"name\": \"dots\"}", &version), KILN_STALE);
    read_list(KILN_LORA_NOW);
    assert_int_equal(list.version, now + 1);
}

/* Files of rows that were never there are refused by the database. */
static void a_row_needs_its_file(void **state)
{
    (void)state;
    uint64_t version;
    struct kiln_lora_file_facts file = {.sha256 = "dddd"};
    struct kiln_lora_change wanted = {
        .name = "lost", .tenant = "", .file = &file, .who = "x", .entry = "{}"};
    assert_int_not_equal(kiln_lora_change(rig.ledger, "p", &wanted, &version, &rig.err), 0);
    assert_int_equal(live("lost"), 0);
}

#define WRITERS 4
#define WRITES 25
static void *write_many(void *arg)
{
    struct kiln_ledger *ledger;
    struct kiln_error err;
    uint64_t version;
    char name[16];
    struct kiln_lora_file_facts file = {.sha256 = A64, .bytes = 1, .strength = -1};
    if (kiln_ledger_open(rig.stack->config, "writer", &ledger, &err))
        return NULL;
    int rc = 0;
    for (int i = 0; i < WRITES && rc == 0; i++) {
        snprintf(name, sizeof name, "w%d-%d", *(int *)arg, i);
        rc = kiln_lora_change(ledger, "many",
                              &(struct kiln_lora_change){.name = name,
                                                         .tenant = "",
                                                         .file = &file,
                                                         .new_file = true,
                                                         .who = "x",
                                                         .entry = "{}"},
                              &version, &err);
    }
    kiln_ledger_close(ledger);
    return rc ? NULL : arg;
}

static void changes_at_the_same_moment_follow_each_other(void **state)
{
    (void)state;
    pthread_t threads[WRITERS];
    int numbers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &numbers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(DISTINCT since) FROM lora"
                                                " WHERE pool = 'many'"),
                     WRITERS * WRITES);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT version FROM lora_registry"
                                                " WHERE pool = 'many'"),
                     WRITERS * WRITES);
}

/* --- files of lora_dir ------------------------------------------------------------------------ */

static void see(const char *name, const char *sha256, const char *expected)
{
    char found[KILN_LORA_SHA256_MAX];
    kiln_test_ok(
        kiln_lora_register_seen(
            rig.ledger, "p",
            &(struct kiln_lora_seen){.name = name, .tenant = "", .sha256 = sha256, .bytes = 77},
            found, &rig.err),
        rig.err);
    assert_string_equal(found, expected);
}

static void a_file_of_a_directory_is_registered_on_sight(void **state)
{
    (void)state;
    see("found", A64, A64);
    live("found");
    assert_true(last.seen && !last.routable);
    assert_string_equal(last.who, "lora_dir");
    uint64_t since = last.since;
    see("found", A64, A64); /* once more */
    live("found");
    assert_int_equal(last.since, since);
    see("found", B64, B64); /* another file under the name */
    live("found");
    assert_int_equal(last.since, since + 1);
    assert_string_equal(last.file.sha256, B64);
    const struct kiln_lora_seen texts = {.name = "found",
                                         .tenant = "ann",
                                         .sha256 = B64,
                                         .bytes = 77,
                                         .entry = "{\"name\": \"found\", \"triggers\": [\"x\"]}",
                                         .enabled = true,
                                         .routable = true};
    for (int i = 0; i < 2; i++) { /* with texts now; the second time nothing is new */
        char found[KILN_LORA_SHA256_MAX];
        kiln_test_ok(kiln_lora_register_seen(rig.ledger, "p", &texts, found, &rig.err), rig.err);
        live("found");
        assert_int_equal(last.since, since + 2);
        assert_true(last.seen && last.routable);
        assert_string_equal(last.tenant, "ann");
    }
    changed(last.id, "found", C64, "{\"name\": \"found\"}"); /* somebody adds one */
    live("found");
    assert_false(last.seen);
    see("found", A64, C64);
    live("found");
    assert_string_equal(last.file.sha256, C64);
    read_list(KILN_LORA_NOW);
    assert_null(strstr(list.texts, "lora_dir"));
}

/* One that somebody added has a file in the store, so it stays. */
static void a_lora_leaves_with_its_file(void **state)
{
    (void)state;
    static const char *const there[] = {"stays"};
    uint32_t ended;
    see("leaves", A64, A64);
    see("stays", B64, B64);
    changed(0, "added", C64, "{\"name\": \"added\"}");
    for (uint32_t expected = 1;; expected = 0) { /* the second time nothing is left to do */
        kiln_test_ok(kiln_lora_end_seen(rig.ledger, "p", there, 1, &ended, &rig.err), rig.err);
        assert_int_equal(ended, expected);
        if (!expected)
            break;
    }
    read_list(KILN_LORA_NOW);
    assert_null(kiln_lora_find(&list, "leaves"));
    assert_non_null(kiln_lora_find(&list, "stays"));
    assert_non_null(kiln_lora_find(&list, "added"));
    read_list(list.version - 1);
    assert_non_null(kiln_lora_find(&list, "leaves"));
    see("leaves", A64, A64);
    read_list(KILN_LORA_NOW);
    assert_non_null(kiln_lora_find(&list, "leaves"));
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void waiting_jobs_are_counted(void **state)
{
    (void)state;
    struct kiln_job jobs[3];
    uint64_t count = 0;
    assert_int_equal(kiln_rig_assigned("wait", 3, jobs), 3);
    kiln_test_insert(rig.ledger, "wait2", 2);
#define SET(loras, where) "UPDATE job SET loras = '" loras "' WHERE " where
    free(
        kiln_test_sql(rig.stack, SET("[{\"name\": \"ink\", \"scale\": 1, \"sha256\": \"" A64 "\"}]",
                                     "state = 1 AND index = 0")));
    free(
        kiln_test_sql(rig.stack, SET("[{\"name\": \"ink\", \"scale\": 1, \"sha256\": \"" B64 "\"}]",
                                     "state = 1 AND index = 1")));
    free(kiln_test_sql(rig.stack, SET("[{\"name\": \"ink\", \"scale\": 1}]",
                                      "state = 0 AND index = 0 AND batch_id = (SELECT max(id)"
                                      " FROM batch)")));
    kiln_test_ok(kiln_lora_waiting(rig.ledger, "p", "ink", A64, &count, &rig.err), rig.err);
    assert_int_equal(count, 2); /* by hash and by name alone; another file of the name is not it */
    kiln_test_ok(kiln_lora_waiting(rig.ledger, "p", "other", B64, &count, &rig.err), rig.err);
    assert_int_equal(count, 1);
    kiln_test_ok(kiln_lora_waiting(rig.ledger, "q", "ink", A64, &count, &rig.err), rig.err);
    assert_int_equal(count, 0);
    kiln_rig_release(jobs, 3);
}

/* --- ratings ---------------------------------------------------------------------------------- */

static struct kiln_lora_ratings rated[4];
static size_t rated_count;

static int note_ratings(void *arg, const struct kiln_lora_ratings *row, struct kiln_error *err)
{
    (void)arg;
    (void)err;
    assert_in_range(rated_count, 0, 3);
    rated[rated_count++] = *row;
    return 0;
}

static void read_ratings(void)
{
    rated_count = 0;
    kiln_test_ok(kiln_lora_ratings(rig.ledger, "p", note_ratings, NULL, &rig.err), rig.err);
}

static void vote(uint64_t job, int value)
{
    kiln_test_ok(kiln_ledger_vote(rig.ledger, "p", job, value, &rig.err), rig.err);
}

/* The vote wins over the favourite; jobs that named their LoRAs, or got none, do not count. */
static void ratings_belong_to_the_file_that_was_chosen(void **state)
{
    (void)state;
    struct kiln_job jobs[6];
    uint64_t changes, pictures;
    char sql[300];
    const uint64_t at = changed(0, "brush", A64, "{\"name\": \"brush\"}");
    changed(0, "felt", B64, "{\"name\": \"felt\"}");
    read_ratings();
    assert_int_equal(rated_count, 0);
    assert_int_equal(kiln_rig_assigned("rated", 6, jobs), 6);
    for (int i = 0; i < 6; i++) {
        static const char *const loras[] = {"[{\"name\":\"brush\"}]",
                                            "[{\"name\":\"brush\"},{\"name\":\"felt\"}]",
                                            "[{\"name\":\"brush\"}]",
                                            "[{\"name\":\"felt\"}]",
                                            "[]",
                                            "[{\"name\":\"brush\"}]"};
        assert_true(kiln_rig_commit(&jobs[i]));
        snprintf(sql, sizeof sql,
                 "UPDATE job SET loras = '%s', route = CASE %d WHEN 5 THEN NULL ELSE"
                 " '{\"v\":%llu,\"r\":1,\"p\":[]}' END WHERE id = %llu",
                 loras[i], i, (unsigned long long)at + 1, (unsigned long long)jobs[i].id);
        free(kiln_test_sql(rig.stack, sql));
    }
    vote(jobs[0].id, 1);
    vote(jobs[1].id, -1);
    kiln_test_ok(kiln_ledger_mark(rig.ledger, "p", (uint64_t[]){jobs[1].id, jobs[2].id}, 2, NULL,
                                  true, &changes, &pictures, &rig.err),
                 rig.err);
    vote(jobs[4].id, 1);
    vote(jobs[5].id, -1);
    changed(live("brush"), "pen", A64, "{\"name\": \"pen\", \"bias\": 0.125}"); /* another name */
    read_ratings();
    assert_int_equal(rated_count, 2);
    assert_string_equal(rated[0].name, "felt");
    assert_true(rated[0].liked == 0 && rated[0].rated == 1);
    assert_string_equal(rated[1].name, "pen");
    assert_true(rated[1].liked == 2 && rated[1].rated == 3 && rated[1].bias == 0.125);
    assert_true(rated[1].pool_liked == 2 && rated[1].pool_rated == 3);
    changed(live("pen"), "pen", C64, "{\"name\": \"pen\", \"bias\": 0.125}"); /* another file */
    read_ratings();
    assert_int_equal(rated_count, 2);
    assert_true(rated[1].rated == 0 && rated[1].bias == 0.125 && !rated[1].seen);
    changed(live("felt"), "felt", B64, NULL);
    read_ratings();
    assert_int_equal(rated_count, 1);
    kiln_rig_release(jobs, 6);
}

/* --- files in the store ----------------------------------------------------------------------- */

#define F64 "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
#define F_KEY "loras/" F64 ".safetensors"

static unsigned used;
static int note_use(void *arg, const size_t *at, size_t n, struct kiln_error *err)
{
    (void)arg;
    (void)at;
    (void)err;
    used += (unsigned)n;
    return 0;
}

/* Whether gc may remove the file; if so, it has. */
static bool removable(void)
{
    struct kiln_found found = {F_KEY, 0};
    used = 0;
    assert_true(kiln_found_job(F_KEY, &found.job));
    assert_int_equal(found.job, 0);
    kiln_test_ok(kiln_ledger_with_unclaimed(rig.ledger, &found, 1, note_use, NULL, &rig.err),
                 rig.err);
    return used == 1;
}

static enum kiln_claim claim(void)
{
    struct kiln_found found = {F_KEY, 0};
    enum kiln_claim ret;
    kiln_test_ok(kiln_ledger_claims(rig.ledger, &found, 1, &ret, &rig.err), rig.err);
    return ret;
}

static void an_hour_passes(void)
{
    free(kiln_test_sql(rig.stack, "UPDATE lora_file SET at = at - interval '2 hours'"));
}

static unsigned vouched;
static int note_object(void *arg, const char *key, uint64_t bytes, const char *sha256,
                       struct kiln_error *err)
{
    (void)arg;
    (void)err;
    if (strcmp(key, F_KEY) == 0) {
        assert_int_equal(bytes, 1000);
        assert_string_equal(sha256, F64);
        vouched++;
    }
    return 0;
}

/* How often a backup lists the file. */
static unsigned in_backup(void)
{
    struct kiln_snapshot *snapshot;
    struct kiln_snapshot_facts facts;
    vouched = 0;
    kiln_test_ok(kiln_snapshot_open(rig.stack->config, &snapshot, &facts, &rig.err), rig.err);
    kiln_test_ok(kiln_snapshot_objects(snapshot, note_object, NULL, &rig.err), rig.err);
    kiln_snapshot_close(snapshot);
    return vouched;
}

static void a_file_stays_while_somebody_needs_it(void **state)
{
    (void)state;
    struct kiln_job job;
    assert_int_equal(claim(), KILN_CLAIM_NONE); /* no row knows it: an interrupted add */
    changed(0, "kept", F64, "{\"name\": \"kept\"}");
    an_hour_passes();
    assert_int_equal(claim(), KILN_CLAIM_ROW);
    assert_false(removable());
    assert_int_equal(in_backup(), 1);
    changed(live("kept"), "kept", A64, "{\"name\": \"kept\"}"); /* replaced */
    assert_false(removable());                                  /* a moment ago */
    an_hour_passes();
    assert_int_equal(kiln_rig_assigned("needs", 1, &job), 1);
    free(kiln_test_sql(rig.stack, "UPDATE job SET loras = '[{\"name\": \"kept\", \"scale\": 1,"
                                  " \"sha256\": \"" F64 "\"}]' WHERE state = 1 AND batch_id ="
                                  " (SELECT id FROM batch WHERE name = 'needs')"));
    assert_int_equal(claim(), KILN_CLAIM_ROW);
    assert_false(removable());
    assert_true(kiln_rig_commit(&job));
    assert_false(removable()); /* its picture is kept */
    free(kiln_test_sql(rig.stack, "DELETE FROM latent WHERE job_id = (SELECT max(id) FROM job)"));
    free(kiln_test_sql(rig.stack, "DELETE FROM image WHERE job_id = (SELECT max(id) FROM job)"));
    assert_int_equal(claim(), KILN_CLAIM_NONE);
    assert_true(removable());
    assert_int_equal(in_backup(), 0);
    changed(0, "again", F64, "{\"name\": \"again\"}"); /* added once more */
    assert_int_equal(in_backup(), 1);
    assert_false(removable());
    kiln_rig_release(&job, 1);
}

static int stop(void **state)
{
    kiln_lora_list_release(&list);
    return kiln_rig_stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_registry_is_version_0),
        cmocka_unit_test(every_version_can_be_read_again),
        cmocka_unit_test(a_job_gets_the_files_behind_its_loras),
        cmocka_unit_test(a_repeated_change_changes_nothing),
        cmocka_unit_test(nobody_overwrites_the_change_of_another),
        cmocka_unit_test(a_row_needs_its_file),
        cmocka_unit_test(changes_at_the_same_moment_follow_each_other),
        cmocka_unit_test(a_file_of_a_directory_is_registered_on_sight),
        cmocka_unit_test(a_lora_leaves_with_its_file),
        cmocka_unit_test(waiting_jobs_are_counted),
        cmocka_unit_test(ratings_belong_to_the_file_that_was_chosen),
        cmocka_unit_test(a_file_stays_while_somebody_needs_it),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, stop);
}
