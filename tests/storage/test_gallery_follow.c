/* test_gallery_follow.c - the index of words equals the ledger, whatever the order of commits.
 *
 * Writers with open transactions commit late, in any order, or not at all, while followers step,
 * die, and take over from each other; pictures change their level, get stars, are removed; the
 * ledger is restored on another cluster; fingerprints of pixels are computed meanwhile, and written
 * late.  KILN_FOLLOW_SEEDS=1000 runs more seeds than the usual
 * thirty, KILN_FOLLOW_SEED=7 one of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "storage/ledger/gallery/fingerprints.h"
#include "storage/ledger/gallery/follow.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/upkeep/database_roles.h"
#include "tests/support/gallery.h"
#include "tests/support/random.h"
#include "tests/support/rig.h"

#define SEEDS 30
#define JOBS 60
#define WRITERS 4
#define ACTIONS 120

static int run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : -1;
}

static void sql(const char *text)
{
    free(kiln_test_sql(rig.stack, text));
}

static int start(void **state)
{
    int rc = kiln_rig_start(state);
    kiln_test_shown(rig.stack, &(struct kiln_test_shown){.prompt = "first"});
    sql("CREATE TABLE kept AS SELECT * FROM image");
    sql("INSERT INTO job (batch_id, seed, guidance, index, width, height, steps, max_wait_s,"
        " priority, kind, latents, teleport, embed_metadata, lora_auto, pool, key, token, prompt,"
        " negative_prompt, tenant, model, loras, lora_set, state) SELECT batch_id, 1, 0, n, 256,"
        " 256, 8, 0, 0, 0, 0, 0, false, false, 'p', 'more' || n, 't', 'x', '', 'ann', '', '[]', '',"
        " 2 FROM kept, generate_series(1, 60) n");
    return rc;
}

/* What a process keeps of the ledger by the reports of its follower. */
struct kept {
    bool there[JOBS + 10];
    uint64_t reports;
};

static uint64_t first_job(void)
{
    return (uint64_t)kiln_test_count(rig.stack, "SELECT min(id) FROM job");
}

static int note(void *arg, uint64_t job, bool gone, struct kiln_error *err)
{
    (void)err;
    struct kept *kept = arg;
    static uint64_t first;
    first = first ? first : first_job();
    assert_in_range(job - first, 0, JOBS + 9);
    kept->there[job - first] = !gone;
    kept->reports++;
    return 0;
}

/* A follower, and what its process read by itself at the start. */
static struct kiln_follower *follow(struct kept *kept, uint32_t page_rows)
{
    struct kiln_follower *follower = NULL;
    struct kiln_follower_options options = {
        .each = note, .arg = kept, .page_rows = page_rows, .count_ms = 1};
    struct kiln_follower_progress progress;
    kiln_test_ok(kiln_follower_open(rig.stack->config, "follower", &options, &follower, &rig.err),
                 rig.err);
    kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
    char *there = kiln_test_sql(rig.stack, "SELECT coalesce(string_agg((job_id - (SELECT min(id)"
                                           " FROM job))::text, ','), '') FROM image");
    memset(kept->there, 0, sizeof kept->there);
    for (char *at = strtok(there, ","); at; at = strtok(NULL, ","))
        kept->there[atoi(at)] = true;
    free(there);
    return follower;
}

struct world {
    struct test_random random;
    PGconn *writers[WRITERS];
    bool open[WRITERS];
    struct kiln_follower *followers[2];
    struct kept kept[2];
    struct kiln_fingerprint prints[JOBS + 10]; /* computed, and not written yet */
    uint32_t print_count;
};

static uint32_t below(struct world *world, uint32_t n)
{
    return test_random_below(&world->random, n);
}

static struct kiln_follower_progress step(struct world *world, int which)
{
    struct kiln_follower_progress progress;
    kiln_test_ok(kiln_follower_step(world->followers[which], &progress, &rig.err), rig.err);
    if (progress.replaced) { /* reads the ledger again */
        kiln_follower_close(world->followers[which]);
        world->followers[which] = follow(&world->kept[which], 1 + below(world, 7));
        progress.more = true;
    }
    return progress;
}

