/* test_modes_process.c - the whole kiln-worker on real servers, rendering test cards coarse first
 * and from starts.  The test takes the scheduler's place.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "storage/formats/pictures/webp.h"
#include "tests/support/stored.h"
#include "tests/support/worker_process.h"

#define LIMIT_S 60

static struct kiln_test_stack *stack;

static int start_stack(void **state)
{
    (void)state;
    stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES);
    return 0;
}

static int stop_stack(void **state)
{
    (void)state;
    kiln_test_stack_stop(stack);
    return 0;
}

static long long count_of(const char *what, const char *batch, const char *where)
{
    char sql[400];
    snprintf(sql, sizeof sql,
             "SELECT %s FROM job j JOIN batch b ON b.id = j.batch_id LEFT JOIN image i ON i.job_id "
             "= j.id LEFT JOIN latent l ON l.job_id = j.id WHERE b.name = '%s' AND %s",
             what, batch, where);
    return kiln_test_count(stack, sql);
}

static bool until_done(const char *batch, long long wanted)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '%s' AND "
             "j.state = %d",
             batch, KILN_JOB_DONE);
    return kiln_test_until(stack, sql, wanted, LIMIT_S);
}

static struct kiln_job job_of(const char *prompt, const char *mode)
{
    struct kiln_job job = kiln_test_job(prompt);
    job.width = job.height = 256;
    job.steps = 8;
    if (!kiln_mode_parse(mode, &job.mode))
        fail_msg("%s", mode);
    return job;
}

static void end(struct kiln_test_worker *worker)
{
    assert_int_equal(kiln_test_worker_stop(worker), 0);
    kiln_test_assert_stored(stack);
}

/* A model directory with nothing but a card. */
static void write_card(const char *text, char dir[200])
{
    char path[256];
    snprintf(dir, 200, "%s/model", stack->dir);
    (void)mkdir(dir, 0755);
    snprintf(path, sizeof path, "%s/kiln.json", dir);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void coarse_jobs_say_so_everywhere(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[4];
    const struct kiln_job said = job_of("a", "coarse=4+3"), other = job_of("b", "coarse=auto"),
                          exact = job_of("c", ""), varied = job_of("d", "coarse=auto,variety=0.3");
    kiln_test_worker_start(&worker, stack, "w-coarse", NULL, true);
    kiln_test_queue_jobs(stack, "said", &said, 1, ids);
    kiln_test_queue_jobs(stack, "auto", &other, 1, ids + 1);
    kiln_test_queue_jobs(stack, "exact", &exact, 1, ids + 2);
    kiln_test_queue_jobs(stack, "varied", &varied, 1, ids + 3);
    kiln_test_assign(stack, "w-coarse", "said", ids, 1);
    kiln_test_assign(stack, "w-coarse", "auto", ids + 1, 1);
    kiln_test_assign(stack, "w-coarse", "exact", ids + 2, 1);
    kiln_test_assign(stack, "w-coarse", "varied", ids + 3, 1);
    assert_true(until_done("said", 1) && until_done("auto", 1) && until_done("exact", 1) &&
                until_done("varied", 1));
    assert_int_equal(
        count_of("count(*)", "varied", "i.mode = 'variety=0.3' AND l.mode = 'variety=0.3'"), 1);
    assert_int_equal(count_of("count(*)", "said",
                              "i.mode = 'coarse=4+3' AND i.forwards = 4 AND l.mode = 'coarse=4+3' "
                              "AND l.forwards = 4"),
                     1);
    /* Nothing was measured about the test card's model. */
    assert_int_equal(count_of("count(*)", "auto", "i.mode = '' AND l.mode = ''"), 1);
    assert_int_equal(count_of("count(*)", "exact", "i.mode = '' AND i.forwards IS NULL"), 1);
    end(&worker);
}

static void auto_follows_the_card(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[2];
    char dir[200];
    struct kiln_job in = job_of("in", "coarse=auto"), out = job_of("out", "coarse=auto");
    out.width = 512;
    write_card(
        "{\"coarse\": {\"auto\": \"4+2\", \"sizes\": [\"128x128\"], \"for\": [\"256x256\"]}}", dir);
    const char *more[] = {"--model", dir, NULL};
    kiln_test_worker_start(&worker, stack, "w-card", more, true);
    kiln_test_queue_jobs(stack, "in", &in, 1, ids);
    kiln_test_queue_jobs(stack, "out", &out, 1, ids + 1);
    kiln_test_assign(stack, "w-card", "in", ids, 1);
    kiln_test_assign(stack, "w-card", "out", ids + 1, 1);
    assert_true(until_done("in", 1) && until_done("out", 1));
    assert_int_equal(count_of("count(*)", "in", "i.mode = 'coarse=4+2' AND i.forwards = 3"), 1);
    assert_int_equal(count_of("count(*)", "out", "i.mode = ''"), 1);
    end(&worker);
}

static void a_bad_card_is_named_at_start(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    char dir[200];
    write_card("{\"coarse\": {\"auto\": \"fast\"}}", dir);
    const char *more[] = {"--model", dir, NULL};
    kiln_test_worker_start(&worker, stack, "w-bad-card", more, false);
    assert_int_equal(kiln_test_worker_wait(&worker, LIMIT_S), EX_CONFIG);
    assert_int_equal(kiln_test_worker_said(&worker, "/model/kiln.json: \\\"coarse.auto\\\""), 1);
}

/* Two donors, jobs that start from them, and one whose donor is gone: in one assignment. */
static void starts_are_rendered_beside_a_failure(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t donors[2], ids[4];
    const struct kiln_job donor = job_of("donor", "");
    struct kiln_job job = job_of("from another", "start=5");
    kiln_test_worker_start(&worker, stack, "w-starts", NULL, true);
    kiln_test_queue_jobs(stack, "donors", &donor, 2, donors);
    kiln_test_assign(stack, "w-starts", "donors", donors, 2);
    assert_true(until_done("donors", 2));
    job.init_job = job.parent = donors[0];
    kiln_test_queue_jobs(stack, "first", &job, 2, ids);
    job.init_job = job.parent = donors[1];
    kiln_test_queue_jobs(stack, "second", &job, 1, ids + 2);
    job.init_job = job.parent = 999999999;
    kiln_test_queue_jobs(stack, "gone", &job, 1, ids + 3);
    kiln_test_assign(stack, "w-starts", "starts", ids, 4);
    assert_true(until_done("first", 2) && until_done("second", 1));
    assert_int_equal(count_of("count(*)", "first",
                              "i.mode = 'start=5' AND i.forwards = 3 AND l.mode = 'start=5' AND "
                              "j.parent = j.init_job"),
                     2);
    char sql[300];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job WHERE id = %llu AND state = %d AND error_code = %d AND "
             "error = 'init_job 999999999: there is no such job'",
             (unsigned long long)ids[3], KILN_JOB_FAILED, KILN_NOT_FOUND);
    assert_true(kiln_test_until(stack, sql, 1, LIMIT_S));
    assert_int_equal(kiln_test_worker_said(&worker, "start_missing"), 1);
    end(&worker);
}

