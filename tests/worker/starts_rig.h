/* starts_rig.h - the starts thread on a real ledger and store; its neighbours are played. */
#ifndef KILN_TEST_STARTS_RIG_H
#define KILN_TEST_STARTS_RIG_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/digest.h"
#include "storage/formats/latentfile.h"
#include "storage/ledger/ledger.h"
#include "storage/objects/store.h"
#include "tests/support/jobs.h"
#include "tests/support/worker_process.h"
#include "worker/stages/object_key.h"
#include "worker/state/worker.h"

#define LIMIT_MS 60000

static struct kiln_test_stack *stack;
static struct kiln_store *store;
static struct kiln_ledger *ledger;

static inline int start_stack(void **state)
{
    (void)state;
    char url[200];
    struct kiln_error err;
    stack = kiln_test_stack_start(KILN_STACK_TABLES | KILN_STACK_REDIS);
    snprintf(url, sizeof url, "file://%s/store", stack->dir);
    kiln_test_ok(kiln_config_set(stack->config, "store", url, "test", &err), err);
    kiln_test_ok(kiln_config_set(stack->config, "pool", KILN_TEST_POOL, "test", &err), err);
    kiln_test_ok(kiln_store_open(stack->config, &store, &err), err);
    kiln_test_ok(kiln_ledger_open(stack->config, "test", &ledger, &err), err);
    return setenv("AWS_ACCESS_KEY_ID", "x", 1) || setenv("AWS_SECRET_ACCESS_KEY", "x", 1);
}

static inline int stop_stack(void **state)
{
    (void)state;
    kiln_store_close(store);
    kiln_ledger_close(ledger);
    kiln_test_stack_stop(stack);
    return 0;
}

static inline void write_object(const char *key, const void *data, size_t size)
{
    char path[KILN_OBJECT_KEY_MAX + 256];
    snprintf(path, sizeof path, "%s/store/%s", stack->dir, key);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

#define MODEL "7e57ca4d7e57ca4d" /* the test card's */

/* --- latents to start from -------------------------------------------------------------------- */

static bool rising; /* latents grow by 1 with each of eight columns */

/* The file of a latent with equal values. */
static inline uint8_t *latent_file(uint32_t side, float value, const char *model, size_t *ret_size)
{
    struct kiln_latent latent = {
        .states = 1, .channels = 16, .height = side / 8, .width = side / 8};
    const size_t count = (size_t)16 * latent.height * latent.width;
    struct kiln_error err;
    uint8_t *data;
    latent.values = malloc(count * sizeof(float));
    assert_non_null(latent.values);
    for (size_t i = 0; i < count; i++)
        latent.values[i] = value + (float)(rising ? i % latent.width % 8 : 0);
    snprintf(latent.model, sizeof latent.model, "%s", model);
    snprintf(latent.schedule, sizeof latent.schedule, "euler steps=2");
    kiln_test_ok(kiln_latent_encode(&latent, KILN_LATENT_BF16_PLANES, 1, &data, ret_size, &err),
                 err);
    kiln_latent_release(&latent);
    return data;
}

/* Commits a latent for one job; key_ret: its key. */
static inline void commit_latent(const struct kiln_job *job, float value, const char *model,
                                 char key_ret[KILN_OBJECT_KEY_MAX + 1])
{
    struct kiln_error err;
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[65];
    size_t size;
    bool ours;
    uint8_t *data = latent_file(job->width, value, model, &size);
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, hex);
    kiln_latent_key(key_ret, job->created_ms, job->id, "testcard", hex);
    struct kiln_put put = {.key = key_ret, .data = data, .size = size, .content_type = "a/b"};
    kiln_test_ok(kiln_store_put(store, &put, 1, &err), err);
    const struct kiln_commit_object object = {.role = "latent",
                                              .key = key_ret,
                                              .sha256 = hex,
                                              .bytes = size,
                                              .width = job->width / 8,
                                              .height = job->height / 8,
                                              .content_type = "application/zstd"};
    const struct kiln_commit commit = {.job = job,
                                       .worker = "donor",
                                       .assignment = "donor",
                                       .model_hash = model,
                                       .model_name = "testcard",
                                       .objects = &object,
                                       .object_count = 1,
                                       .latent_encoding = "bf16-planes",
                                       .latent_states = 1,
                                       .latent_channels = 16};
    kiln_test_ok(kiln_ledger_commit(ledger, &commit, &ours, &err), err);
    assert_true(ours);
    free(data);
}

/* Makes jobs whose latents are stored; donor number i has the values i. */
static inline void make_donors(const char *batch, uint32_t side, const char *model, size_t count,
                               uint64_t *ids, char (*keys)[KILN_OBJECT_KEY_MAX + 1])
{
    struct kiln_job job = kiln_test_job("donor"), jobs[KILN_ASSIGN_MAX];
    struct kiln_error err;
    size_t assigned;
    job.width = job.height = side;
    job.kind = KILN_KIND_LATENT_CACHE;
    kiln_test_queue_jobs(stack, batch, &job, count, ids);
    kiln_test_ok(kiln_ledger_assign(ledger, "donor", batch, ids, count, jobs, &assigned, &err),
                 err);
    assert_int_equal(assigned, count);
    for (size_t i = 0; i < count; i++) {
        commit_latent(&jobs[i], (float)i, model, keys[i]);
        kiln_job_release(&jobs[i]);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

struct rig {
    struct kiln_worker worker;
    struct kiln_config *config;
    pthread_t thread;
};

/* more: further settings, pairs ended by NULL. */
static inline void open_rig(struct rig *rig, const char *const *more)
{
    struct kiln_error err;
    kiln_test_ok(kiln_config_set(stack->config, "hold_s", "20", "test", &err), err);
    for (; more && *more; more += 2)
        kiln_test_ok(kiln_config_set(stack->config, more[0], more[1], "test", &err), err);
    kiln_test_ok(kiln_worker_init(&rig->worker, stack->config, "w", &err), err);
    kiln_test_ok(kiln_renderer_testcard_open(&rig->worker.engine, &err), err);
    atomic_store(&rig->worker.threads, 1);
    kiln_board_up(&rig->worker.board);
    assert_int_equal(pthread_create(&rig->thread, NULL, kiln_starts, &rig->worker), 0);
}

static inline void close_rig(struct rig *rig)
{
    char url[200];
    struct kiln_error err;
    kiln_queue_close(rig->worker.arrived);
    assert_int_equal(pthread_join(rig->thread, NULL), 0);
    assert_int_equal(atomic_load(&rig->worker.threads), 0);
    kiln_worker_release(&rig->worker);
    snprintf(url, sizeof url, "file://%s/store", stack->dir);
    kiln_test_ok(kiln_config_set(stack->config, "store", url, "test", &err), err);
}

static inline struct kiln_portion *next_portion(struct rig *rig)
{
    void *portion;
    size_t count;
    assert_int_equal(kiln_queue_pop(rig->worker.ready, &portion, 1, &count, LIMIT_MS), 0);
    return portion;
}

/* As when its jobs were settled. */
static inline void forget(struct rig *rig, struct kiln_portion *portion)
{
    struct kiln_flight *flight = portion->flight;
    for (uint32_t i = 0; i < portion->job_count; i++)
        if (kiln_flights_settle(&rig->worker.flights, flight, portion->jobs[i].index))
            kiln_flight_free(flight);
    kiln_portion_free(portion);
}

#endif