/* A picture of the job whose id stands between them. */
#define SHOW                                                                                       \
    "WITH i AS (INSERT INTO image (job_id, batch_id, created_at, seed, guidance, width, "          \
    "height, steps,"                                                                               \
    " attempt, wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms, pool, prompt,"       \
    " negative_prompt, prompt_hash, model, model_name, model_hash, loras, lora_set, tenant,"       \
    " worker) SELECT id, batch_id, now() - id * interval '3 hours', 1, 0, 256, 256, 8, 1, 0,"      \
    " 0, 0, 0, 0, 0, CASE id % 3 WHEN 0 THEN 'q' ELSE 'p' END, 'w' || id, '', 'h', '', 'm',"       \
    " 'h', '[]', '', 'ann', 'w' FROM job WHERE id = "
#define SHOW_END                                                                                   \
    " RETURNING job_id) INSERT INTO object (job_id, bytes, width, height, role, key, sha256,"      \
    " content_type) SELECT job_id, 1, 256, 256, 'full', 'k' || job_id, md5(random()::text),"       \
    " 'image/webp' FROM i ON CONFLICT (job_id, role) DO UPDATE SET sha256 = excluded.sha256"

/* One statement of a writer, in a transaction that may stay open; one that waits is rolled back. */
static void write_something(struct world *world)
{
    static const struct {
        const char *before, *behind;
        uint32_t weight;
    } kinds[] = {
        {SHOW, SHOW_END, 4},
        {"UPDATE image SET safety_flag = (coalesce(safety_flag, 0) + 1) % 4 WHERE job_id = ", "",
         2},
        {"UPDATE image SET prompt = prompt || ' more' WHERE length(prompt) < 40 AND job_id = ", "",
         1},
        {"INSERT INTO favourite (job_id) SELECT job_id FROM image WHERE job_id = ",
         " ON CONFLICT DO NOTHING", 2},
        {"DELETE FROM favourite WHERE job_id = ", "", 1},
        {"DELETE FROM image WHERE job_id = ", "", 1},
    };
    uint32_t which = below(world, WRITERS), kind = 0, at = below(world, 11);
    PGconn *conn = world->writers[which];
    char text[1500];
    if (!world->open[which]) {
        run(conn, "BEGIN");
        world->open[which] = true;
    }
    while (at >= kinds[kind].weight)
        at -= kinds[kind++].weight;
    snprintf(text, sizeof text, "%s%llu%s", kinds[kind].before,
             (unsigned long long)first_job() + below(world, JOBS), kinds[kind].behind);
    run(conn, "SAVEPOINT s");
    if (run(conn, text) != 0)
        run(conn, "ROLLBACK TO s");
}

/* What the background thread of a gallery does with a page of pictures: reads those that have no
 * fingerprint, computes, and writes them later, when other things have happened. */
static int take_print(void *arg, const struct kiln_fingerprint_row *row, struct kiln_error *err)
{
    struct world *world = arg;
    (void)err;
    assert_true(row->made || row->key);
    if (!row->made && world->print_count < JOBS + 10) {
        world->prints[world->print_count] = row->print;
        world->prints[world->print_count++].quality = 50;
    }
    return 0;
}

static void look_at_pictures(struct world *world, uint64_t from, uint32_t count)
{
    kiln_test_ok(
        kiln_gallery_fingerprints_below(rig.ledger, from, count, take_print, world, &rig.err),
        rig.err);
}

static void write_prints(struct world *world)
{
    kiln_test_ok(
        kiln_gallery_fingerprints_put(rig.ledger, world->prints, world->print_count, &rig.err),
        rig.err);
    world->print_count = 0;
}

static void end_one(struct world *world, uint32_t which, bool commit)
{
    if (world->open[which])
        run(world->writers[which], commit ? "COMMIT" : "ROLLBACK");
    world->open[which] = false;
}

/* As after a restore from a dump on another cluster: its number, and the numbers of transactions,
 * are others. */
static void restore(struct world *world)
{
    for (uint32_t i = 0; i < WRITERS; i++)
        end_one(world, i, false);
    for (int i = 0; i < 2; i++) {
        kiln_follower_close(world->followers[i]);
        world->followers[i] = NULL;
    }
    sql("BEGIN; SET LOCAL session_replication_role = replica;"
        " UPDATE image SET changed = '900000000'; UPDATE image_change SET changed = '5000000000';"
        " DELETE FROM image WHERE job_id % 7 = 1 AND job_id NOT IN (SELECT job_id FROM favourite);"
        " UPDATE gallery_state SET cluster = cluster + 1, snapshot = '800000000:800000001:'; "
        "COMMIT");
    for (int i = 0; i < 2; i++)
        world->followers[i] = follow(&world->kept[i], 1 + below(world, 7));
}

