/* test_lora_fleet.c - loras "auto" over sixty LoRAs on real daemons, while the registry changes,
 * the store goes away, one file is damaged there, one is gone, and some are on one worker alone.
 *
 * Nothing is lost, and what was drawn was drawn with the very files that the job was given when it
 * was read: the hashes of the row, those of the route's version and those that the worker recorded
 * are the same.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/digest.h"
#include "schemas/job.h"
#include "schemas/job/inputs.h"
#include "tests/support/files.h"
#include "tests/support/jobs.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/worker_process.h"

enum { LORAS = 60, GONE = 56, DAMAGED = 57, LOCAL = 58 /* and the last one */ };
#define EACH 5 /* jobs of each LoRA, in each half of the stream */
#define LIMIT_S 120

static struct kiln_test_stack *stack;
static struct kiln_test_scheduler scheduler;
static struct kiln_test_worker workers[2];
static char store[160];

static void name_of(int lora, char out[16])
{
    static const char *const first[] = {"zo", "ka", "mu", "vel", "quor", "bin", "tas", "hel"};
    static const char *const second[] = {"dra", "nik", "lop", "wem", "fus", "gar", "pib", "xor"};
    snprintf(out, 16, "%s%s", first[lora % 8], second[lora / 8]);
}

/* The file is its text.  A registry that knows nothing of it gets a new LoRA, else a new version.
 */
static void add(int lora, const char *text, bool stored, char sha256[KILN_LORA_SHA256_MAX])
{
    char name[16], sql[1024], path[400], key[KILN_LORA_KEY_MAX];
    uint8_t digest[KILN_SHA256_SIZE];
    name_of(lora, name);
    kiln_sha256(text, strlen(text), digest);
    kiln_hex(digest, sizeof digest, sha256);
    kiln_lora_key(sha256, key);
    if (stored)
        snprintf(path, sizeof path, "%s/%s", store, key);
    else
        snprintf(path, sizeof path, "%s/own0/%s.safetensors", stack->dir, name);
    kiln_test_write(path, text);
    snprintf(sql, sizeof sql,
             "SELECT lora_change('default', coalesce((SELECT id FROM lora WHERE name = '%s' AND"
             " until IS NULL), 0), '%s', '', '%s', '{\"bytes\":%zu,\"rank\":4,\"modules\":2,"
             "\"stored\":%s}', true, true, false, 'test', '{\"name\":\"%s\",\"triggers\":"
             "[\"%s style\"]}'::jsonb)",
             name, name, sha256, strlen(text), stored ? "true" : "false", name, name);
    char *version = kiln_test_sql(stack, sql);
    assert_non_null(version);
    assert_true(atoi(version) > 0);
    free(version);
}

/* EACH jobs of every LoRA, the LoRAs in turn. */
static void send(const char *batch)
{
    for (int i = 0; i < EACH * LORAS; i++) {
        char name[16], key[16], line[200];
        name_of(i % LORAS, name);
        snprintf(key, sizeof key, "k%d", i);
        snprintf(line, sizeof line,
                 "{\"prompt\":\"a fox in %s style, %d\",\"width\":64,\"height\":64,\"steps\":2,"
                 "\"loras\":\"auto\"}",
                 name, i);
        kiln_test_append(stack, (const char *[]){"batch", batch, "key", key, "job", line}, 3);
    }
}

static void start_worker(int number, const char *own)
{
    char id[8], cache[200], dir[200];
    snprintf(id, sizeof id, "w%d", number);
    snprintf(cache, sizeof cache, "%s/cache%d", stack->dir, number);
    snprintf(dir, sizeof dir, "%s/%s", stack->dir, own);
    kiln_test_worker_start(
        &workers[number], stack, id,
        (const char *[]){"--lora-dir", dir, "--lora-cache-dir", cache, "--batch-max", "2", NULL},
        true);
}

static int start(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    snprintf(store, sizeof store, "%s/store", stack->dir);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        if (workers[i].process.pid) {
            kiln_test_worker_signal(&workers[i], SIGKILL);
            (void)kiln_test_worker_wait(&workers[i], 10);
        }
    if (scheduler.process.pid)
        kiln_test_scheduler_kill(&scheduler);
    kiln_test_stack_stop(stack);
    return 0;
}

static void count_is(const char *sql, long long wanted)
{
    if (kiln_test_until(stack, sql, wanted, LIMIT_S))
        return;
    char *got = kiln_test_sql(stack, sql);
    fail_msg("%s: %s, not %lld", sql, got ? got : "nothing", wanted);
}

