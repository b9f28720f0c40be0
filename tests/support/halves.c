/* halves.c - see halves.h.  Every other run is finished only when the next one has begun, so that
 * both orders are met on any machine. */
#include "tests/support/halves.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kernels/pictures/downscale.h"
#include "schemas/clock.h"
#include "schemas/limits.h"

#define BATCHES_MAX 64
#define LIMIT_S 120 /* of one batch, libraries setting themselves up included */

struct drawn {
    DiffusionZRun *run;
    DiffusionZOutput outputs[KILN_ASSIGN_MAX];
    DiffusionZTimes times;
    int code;
};

struct round {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int count, begun, finished;
    struct drawn *drawn;
};

/* A half that hangs is no reason to hang, too. */
static void wait_for(struct round *r, const int *value, int at_least)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LIMIT_S;
    pthread_mutex_lock(&r->mutex);
    while (*value < at_least && *value < r->count)
        if (pthread_cond_timedwait(&r->changed, &r->mutex, &until) != 0) {
            fprintf(stderr, "a half of a batch did not end within %d s\n", LIMIT_S);
            exit(1);
        }
    pthread_mutex_unlock(&r->mutex);
}

static void count_up(struct round *r, int *value)
{
    pthread_mutex_lock(&r->mutex);
    ++*value;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

static void *finish_all(void *arg)
{
    struct round *r = arg;
    for (int i = 0; i < r->count; i++) {
        struct drawn *d = &r->drawn[i];
        wait_for(r, &r->begun, i + 1 + i % 2);
        if (d->code == 0)
            d->code = diffusionz_finish_batch(d->run, &d->times);
        count_up(r, &r->finished);
    }
    return NULL;
}

/* In halves, with at most two batches on their way. */
static void draw_overlapping(DiffusionZContext *ctx, const DiffusionZBatch *batches, int count,
                             struct drawn *drawn)
{
    struct round r = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER,
                      .count = count,
                      .drawn = drawn};
    pthread_t finisher;
    assert_int_equal(pthread_create(&finisher, NULL, finish_all, &r), 0);
    for (int i = 0; i < count; i++) {
        struct drawn *d = &drawn[i];
        wait_for(&r, &r.finished, i - 1);
        d->code = diffusionz_begin_batch(ctx, &batches[i], d->outputs, &d->run);
        count_up(&r, &r.begun);
    }
    pthread_join(finisher, NULL);
}

static void expect_bytes(const char *what, int batch, int item, const void *a, const void *b,
                         size_t size)
{
    if (!a != !b)
        fail_msg("batch %d, item %d: %s is there one way and not the other", batch, item, what);
    if (a && memcmp(a, b, size) != 0)
        fail_msg("batch %d, item %d: %s differs", batch, item, what);
}

static void expect_same(const DiffusionZBatch *batch, int index, int item,
                        const DiffusionZOutput *a, const DiffusionZOutput *b)
{
    const size_t pixels = (size_t)batch->width * (size_t)batch->height * 3;
    const size_t values =
        (size_t)a->latent_channels * (size_t)a->latent_height * (size_t)a->latent_width;
    if (a->error_code != b->error_code)
        fail_msg("batch %d, item %d: \"%s\" in one call, \"%s\" in halves", index, item,
                 a->error_msg ? a->error_msg : "no error",
                 b->error_msg ? b->error_msg : "no error");
    expect_bytes("the latent", index, item, a->latent, b->latent, values * sizeof *a->latent);
    expect_bytes("the picture", index, item, a->rgb, b->rgb, pixels);
    expect_bytes("the trajectory", index, item, a->trajectory, b->trajectory,
                 values * (size_t)batch->num_steps * sizeof *a->trajectory);
    for (int i = 0; i < DIFFUSIONZ_SMALLER_MAX; i++) {
        uint32_t w = 0, h = 0;
        if (i < batch->smaller_count)
            (void)kiln_downscale_fit((uint32_t)batch->width, (uint32_t)batch->height,
                                     (uint32_t)batch->smaller[i], &w, &h);
        expect_bytes("a smaller size", index, item, a->smaller[i], b->smaller[i],
                     (size_t)w * h * 3);
    }
}

struct halves_time halves_compare(DiffusionZContext *ctx, const DiffusionZBatch *batches, int count)
{
    assert_true(count <= BATCHES_MAX);
    struct drawn *whole = calloc((size_t)count, sizeof *whole);
    struct drawn *halves = calloc((size_t)count, sizeof *halves);
    assert_non_null(whole);
    assert_non_null(halves);
    struct halves_time time = {0};
    for (int i = 0; i < count; i++)
        whole[i].code = diffusionz_run_batch(ctx, &batches[i], whole[i].outputs, &whole[i].times);
    double start = kiln_monotonic_ms();
    draw_overlapping(ctx, batches, count, halves);
    time.wall_ms = kiln_monotonic_ms() - start;
    for (int i = 0; i < count; i++) {
        assert_int_equal(whole[i].code, halves[i].code);
        time.device_ms += halves[i].times.device_ms;
        for (int k = 0; !whole[i].code && k < batches[i].item_count; k++)
            expect_same(&batches[i], i, k, &whole[i].outputs[k], &halves[i].outputs[k]);
        diffusionz_release_outputs(whole[i].outputs, whole[i].code ? 0 : batches[i].item_count);
        diffusionz_release_outputs(halves[i].outputs, halves[i].code ? 0 : batches[i].item_count);
    }
    free(whole);
    free(halves);
    return time;
}