static void act(struct world *world)
{
    uint32_t what = below(world, 100), which = below(world, 2);
    if (what < 48) {
        write_something(world);
    } else if (what < 54) {
        look_at_pictures(world, first_job() + below(world, JOBS + 1), 1 + below(world, 20));
    } else if (what < 60) {
        write_prints(world);
    } else if (what < 72) {
        end_one(world, below(world, WRITERS), below(world, 4) > 0);
    } else if (what < 96) {
        (void)step(world, (int)which);
    } else if (what < 99) {
        kiln_follower_close(world->followers[which]);
        world->followers[which] = follow(&world->kept[which], 1 + below(world, 7));
    } else {
        restore(world);
    }
}

static void settle(struct kiln_follower *follower)
{
    struct kiln_follower_progress progress = {.more = true};
    for (int i = 0; i < 1000 && (progress.more || !progress.complete); i++)
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
    assert_false(progress.more);
    assert_true(progress.complete);
}

/* The same for one that may find the ledger replaced: after a restore it knows only when it leads,
 * which is when the server has ended the connections of those that were closed.  A round that began
 * before the last commit ends without it, so the next one has to be quiet too. */
static void settle_in(struct world *world, int which)
{
    struct kiln_follower_progress progress;
    int quiet = 0;
    for (int i = 0; i < 1000 && quiet < 2; i++) {
        progress = step(world, which);
        quiet = progress.more || !progress.complete ? 0 : quiet + 1;
    }
    assert_int_equal(quiet, 2);
}

/* The index has the pictures of the ledger, each as it is, and nothing else. */
static void expect_equal(uint64_t seed)
{
    static const char *const differ[] = {
        "SELECT count(*) FROM image i FULL JOIN gallery_text t USING (job_id) WHERE i.job_id IS "
        "NULL"
        " OR t.job_id IS NULL OR t.level IS DISTINCT FROM i.safety_flag OR t.pool <> i.pool"
        " OR t.day <> (i.created_at AT TIME ZONE 'UTC')::date",
        "SELECT count(*) FROM image i JOIN gallery_text t USING (job_id) WHERE"
        " (t.tsv @@ '''f:1'''::tsquery) <> EXISTS (SELECT FROM favourite f WHERE f.job_id ="
        " i.job_id) OR NOT t.tsv @@ ('''w' || job_id || '''')::tsquery"
        " OR coalesce(array_length((SELECT positions FROM unnest(t.tsv) WHERE lexeme = 'more'), 1),"
        "  0) <> (length(i.prompt) - length('w' || job_id)) / 5",
        "SELECT count(*) FROM (SELECT pool, (created_at AT TIME ZONE 'UTC')::date AS day,"
        "  coalesce(safety_flag, -1) AS level, count(*) AS n, min(job_id) AS a, max(job_id) AS b"
        "  FROM image GROUP BY 1, 2, 3) i FULL JOIN (SELECT * FROM gallery_day WHERE pictures <> 0)"
        " d USING (pool, day, level) WHERE i.n IS DISTINCT FROM d.pictures OR d.first_job > i.a"
        " OR d.last_job < i.b",
        "SELECT count(*) FROM image i FULL JOIN gallery_picture p USING (job_id) WHERE i.job_id IS"
        " NULL OR p.job_id IS NULL OR p.quality <> 50 OR p.file IS DISTINCT FROM (SELECT"
        " hashtextextended(sha256, 0) FROM object o WHERE o.job_id = i.job_id)",
    };
    for (size_t i = 0; i < sizeof differ / sizeof *differ; i++) {
        long long count = kiln_test_count(rig.stack, differ[i]);
        if (count)
            fail_msg("seed %llu: %lld rows differ: %s", (unsigned long long)seed, count, differ[i]);
    }
}

