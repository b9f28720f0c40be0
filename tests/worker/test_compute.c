/* test_compute.c - the compute thread: without work it returns the engine's unused memory once;
 * runs that are given up come again, in full. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "worker/stages/call.h"
#include "worker/state/picture.h"
#include "worker/state/worker.h"

#define LIMIT_MS 60000

static _Atomic int begun, trims;

/* Nothing can begin: the jobs end at once, and the worker had something to do all the same. */
static int begin(struct kiln_renderer *engine, const DiffusionZBatch *batch,
                 DiffusionZOutput *outputs, struct kiln_renderer_run **ret, struct kiln_error *err)
{
    (void)engine, (void)batch, (void)outputs, (void)ret;
    atomic_fetch_add(&begun, 1);
    return kiln_fail(err, KILN_BAD_INPUT, "an engine that begins nothing");
}

static int32_t forwards(const struct kiln_renderer *engine, const DiffusionZBatch *batch)
{
    (void)engine;
    return batch->num_steps;
}

static void trim(struct kiln_renderer *engine)
{
    (void)engine;
    atomic_fetch_add(&trims, 1);
}

static struct kiln_renderer engine = {
    .name = "none", .renders_any_model = true, .forwards = forwards, .begin = begin, .trim = trim};

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void wait_for(_Atomic int *value, int wanted)
{
    const double start = kiln_monotonic_ms();
    while (atomic_load(value) < wanted) {
        assert_true(kiln_monotonic_ms() - start < LIMIT_MS);
        pause_ms(5);
    }
}

/* Hands the compute thread one job, and takes the call that it could not begin, as the collector
 * does.  The flight stays: the worker's release frees it. */
static void pass_job(struct kiln_worker *worker, int number)
{
    struct kiln_assignment assignment = {.width = 64, .height = 64, .steps = 2, .job_count = 1};
    struct kiln_flight *flight = NULL;
    struct kiln_error err;
    void *call;
    size_t count;
    snprintf(assignment.id, sizeof assignment.id, "a-%d", number);
    assignment.jobs = calloc(1, sizeof assignment.jobs[0]);
    assert_non_null(assignment.jobs);
    assignment.jobs[0] =
        (struct kiln_job){.id = 1 + (uint64_t)number, .width = 64, .height = 64, .steps = 2};
    assert_int_equal(kiln_flights_add(&worker->flights, &assignment, 1, &flight, &err), 0);
    kiln_board_want(&worker->board);
    struct kiln_portion *portion = kiln_portion_new(flight);
    assert_non_null(portion);
    assert_non_null(kiln_portion_add(portion, 0, -1));
    portion->first = portion->last = true;
    atomic_fetch_add(&worker->waiting, 1);
    assert_int_equal(kiln_queue_push(worker->ready, portion, 1, LIMIT_MS), 0);
    assert_int_equal(kiln_queue_pop(worker->asked, &call, 1, &count, LIMIT_MS), 0);
    free(call);
}

static void an_idle_worker_returns_memory_once(void **state)
{
    (void)state;
    struct kiln_config *config = kiln_config_new();
    struct kiln_worker worker;
    struct kiln_error err;
    pthread_t thread;
    assert_non_null(config);
    assert_int_equal(kiln_config_set(config, "postgres", "host=/nowhere", "the test", &err), 0);
    assert_int_equal(kiln_worker_init(&worker, config, "w", &err), 0);
    worker.engine = &engine;
    atomic_store(&worker.threads, 1);
    kiln_board_up(&worker.board);
    assert_int_equal(pthread_create(&thread, NULL, kiln_compute, &worker), 0);
    wait_for(&trims, 1); /* of the load */
    pause_ms(1500);
    assert_int_equal(atomic_load(&trims), 1); /* and of nothing else */
    const double start = kiln_monotonic_ms();
    for (int i = 0; i < 4; i++)
        pass_job(&worker, i);
    const int between = atomic_load(&trims) - 1; /* 0, unless the machine itself paused */
    assert_true(between <= (kiln_monotonic_ms() - start) / 1000);
    assert_int_equal(atomic_load(&begun), 4);
    wait_for(&trims, 2);
    kiln_queue_close(worker.ready);
    pthread_join(thread, NULL);
    worker.engine = NULL;
    kiln_worker_release(&worker);
    kiln_config_free(config);
}