static void nothing_is_lost_and_nothing_drawn_with_another_file(void **state)
{
    (void)state;
    char text[64], sha256[LORAS][KILN_LORA_SHA256_MAX], newer[KILN_LORA_SHA256_MAX], sql[600];
    char path[400], away[200], name[16], key[KILN_LORA_KEY_MAX];
    for (int i = 0; i < LORAS; i++) {
        snprintf(text, sizeof text, "the file of LoRA %d", i);
        add(i, text, i < LOCAL, sha256[i]);
    }
    kiln_lora_key(sha256[GONE], key);
    snprintf(path, sizeof path, "%s/%s", store, key);
    assert_int_equal(unlink(path), 0);
    kiln_lora_key(sha256[DAMAGED], key);
    snprintf(path, sizeof path, "%s/%s", store, key);
    kiln_test_write(path, "what a broken disk has made of it");
    name_of(1, name); /* a stranger under the name of a LoRA */
    snprintf(path, sizeof path, "%s/own1/%s.safetensors", stack->dir, name);
    kiln_test_write(path, "not the file of LoRA 1");

    kiln_test_scheduler_start(&scheduler, stack, "a");
    start_worker(0, "own0");
    start_worker(1, "own1");
    send("first");
    count_is("SELECT least(count(*), 40) FROM job WHERE state = 2", 40);
    add(0, "the file of LoRA 0 in its second version", true, newer);
    snprintf(away, sizeof away, "%s/store.away", stack->dir);
    assert_int_equal(rename(store, away), 0);
    send("second");
    snprintf(sql, sizeof sql, "SELECT least(count(*), 1) FROM job WHERE loras->0->>'sha256' = '%s'",
             newer);
    count_is(sql, 1);
    for (int i = 0; i < 2; i++) /* what is drawn or looked up meanwhile waits */
        assert_true(kiln_test_worker_hears(&workers[i], "store_away", LIMIT_S));
    assert_int_equal(rename(away, store), 0);

    count_is("SELECT count(*) FROM job WHERE state IN (0, 1)", 0);
    count_is("SELECT count(*) FROM job", 2LL * EACH * LORAS);
    count_is("SELECT count(*) FROM job WHERE jsonb_array_length(loras) = 1 AND route IS NOT NULL",
             2LL * EACH * LORAS);
    /* Nobody has the file of GONE, and that of DAMAGED is another one: they say so.  No other
     * job fails. */
    count_is("SELECT count(*) FROM job WHERE state = 3", 2LL * 2 * EACH);
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job WHERE state = 3 AND error_code = %d AND error LIKE '%%%s is"
             " neither on this machine nor in the store%%'",
             KILN_NOT_FOUND, sha256[GONE]);
    count_is(sql, 2LL * EACH);
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job WHERE state = 3 AND error_code = %d AND error LIKE '%%not"
             " %s%%'",
             KILN_CORRUPT, sha256[DAMAGED]);
    count_is(sql, 2LL * EACH);
    count_is("SELECT count(*) FROM job WHERE state = 2", 2LL * EACH * (LORAS - 2));
    /* Each is drawn with the file of its row, which is the registry's at the version of its route.
     */
    count_is("SELECT count(*) FROM job j LEFT JOIN latent l ON l.job_id = j.id WHERE j.state = 2"
             " AND l.lora_files IS DISTINCT FROM ARRAY[(j.loras->0->>'name') || ':' ||"
             " (j.loras->0->>'sha256')]",
             0);
    count_is("SELECT count(*) FROM job j JOIN lora v ON v.name = j.loras->0->>'name' AND"
             " v.since <= (j.route::json->>'v')::bigint AND"
             " (v.until IS NULL OR v.until > (j.route::json->>'v')::bigint)"
             " WHERE v.sha256 = j.loras->0->>'sha256'",
             2LL * EACH * LORAS);
    /* LoRA 0: as many with the old file as were read before, all others with the new one. */
    snprintf(sql, sizeof sql, "SELECT count(*) FROM job WHERE loras->0->>'sha256' IN ('%s', '%s')",
             sha256[0], newer);
    count_is(sql, 2LL * EACH);
    /* What only the first worker has, it has drawn. */
    for (int i = LOCAL; i < LORAS; i++) {
        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM image JOIN job j ON j.id = job_id WHERE image.worker = 'w0'"
                 " AND j.loras->0->>'sha256' = '%s'",
                 sha256[i]);
        count_is(sql, 2LL * EACH);
    }
    count_is("SELECT least(count(DISTINCT worker), 2) FROM image", 2);
    count_is("SELECT count(*) FROM cost WHERE kind = 6", 1); /* seconds a file from the store */
    assert_true(kiln_test_worker_said(&workers[0], "lora_fetched") +
                    kiln_test_worker_said(&workers[1], "lora_fetched") >=
                LOCAL - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_and_nothing_drawn_with_another_file),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