/* Edits of two donors, the second asked for twice; of one that is smaller, and of none. */
static void edits_know_the_prompts_of_their_donors(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t donors[3], ids[5];
    const struct kiln_job star = job_of("a red star", ""), moon = job_of("a moon", "");
    struct kiln_job small = job_of("a small star", ""), job = job_of("a blue star", "edit=5");
    small.width = small.height = 128;
    kiln_test_worker_start(&worker, stack, "w-edits", NULL, true);
    kiln_test_queue_jobs(stack, "star", &star, 1, donors);
    kiln_test_queue_jobs(stack, "moon", &moon, 1, donors + 1);
    kiln_test_queue_jobs(stack, "small", &small, 1, donors + 2);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"star", "moon", "small"};
        kiln_test_assign(stack, "w-edits", names[i], donors + i, 1);
        assert_true(until_done(names[i], 1));
    }
    job.init_job = job.parent = donors[0];
    kiln_test_queue_jobs(stack, "edit-star", &job, 1, ids);
    job.init_job = job.parent = donors[1];
    kiln_test_queue_jobs(stack, "edit-moon", &job, 2, ids + 1);
    job.init_job = job.parent = donors[2];
    kiln_test_queue_jobs(stack, "edit-small", &job, 1, ids + 3);
    job.init_job = job.parent = 999999999;
    kiln_test_queue_jobs(stack, "edit-none", &job, 1, ids + 4);
    kiln_test_assign(stack, "w-edits", "edits", ids, 5);
    assert_true(until_done("edit-star", 1) && until_done("edit-moon", 2));
    assert_int_equal(count_of("count(*)", "edit-moon",
                              "i.mode = 'edit=5' AND i.forwards = 5 AND l.mode = 'edit=5'"),
                     2);
    char sql[400];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job WHERE (id = %llu AND error LIKE '%%an edit keeps the size') "
             "OR (id = %llu AND error LIKE '%%there is no such job')",
             (unsigned long long)ids[3], (unsigned long long)ids[4]);
    assert_true(kiln_test_until(stack, sql, 2, LIMIT_S));
    /* The card depends on the donor's prompt: what the engine was given. */
    snprintf(sql, sizeof sql,
             "SELECT count(DISTINCT o.sha256) FROM object o WHERE o.role = 'full' AND o.job_id IN "
             "(%llu, %llu)",
             (unsigned long long)ids[0], (unsigned long long)ids[1]);
    assert_int_equal(kiln_test_count(stack, sql), 2);
    end(&worker);
}