/* --- runs that are given up after their first step -------------------------------------------- */

/* What the calls of the engine were asked for: where they began, how many items, and bounds. */
static struct {
    int32_t start, count;
    double least, most;
    int to_render; /* of the board, as the call begins */
} calls[8];
static int call_count, refused_items;
static struct kiln_board *board;

/* Refuses the first `refused_items` items of a batch that has starts; the others are rendered. */
static int begin_checked(struct kiln_renderer *self, const DiffusionZBatch *batch,
                         DiffusionZOutput *outputs, struct kiln_renderer_run **ret,
                         struct kiln_error *err)
{
    (void)self, (void)err;
    calls[call_count].start = batch->start;
    calls[call_count].count = batch->item_count;
    calls[call_count].least = batch->items[0].change_least;
    pthread_mutex_lock(&board->mutex);
    calls[call_count].to_render = (int)board->to_render;
    pthread_mutex_unlock(&board->mutex);
    calls[call_count++].most = batch->items[0].change_most;
    for (int32_t i = 0; i < batch->item_count; i++) {
        outputs[i] = (DiffusionZOutput){0};
        if (batch->start == DIFFUSIONZ_FROM_NOISE || i >= refused_items)
            continue;
        outputs[i] = (DiffusionZOutput){.error_code = KILN_BAD_INPUT,
                                        .error_msg = strdup("refused"),
                                        .change = 3,
                                        .start_refused = 1,
                                        .wasted = 1};
    }
    *ret = (struct kiln_renderer_run *)calls; /* any address */
    return 0;
}

enum { CALL_MS = 6 };

static int finish_checked(struct kiln_renderer_run *run, DiffusionZTimes *ret_times,
                          struct kiln_error *err)
{
    (void)run, (void)err;
    nanosleep(&(struct timespec){.tv_nsec = CALL_MS * 1000000}, NULL); /* no less than it says */
    *ret_times = (DiffusionZTimes){.denoise_ms = CALL_MS};
    return 0;
}

static double start_sigma(const struct kiln_renderer *self, const DiffusionZBatch *batch)
{
    (void)self;
    return batch->start == DIFFUSIONZ_FROM_NOISE ? 0 : 0.9;
}

static void release_output(DiffusionZOutput *output)
{
    free(output->error_msg);
    *output = (DiffusionZOutput){0};
}

static struct kiln_renderer checked_engine = {
    .name = "checked",
    .renders_any_model = true,
    .forwards = forwards,
    .start_sigma = start_sigma,
    .begin = begin_checked,
    .finish = finish_checked,
    .release = release_output,
    .card.reuse = {.row_count = 1,
                   .steps = 4,
                   .rows = {{.class = KILN_REUSE_REWORDED,
                             .depth = 1,
                             .change = {0.25, 0.5},
                             .sizes = {{64, 64, 64, 64}},
                             .size_count = 1}}},
};

/* Calls that begin from the donor were measured to take so long here, full ones 10 ms; 0: none
 * were. */
static double reused_ms;

static bool first_without; /* a donor, of the jobs of a portion */

/* Latents beside the donor's; 0: none. */
static uint32_t more_latents;

enum { JOBS = 3 };

/* A portion of the jobs from .. to - 1, which begin from one donor or, all of them, from noise. */
static void pass_portion(struct kiln_worker *worker, struct kiln_flight *flight, uint32_t from,
                         uint32_t to, bool donor)
{
    struct kiln_portion *portion = kiln_portion_new(flight);
    assert_non_null(portion);
    for (uint32_t i = 0; i < more_latents && donor; i++)
        portion->starts[0].more[i] = calloc(1, sizeof(float));
    if (donor) {
        portion->starts[0].latent = calloc(1, sizeof(float));
        portion->starts[0].more_count = more_latents;
        portion->start_count = 1;
    }
    for (uint32_t i = from; i < to; i++)
        assert_non_null(kiln_portion_add(portion, i, donor && !(first_without && i == 0) ? 0 : -1));
    portion->first = from == 0;
    portion->last = to == JOBS;
    if (portion->first)
        atomic_fetch_add(&worker->waiting, 1);
    assert_int_equal(kiln_queue_push(worker->ready, portion, 1, LIMIT_MS), 0);
}