static void expect_kept(const struct kept *kept, uint64_t seed)
{
    char *there = kiln_test_sql(rig.stack, "SELECT coalesce(string_agg((job_id - (SELECT min(id)"
                                           " FROM job))::text, ','), '') FROM image");
    bool now[JOBS + 10] = {0};
    for (char *at = strtok(there, ","); at; at = strtok(NULL, ","))
        now[atoi(at)] = true;
    free(there);
    for (int i = 0; i < JOBS + 10; i++)
        if (now[i] != kept->there[i])
            fail_msg("seed %llu: job %d is %s, and was not reported so", (unsigned long long)seed,
                     i, now[i] ? "there" : "gone");
}

static void run_seed(uint64_t seed)
{
    struct world world = {.random = {seed}};
    sql("DELETE FROM favourite; DELETE FROM image; DELETE FROM image_change;"
        " DELETE FROM gallery_text; DELETE FROM gallery_day; DELETE FROM gallery_state;"
        " DELETE FROM gallery_picture; DELETE FROM object");
    for (int i = 0; i < WRITERS; i++) {
        world.writers[i] = PQconnectdb(rig.stack->conninfo);
        run(world.writers[i], "SET lock_timeout = 1");
    }
    for (int i = 0; i < 2; i++)
        world.followers[i] = follow(&world.kept[i], 1 + below(&world, 7));
    for (int i = 0; i < ACTIONS; i++)
        act(&world);
    for (uint32_t i = 0; i < WRITERS; i++) {
        end_one(&world, i, true);
        PQfinish(world.writers[i]);
    }
    write_prints(&world); /* late ones, of pictures that may have gone */
    settle_in(&world, 0);
    settle_in(&world, 1);
    settle_in(&world, 0);
    world.print_count = 0;
    look_at_pictures(&world, INT64_MAX, JOBS + 10);
    write_prints(&world);
    expect_equal(seed);
    for (int i = 0; i < 2; i++) {
        expect_kept(&world.kept[i], seed);
        kiln_follower_close(world.followers[i]);
    }
}