/* Kills a worker that renders the two jobs, gives them to another, and waits until they are done.
 */
static void hand_over(struct kiln_test_worker *first, const char *batch, uint64_t ids[2])
{
    struct kiln_test_worker second;
    char sql[200]; /* as the scheduler does when the lease is over */
    kiln_test_worker_signal(first, SIGKILL);
    assert_int_equal(kiln_test_worker_wait(first, LIMIT_S), 128 + SIGKILL);
    assert_int_equal(count_of("count(*)", batch, "i.job_id IS NOT NULL"), 0);
    snprintf(sql, sizeof sql, "UPDATE job SET state = 0 WHERE id IN (%llu, %llu)",
             (unsigned long long)ids[0], (unsigned long long)ids[1]);
    free(kiln_test_sql(stack, sql));
    kiln_test_worker_start(&second, stack, "w-heir", NULL, true);
    kiln_test_assign(stack, "w-heir", batch, ids, 2);
    assert_true(until_done(batch, 2));
    end(&second);
}

/* Killed between look-up and commit: another worker does the job, once. */
static void a_job_with_a_start_survives_its_worker(void **state)
{
    (void)state;
    struct kiln_test_worker first;
    uint64_t donor[1], ids[2];
    const struct kiln_job plain = job_of("a donor", "");
    struct kiln_job job = job_of("slow @step_ms=300", "start=4");
    kiln_test_worker_start(&first, stack, "w-killed", NULL, true);
    kiln_test_queue_jobs(stack, "donor", &plain, 1, donor);
    kiln_test_assign(stack, "w-killed", "donor", donor, 1);
    assert_true(until_done("donor", 1));
    job.init_job = job.parent = donor[0];
    kiln_test_queue_jobs(stack, "survives", &job, 2, ids);
    kiln_test_assign(stack, "w-killed", "first", ids, 2);
    assert_true(kiln_test_worker_draws(&first, LIMIT_S));
    hand_over(&first, "survives", ids);
    assert_int_equal(count_of("count(*)", "survives", "i.mode = 'start=4' AND i.attempt = 2"), 2);
}

/* Killed when all small steps are done and the large ones are not: nothing of the small phase is
 * kept, and another worker does both. */