/* An assignment of three jobs with one donor, of which the first `reused` begin from it. */
static void pass_reused(struct kiln_worker *worker, uint32_t reused)
{
    struct kiln_assignment assignment = {.width = 64, .height = 64, .steps = 4, .job_count = JOBS};
    struct kiln_flight *flight = NULL;
    struct kiln_error err;
    snprintf(assignment.id, sizeof assignment.id, "a-reused");
    assignment.jobs = calloc(JOBS, sizeof assignment.jobs[0]);
    assert_non_null(assignment.jobs);
    for (int i = 0; i < JOBS; i++)
        assignment.jobs[i] =
            (struct kiln_job){.id = 10 + (uint64_t)i,
                              .prompt = strdup("a fox"),
                              .width = 64,
                              .height = 64,
                              .steps = 4,
                              .donor = {.job = 5, .step = 1, .hit = KILN_REUSE_REWORDED}};
    assert_int_equal(kiln_flights_add(&worker->flights, &assignment, JOBS, &flight, &err), 0);
    kiln_board_want(&worker->board);
    pass_portion(worker, flight, 0, reused, true);
    if (reused < JOBS)
        pass_portion(worker, flight, reused, JOBS, false);
}

static struct kiln_picture *next_picture(struct kiln_worker *worker)
{
    void *picture;
    size_t count;
    assert_int_equal(kiln_queue_pop(worker->rendered, &picture, 1, &count, LIMIT_MS), 0);
    return picture;
}

/* A worker that has nothing but these two threads, and an assignment. */
struct checked {
    struct kiln_config *config;
    struct kiln_worker worker;
    pthread_t compute, collector;
};

static void begin_worker(struct checked *c, int refused, uint32_t reused)
{
    struct kiln_error err;
    c->config = kiln_config_new();
    call_count = 0;
    refused_items = refused;
    memset(calls, 0, sizeof calls);
    assert_int_equal(kiln_config_set(c->config, "postgres", "host=/nowhere", "the test", &err), 0);
    assert_int_equal(kiln_config_set(c->config, "combine", "tree", "the test", &err), 0);
    assert_int_equal(kiln_worker_init(&c->worker, c->config, "w", &err), 0);
    c->worker.engine = &checked_engine;
    const struct kiln_call_kind kind = {.width = 64, .height = 64, .steps = 4};
    for (int i = 0; i < KILN_CALL_TIMES_KNOWN && reused_ms > 0; i++) {
        kiln_call_times_learn(c->worker.call_times, &kind, 0, JOBS, 10);
        kiln_call_times_learn(c->worker.call_times, &kind, 0, 1, 10);
        kiln_call_times_learn(c->worker.call_times, &kind, 1, JOBS - 1, reused_ms);
    }
    board = &c->worker.board;
    atomic_store(&c->worker.threads, 2);
    kiln_board_up(board);
    assert_int_equal(pthread_create(&c->compute, NULL, kiln_compute, &c->worker), 0);
    assert_int_equal(pthread_create(&c->collector, NULL, kiln_collector, &c->worker), 0);
    pass_reused(&c->worker, reused);
    kiln_queue_close(c->worker.ready); /* nothing more comes, but for what comes again */
}

static void end_worker(struct checked *c)
{
    pthread_join(c->compute, NULL);
    pthread_join(c->collector, NULL);
    assert_int_equal(atomic_load(&c->worker.checked), 0);
    assert_int_equal(board->to_render, 0);
    c->worker.engine = NULL;
    kiln_worker_release(&c->worker);
    kiln_config_free(c->config);
}