static void the_index_equals_the_ledger(void **state)
{
    (void)state;
    const char *one = getenv("KILN_FOLLOW_SEED"), *many = getenv("KILN_FOLLOW_SEEDS");
    uint64_t seeds = many ? strtoull(many, NULL, 10) : SEEDS;
    if (one) {
        run_seed(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++)
        run_seed(seed);
    print_message("%llu seeds\n", (unsigned long long)seeds);
}

/* One that takes over from a writer that was ahead of it. */
static void a_successor_reports_what_it_has_not_seen(void **state)
{
    (void)state;
    struct kept kept[2] = {0};
    struct kiln_follower *writer = follow(&kept[0], 10), *other = follow(&kept[1], 10);
    struct kiln_follower_progress progress;
    sql("INSERT INTO image SELECT * FROM kept ON CONFLICT DO NOTHING");
    settle(writer);
    settle(other);
    sql("UPDATE image SET prompt = prompt || ' again'");
    settle(writer);
    kiln_follower_close(writer);
    kept[1].there[0] = false;
    do
        kiln_test_ok(kiln_follower_step(other, &progress, &rig.err), rig.err);
    while (!progress.writes); /* the server ends the old connection in its own time */
    settle(other);
    assert_true(kept[1].there[0]);
    kiln_follower_close(other);
}

/* A writer whose session the server has ended, as it does to one that was silent for long. */
static void a_step_after_the_end_of_the_session_is_a_step(void **state)
{
    (void)state;
    struct kept kept = {0};
    struct kiln_follower *writer = follow(&kept, 10);
    struct kiln_follower_progress progress;
    do
        kiln_test_ok(kiln_follower_step(writer, &progress, &rig.err), rig.err);
    while (!progress.writes); /* the server ends the old connection in its own time */
    sql("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name"
        " LIKE 'follow%'");
    kiln_test_ok(kiln_follower_step(writer, &progress, &rig.err), rig.err);
    assert_true(progress.writes && !progress.replaced);
    settle(writer);
    kiln_follower_close(writer);
}

/* They come in any order, so they are counted when some time has passed. */
static void words_of_late_pictures_are_counted(void **state)
{
    (void)state;
    const struct kiln_follower_options options = {.count_ms = 300};
    struct kiln_follower *follower = NULL;
    struct kiln_follower_progress progress;
    sql("DELETE FROM favourite; DELETE FROM image; DELETE FROM gallery_state; DELETE FROM "
        "gallery_text;"
        " DELETE FROM gallery_word; DELETE FROM gallery_day");
    kiln_test_ok(kiln_follower_open(rig.stack->config, "follower", &options, &follower, &rig.err),
                 rig.err);
    settle(follower);
    for (int job = 5; job > 0; job -= 2) {
        char text[1500];
        snprintf(text, sizeof text, "%s(SELECT min(id) + %d FROM job)%s", SHOW, job, SHOW_END);
        sql(text);
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
        assert_int_equal(progress.written, 1);
        if (job == 3)
            continue;
        usleep(310000);
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
        assert_false(progress.more);
    }
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM image"), 3);
    assert_int_equal(
        kiln_test_count(rig.stack, "SELECT count(*) FROM ts_stat('SELECT tsv FROM gallery_text') s"
                                   " FULL JOIN gallery_word w USING (word)"
                                   " WHERE s.ndoc IS DISTINCT FROM w.pictures"
                                   " AND (word !~ '[0-9]' OR word ~ '^[a-z]:')"),
        0);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT max(pictures) FROM gallery_word"), 3);
    kiln_follower_close(follower);
}

/* The role of a gallery can follow, and no more. */
static void the_role_of_a_gallery_is_enough(void **state)
{
    (void)state;
    const char *passwords[KILN_ROLE_COUNT] = {NULL};
    struct kiln_follower *follower = NULL;
    struct kiln_follower_progress progress = {.more = true};
    struct kiln_config *config = kiln_config_new();
    char conninfo[300];
    int made;
    kiln_test_ok(kiln_roles_make(rig.stack->config, passwords, &made, &rig.err), rig.err);
    snprintf(conninfo, sizeof conninfo, "host=%s/postgres user=kiln_gallery dbname=postgres",
             rig.stack->dir);
    kiln_test_ok(kiln_config_set(config, "postgres", conninfo, "test", &rig.err), rig.err);
    sql("DELETE FROM gallery_state; DELETE FROM gallery_text; DELETE FROM gallery_day");
    uint64_t job =
        kiln_test_shown(rig.stack, &(struct kiln_test_shown){.prompt = "a red star", .pool = "q"});
    kiln_test_ok(
        kiln_follower_open(config, "role", &(struct kiln_follower_options){0}, &follower, &rig.err),
        rig.err);
    while (progress.more)
        kiln_test_ok(kiln_follower_step(follower, &progress, &rig.err), rig.err);
    assert_int_equal(kiln_rig_rows("gallery_text", job), 1);
    assert_int_equal(kiln_test_count(rig.stack, "SELECT count(*) FROM gallery_word WHERE word IN"
                                                " ('red', 'star')"),
                     2);
    PGconn *conn = PQconnectdb(conninfo);
    static const char *const allowed[] = {"INSERT INTO favourite SELECT max(job_id) FROM image",
                                          "DELETE FROM favourite",
                                          "UPDATE image SET safety_flag = 1",
                                          "INSERT INTO gallery_picture (job_id) SELECT job_id"
                                          " FROM image FOR KEY SHARE OF image SKIP LOCKED"
                                          " ON CONFLICT DO NOTHING",
                                          "INSERT INTO safety_verdict (job_id, level, rank,"
                                          " source) VALUES (1, 1, 2, 'person:ann')"};
    static const char *const denied[] = {"DELETE FROM image",
                                         "UPDATE image SET prompt = ''",
                                         "DELETE FROM job",
                                         "UPDATE job SET state = 0",
                                         "DELETE FROM safety_verdict",
                                         "INSERT INTO image_change VALUES ('1', 1)",
                                         "DROP TABLE gallery_text"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (run(conn, allowed[i]) != 0)
            fail_msg("denied: %s: %s", allowed[i], PQerrorMessage(conn));
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
        if (run(conn, denied[i]) == 0)
            fail_msg("allowed: %s", denied[i]);
    PQfinish(conn);
    kiln_follower_close(follower);
    kiln_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_index_equals_the_ledger),
        cmocka_unit_test(a_successor_reports_what_it_has_not_seen),
        cmocka_unit_test(a_step_after_the_end_of_the_session_is_a_step),
        cmocka_unit_test(words_of_late_pictures_are_counted),
        cmocka_unit_test(the_role_of_a_gallery_is_enough),
    };
    return cmocka_run_group_tests(tests, start, kiln_rig_stop);
}