static void a_coarse_job_survives_its_worker_between_the_phases(void **state)
{
    (void)state;
    struct kiln_test_worker first;
    struct kiln_heartbeat beat = {0};
    uint64_t ids[2];
    const struct kiln_job job = job_of("slow @step_ms=500", "coarse=4+3");
    kiln_test_worker_start(&first, stack, "w-between", NULL, true);
    kiln_test_queue_jobs(stack, "between", &job, 2, ids);
    kiln_test_assign(stack, "w-between", "first", ids, 2);
    const double until = kiln_test_now_s() + LIMIT_S;
    while (!kiln_test_heartbeat(stack, "w-between", &beat) || beat.step < 4) {
        assert_true(kiln_test_now_s() < until);
        kiln_test_sleep_ms(20);
    }
    assert_int_equal(beat.coarse_steps, 4);
    assert_int_equal(beat.steps, 7);
    assert_in_range(beat.step, 4, 6);
    hand_over(&first, "between", ids);
    assert_int_equal(count_of("count(*)", "between",
                              "i.mode = 'coarse=4+3' AND i.forwards = 4 AND i.attempt = 2"),
                     2);
}

/* Stores a grey picture as an input. */
static void store_picture(uint8_t grey, uint32_t width, uint32_t height,
                          char ret_key[KILN_INPUT_KEY_MAX])
{
    char path[400], dir[200], hex[65];
    uint8_t digest[KILN_SHA256_SIZE], rgb[40 * 40 * 3], *data;
    size_t size;
    struct kiln_error err;
    memset(rgb, grey, sizeof rgb);
    assert_int_equal(kiln_webp_encode(rgb, width, height,
                                      &(struct kiln_webp_options){.quality = 80}, &data, &size,
                                      &err),
                     0);
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, hex);
    snprintf(ret_key, KILN_INPUT_KEY_MAX, KILN_INPUTS_PREFIX "%s.webp", hex);
    snprintf(dir, sizeof dir, "%s/store/inputs", stack->dir);
    (void)mkdir(dir, 0755);
    snprintf(path, sizeof path, "%s/store/%s", stack->dir, ret_key);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
    free(data);
}

/* A valid key that nothing is stored under. */
static void spoil_key(const char *key, char ret_key[KILN_INPUT_KEY_MAX])
{
    snprintf(ret_key, KILN_INPUT_KEY_MAX, "%.67sabcd.png", key);
}

/* From a picture, and from one that is not in the store. */
static void pictures_are_starts(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[3];
    char key[KILN_INPUT_KEY_MAX], gone[KILN_INPUT_KEY_MAX];
    struct kiln_job job = job_of("from a picture", "start@0.5");
    store_picture(90, 40, 30, key);
    spoil_key(key, gone);
    kiln_test_worker_start(&worker, stack, "w-picture", NULL, true);
    job.embed_metadata = true;
    job.init_image = key;
    kiln_test_queue_jobs(stack, "pictures", &job, 2, ids);
    job.init_image = gone;
    kiln_test_queue_jobs(stack, "no-picture", &job, 1, ids + 2);
    kiln_test_assign(stack, "w-picture", "pictures", ids, 3);
    assert_true(until_done("pictures", 2));
    assert_int_equal(count_of("count(*)", "pictures", "i.mode = 'start@0.5' AND i.forwards = 4"),
                     2);
    char sql[160];
    snprintf(sql, sizeof sql, "SELECT state FROM job WHERE id = %llu", (unsigned long long)ids[2]);
    assert_true(kiln_test_until(stack, sql, KILN_JOB_FAILED, LIMIT_S));
    end(&worker);
}

/* One picture under three masks, of which one is gone and one has another shape: in one assignment.
 * What the masks make of it are two pictures. */