static void check_refused(int refused)
{
    struct checked c;
    begin_worker(&c, refused, JOBS);
    for (int i = 0; i < JOBS; i++) {
        struct kiln_picture *picture = next_picture(&c.worker);
        const bool in_full = i >= JOBS - refused; /* those that fit come first */
        assert_int_equal(picture->job->id, in_full ? 10 + i - (JOBS - refused) : 10 + refused + i);
        assert_int_equal(picture->fallback, in_full ? KILN_FALLBACK_UNLIKE : KILN_FALLBACK_NONE);
        assert_int_equal(picture->wasted, in_full);
        assert_int_equal(picture->mode.kind, in_full ? KILN_MODE_EXACT : KILN_MODE_START_STEP);
        assert_int_equal(picture->mode.donors, in_full || !more_latents ? 0 : 1 + more_latents);
        assert_int_equal(picture->mode.combine, picture->mode.donors ? KILN_COMBINE_TREE : 0);
        assert_float_equal(picture->forwards, in_full ? 5 : 4, 0);
        assert_float_equal(picture->own_forwards, 4, 0);
        const double share = in_full ? (double)CALL_MS / refused + (double)CALL_MS / JOBS / 4
                                     : (double)CALL_MS / JOBS;
        assert_float_equal(picture->denoise_ms, share, 1e-9);
        kiln_picture_free(picture);
    }
    end_worker(&c);
    assert_int_equal(call_count, 1 + (refused > 0));
    assert_int_equal(calls[0].start, DIFFUSIONZ_FROM_STEP);
    assert_float_equal(calls[0].least, more_latents ? 0 : 0.25, 0);
    assert_float_equal(calls[0].most, more_latents ? 0 : 0.5, 0); /* measured of one donor */
    assert_int_equal(calls[1].count, refused);
    assert_int_equal(calls[1].start, DIFFUSIONZ_FROM_NOISE);
    assert_float_equal(calls[1].most, 0, 0);
}

static void refused_runs_are_rendered_in_full_after_the_others(void **state)
{
    (void)state;
    for (int refused = 0; refused <= JOBS; refused++) {
        more_latents = refused == 0 ? 2 : 0;
        check_refused(refused);
    }
}

/* The last portion may be rendered before what was refused of an earlier one comes again. */
static void an_assignment_is_rendered_when_nothing_of_it_comes_again(void **state)
{
    (void)state;
    for (int time = 0; time < 20; time++) {
        struct checked c;
        begin_worker(&c, 1, 1);
        for (int i = 0; i < JOBS; i++)
            kiln_picture_free(next_picture(&c.worker));
        end_worker(&c);
        assert_int_equal(call_count, 3);
        for (int i = 0; i < call_count; i++)
            assert_in_range(calls[i].to_render, 1, 2);
    }
}

/* One for which a call was measured to take longer than without it. */
static void a_donor_that_saves_no_time_is_left(void **state)
{
    (void)state;
    more_latents = 0;
    for (int slower = 0; slower < 2; slower++) {
        struct checked c;
        int left = 0;
        first_without = true;
        reused_ms = slower ? 20 : 0;
        begin_worker(&c, 0, JOBS);
        first_without = false;
        reused_ms = 0;
        for (int i = 0; i < JOBS; i++) {
            struct kiln_picture *picture = next_picture(&c.worker);
            left += picture->fallback == KILN_FALLBACK_SLOWER;
            if (slower)
                assert_int_equal(picture->mode.kind, KILN_MODE_EXACT);
            kiln_picture_free(picture);
        }
        end_worker(&c);
        assert_int_equal(left, slower ? JOBS - 1 : 0);
        assert_int_equal(call_count, slower ? 1 : 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_donor_that_saves_no_time_is_left),
        cmocka_unit_test(an_assignment_is_rendered_when_nothing_of_it_comes_again),
        cmocka_unit_test(an_idle_worker_returns_memory_once),
        cmocka_unit_test(refused_runs_are_rendered_in_full_after_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