static void masks_are_looked_up_with_their_pictures(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[4];
    char key[KILN_INPUT_KEY_MAX], masks[4][KILN_INPUT_KEY_MAX];
    struct kiln_job job = job_of("under a mask", "inpaint=4");
    store_picture(70, 40, 40, key);
    store_picture(255, 40, 40, masks[0]);
    store_picture(0, 20, 20, masks[1]);
    spoil_key(key, masks[2]);
    store_picture(255, 40, 20, masks[3]);
    kiln_test_worker_start(&worker, stack, "w-mask", NULL, true);
    job.init_image = key;
    for (int i = 0; i < 4; i++) {
        char batch[24];
        snprintf(batch, sizeof batch, "mask-%d", i);
        job.init_mask = masks[i];
        kiln_test_queue_jobs(stack, batch, &job, 1, ids + i);
    }
    kiln_test_assign(stack, "w-mask", "masks", ids, 4);
    assert_true(until_done("mask-0", 1) && until_done("mask-1", 1));
    for (int i = 0; i < 2; i++) {
        char batch[24];
        snprintf(batch, sizeof batch, "mask-%d", i);
        assert_int_equal(count_of("count(*)", batch,
                                  "i.mode = 'inpaint=4' AND i.forwards = 4 AND "
                                  "l.mode = 'inpaint=4' AND j.init_mask LIKE 'inputs/%'"),
                         1);
    }
    char sql[400];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM job WHERE (id = %llu AND error_code = %d AND error LIKE "
             "'init_mask%% is no longer in the store') OR (id = %llu AND error_code = %d AND error "
             "LIKE '%%a mask of 40x20 pixels has neither the shape%%')",
             (unsigned long long)ids[2], KILN_NOT_FOUND, (unsigned long long)ids[3],
             KILN_BAD_INPUT);
    assert_true(kiln_test_until(stack, sql, 2, LIMIT_S));
    snprintf(sql, sizeof sql,
             "SELECT count(DISTINCT sha256) FROM object WHERE role = 'full' AND job_id IN "
             "(%llu, %llu)",
             (unsigned long long)ids[0], (unsigned long long)ids[1]);
    assert_int_equal(kiln_test_count(stack, sql), 2);
    end(&worker);
}

/* A key that leaves the store is no assignment at all. */
static void a_hostile_key_is_refused(void **state)
{
    (void)state;
    struct kiln_test_worker worker;
    uint64_t ids[2];
    struct kiln_job job = job_of("hostile", "start=4");
    const struct kiln_job good = job_of("good", "");
    static const char *const keys[] = {"../../../etc/passwd", "latents/testcard/x.zst"};
    kiln_test_worker_start(&worker, stack, "w-hostile", NULL, true);
    for (int i = 0; i < 2; i++) {
        char batch[24];
        snprintf(batch, sizeof batch, "hostile-%d", i);
        job.init_image = (char *)keys[i];
        kiln_test_queue_jobs(stack, batch, &job, 1, ids);
        kiln_test_assign(stack, "w-hostile", batch, ids, 1);
    }
    kiln_test_queue_jobs(stack, "good", &good, 1, ids);
    kiln_test_assign(stack, "w-hostile", "good", ids, 1);
    assert_true(until_done("good", 1));
    assert_int_equal(kiln_test_worker_said(&worker, "assignment_refused"), 2);
    assert_int_equal(count_of("count(*)", "hostile-0", "j.state = 2"), 0);
    end(&worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coarse_jobs_say_so_everywhere),
        cmocka_unit_test(auto_follows_the_card),
        cmocka_unit_test(a_bad_card_is_named_at_start),
        cmocka_unit_test(starts_are_rendered_beside_a_failure),
        cmocka_unit_test(edits_know_the_prompts_of_their_donors),
        cmocka_unit_test(a_job_with_a_start_survives_its_worker),
        cmocka_unit_test(a_coarse_job_survives_its_worker_between_the_phases),
        cmocka_unit_test(pictures_are_starts),
        cmocka_unit_test(masks_are_looked_up_with_their_pictures),
        cmocka_unit_test(a_hostile_key_is_refused),
    };
    return cmocka_run_group_tests(tests, start_stack, stop_stack);
}
