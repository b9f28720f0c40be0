/* test_collector.c - the end of a batch: it waits for the device and for nothing behind it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "worker/stages/call.h"
#include "worker/state/worker.h"

#define LIMIT_MS 60000
#define CALLS 3
#define HOLDINGS (CALLS + 1) /* the last one for what comes before them */

/* --- an engine whose batches are done when they have begun ------------------------------------ */

struct kiln_renderer_run {
    int code;
    DiffusionZOutput *outputs;
    int item_code; /* of every item but the last, 0: it came out */
    int last_code;
    const char *text;
};

static DiffusionZTimes measured = {.device_ms = 5}; /* by the engine, of every call */

static int finish(struct kiln_renderer_run *run, DiffusionZTimes *ret_times, struct kiln_error *err)
{
    int code = run->code;
    for (int i = 0; i < KILN_ASSIGN_MAX; i++) {
        int item_code = i == KILN_ASSIGN_MAX - 1 ? run->last_code : run->item_code;
        run->outputs[i] = (DiffusionZOutput){.error_code = item_code};
        run->outputs[i].error_msg = item_code ? strdup(run->text) : NULL;
    }
    *ret_times = measured;
    free(run);
    return code ? kiln_fail(err, code, "the device is lost") : 0;
}

static void release(DiffusionZOutput *output)
{
    free(output->error_msg);
    *output = (DiffusionZOutput){0};
}

static struct kiln_renderer engine = {.finish = finish, .release = release};

/* --- a worker with nobody behind the collector ------------------------------------------------ */

struct rig {
    struct kiln_worker worker;
    struct kiln_config *config;
    struct kiln_flight *flights[HOLDINGS];
    pthread_t collector;
    int item_code, last_code; /* what becomes of the items of a call that runs, */
    const char *text;         /* and why */
};

static struct kiln_flight *hold(struct kiln_worker *worker, int number)
{
    struct kiln_assignment assignment = {
        .width = 64, .height = 64, .steps = 2, .job_count = KILN_ASSIGN_MAX};
    struct kiln_flight *flight = NULL;
    struct kiln_error err;
    snprintf(assignment.id, sizeof assignment.id, "a-%d", number);
    assignment.jobs = calloc(KILN_ASSIGN_MAX, sizeof assignment.jobs[0]);
    for (uint32_t i = 0; i < KILN_ASSIGN_MAX; i++)
        assignment.jobs[i] = (struct kiln_job){.id = 1 + i + (uint64_t)number * KILN_ASSIGN_MAX,
                                               .width = 64,
                                               .height = 64,
                                               .kind = KILN_KIND_IMAGE};
    assert_int_equal(kiln_flights_add(&worker->flights, &assignment, 1, &flight, &err), 0);
    kiln_assignment_release(&assignment);
    kiln_board_want(&worker->board);
    return flight;
}

static void open_rig(struct rig *rig)
{
    struct kiln_error err;
    *rig = (struct rig){.config = kiln_config_new()};
    assert_non_null(rig->config);
    assert_int_equal(kiln_worker_init(&rig->worker, rig->config, "w", &err), 0);
    rig->worker.engine = &engine;
    atomic_store(&rig->worker.threads, 1);
    kiln_board_up(&rig->worker.board);
    for (int i = 0; i < HOLDINGS; i++)
        rig->flights[i] = hold(&rig->worker, i);
    assert_int_equal(pthread_create(&rig->collector, NULL, kiln_collector, &rig->worker), 0);
}

/* As the compute thread does: a call of all jobs of the flight that was to begin now; code is what
 * beginning it, or else finishing it, comes to. */
static void put(struct rig *rig, int number, bool begun, int code)
{
    struct kiln_call *call = calloc(1, sizeof *call);
    assert_non_null(call);
    if (begun) {
        call->run = calloc(1, sizeof *call->run);
        assert_non_null(call->run);
        call->run->code = code;
        call->run->outputs = call->outputs;
        call->run->item_code = rig->item_code;
        call->run->last_code = rig->last_code;
        call->run->text = rig->text;
    } else if (code) {
        kiln_fail(&call->err, code, "nothing can begin");
    }
    call->flight = rig->flights[number];
    call->last = true;
    call->count = KILN_ASSIGN_MAX;
    for (uint32_t i = 0; i < call->count; i++)
        call->index[i] = i;
    call->started_ms = kiln_monotonic_ms();
    kiln_board_call_begun(&rig->worker.board, &call->step, 0, 0, 0);
    assert_int_equal(kiln_queue_push(rig->worker.asked, call, 1, LIMIT_MS), 0);
}

/* Frees what came out; returns how many. */
static size_t take_all(struct kiln_queue *queue)
{
    void *picture;
    size_t count, taken = 0;
    while (kiln_queue_pop(queue, &picture, 1, &count, 0) == 0) {
        kiln_picture_free(picture);
        taken++;
    }
    return taken;
}

static void take_one(struct kiln_queue *queue)
{
    void *picture;
    size_t count;
    assert_int_equal(kiln_queue_pop(queue, &picture, 1, &count, LIMIT_MS), 0);
    kiln_picture_free(picture);
}

static void close_rig(struct rig *rig)
{
    kiln_queue_close(rig->worker.asked);
    pthread_join(rig->collector, NULL);
    take_all(rig->worker.rendered);
    take_all(rig->worker.outcomes);
    rig->worker.engine = NULL;
    kiln_worker_release(&rig->worker);
    kiln_config_free(rig->config);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* Encoders that take nothing: what has begun is finished all the same, so that its time is the
 * device's and no device seems to hang; but nothing more may begin. */
static void slow_encoders_hold_up_the_next_batch_alone(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    assert_true(kiln_worker_may_begin(&rig.worker, 0));
    put(&rig, 0, true, 0);
    put(&rig, 1, true, 0);
    assert_int_equal(kiln_queue_await(rig.worker.asked, 1, 1, LIMIT_MS), 0);
    const double start = kiln_monotonic_ms();
    while (kiln_queue_length(rig.worker.rendered) < 2 * KILN_ASSIGN_MAX)
        assert_true(kiln_monotonic_ms() - start < LIMIT_MS);
    while (kiln_board_device(&rig.worker.board).batch_s > 0)
        assert_true(kiln_monotonic_ms() - start < LIMIT_MS);
    assert_true(kiln_board_device(&rig.worker.board).stalled_s == 0);
    assert_false(kiln_worker_may_begin(&rig.worker, 10));
    assert_int_equal(take_all(rig.worker.rendered), 2 * KILN_ASSIGN_MAX);
    assert_true(kiln_worker_may_begin(&rig.worker, 0));
    close_rig(&rig);
}

/* A device on which three batches in a row cannot begin is given up; one that recovers is not. */
static void a_device_is_given_up_after_three(void **state)
{
    (void)state;
    for (int recovers = 0; recovers < 2; recovers++) {
        struct rig rig;
        open_rig(&rig);
        for (int i = 0; i < CALLS; i++) {
            bool well = recovers && i == 1;
            assert_int_equal(atomic_load(&rig.worker.failure), 0);
            put(&rig, i, well, well ? 0 : KILN_DEVICE);
            for (int k = 0; k < KILN_ASSIGN_MAX; k++)
                take_one(well ? rig.worker.rendered : rig.worker.outcomes);
        }
        assert_int_equal(atomic_load(&rig.worker.failure), recovers ? 0 : KILN_DEVICE);
        close_rig(&rig);
    }
}

/* One that is found lost under a batch is given up before the first of its jobs can come back, and
 * what had come from it before is handed on. */
static void a_lost_device_is_given_up_at_once(void **state)
{
    (void)state;
    for (int drawn = 0; drawn < 2; drawn++) {
        struct rig rig;
        open_rig(&rig);
        rig.item_code = drawn ? 0 : KILN_DEVICE;
        rig.last_code = KILN_DEVICE;
        rig.text = "a copy that never came";
        put(&rig, 0, true, KILN_DEVICE);
        take_one(drawn ? rig.worker.rendered : rig.worker.outcomes);
        assert_int_equal(atomic_load(&rig.worker.failure), KILN_DEVICE);
        assert_string_equal(rig.worker.why.text, "the device is lost");
        assert_int_equal(kiln_worker_drain(&rig.worker), KILN_DRAIN_ASKED);
        for (int k = 1; k < KILN_ASSIGN_MAX - 1; k++)
            take_one(drawn ? rig.worker.rendered : rig.worker.outcomes);
        take_one(rig.worker.outcomes);
        close_rig(&rig);
    }
}

/* Calls that run but whose items all fail: of the device, which is then given up, or of anything
 * else, which says nothing of the device. */
static void a_device_is_given_up_when_nothing_comes_out(void **state)
{
    (void)state;
    static const struct {
        int item_code, last_code;
        const char *text;
        int failure;
        bool again; /* the same jobs each time */
        bool drawn; /* behind a call of the same size that came out */
    } cases[] = {
        {KILN_DEVICE, KILN_DEVICE, "CUDA error: an illegal address", 0, true, false},
        {KILN_DEVICE, KILN_DEVICE, "CUDA error: an illegal address", KILN_DEVICE, false, false},
        {KILN_NO_MEMORY, KILN_NO_MEMORY, "no memory for a picture", 0, false, false},
        {KILN_NO_MEMORY, KILN_NO_MEMORY, "no memory for a picture", KILN_NO_MEMORY, false, true},
        {KILN_DEVICE, 0, "CUDA error: an illegal address", 0, false, false},
        {KILN_NOT_FINITE, KILN_NOT_FINITE, "non-finite latent at step 1 of 3", 0, false, false},
        {KILN_DEVICE, KILN_DEVICE, "non-finite latent, says a driver", KILN_DEVICE, false, false},
        {KILN_DEVICE, KILN_CANCELLED, "cancelled, or the device", 0, false, false},
        {KILN_BAD_INPUT, KILN_BAD_INPUT, "no such size", 0, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig;
        open_rig(&rig);
        if (cases[i].drawn) {
            put(&rig, CALLS, true, 0);
            for (int k = 0; k < KILN_ASSIGN_MAX; k++)
                take_one(rig.worker.rendered);
        }
        rig.item_code = cases[i].item_code;
        rig.last_code = cases[i].last_code;
        rig.text = cases[i].text;
        for (int call = 0; call < CALLS; call++) {
            assert_int_equal(atomic_load(&rig.worker.failure), 0);
            for (uint32_t k = 0; k < KILN_ASSIGN_MAX && cases[i].again; k++)
                rig.flights[call]->assignment.jobs[k].id = 1 + k;
            put(&rig, call, true, 0);
            for (int k = 0; k < KILN_ASSIGN_MAX - 1; k++)
                take_one(rig.worker.outcomes);
            take_one(rig.last_code ? rig.worker.outcomes : rig.worker.rendered);
        }
        assert_int_equal(atomic_load(&rig.worker.failure), cases[i].failure);
        if (cases[i].failure)
            assert_string_equal(rig.worker.why.text, cases[i].text);
        close_rig(&rig);
    }
}

/* Each of three calls that begin at once says that it took ten seconds, from its own begin.  Their
 * pictures share what has really passed, in the engine's proportions. */
static void no_time_counts_twice(void **state)
{
    (void)state;
    const DiffusionZTimes before = measured;
    const double start = kiln_monotonic_ms();
    double text_ms = 0, denoise_ms = 0, decode_ms = 0;
    struct rig rig;
    open_rig(&rig);
    measured = (DiffusionZTimes){.text_ms = 1000, .denoise_ms = 6000, .decode_ms = 3000};
    for (int i = 0; i < CALLS; i++)
        put(&rig, i, true, 0);
    for (int i = 0; i < CALLS * KILN_ASSIGN_MAX; i++) {
        void *item;
        size_t count;
        assert_int_equal(kiln_queue_pop(rig.worker.rendered, &item, 1, &count, LIMIT_MS), 0);
        const struct kiln_picture *picture = item;
        text_ms += picture->text_ms;
        denoise_ms += picture->denoise_ms;
        decode_ms += picture->decode_ms;
        kiln_picture_free(item);
    }
    assert_true(denoise_ms > 0);
    assert_true(text_ms + denoise_ms + decode_ms <= kiln_monotonic_ms() - start);
    assert_float_equal(text_ms, denoise_ms / 6, 1e-6);
    assert_float_equal(decode_ms, denoise_ms / 2, 1e-6);
    close_rig(&rig);
    measured = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_encoders_hold_up_the_next_batch_alone),
        cmocka_unit_test(a_device_is_given_up_after_three),
        cmocka_unit_test(a_lost_device_is_given_up_at_once),
        cmocka_unit_test(a_device_is_given_up_when_nothing_comes_out),
        cmocka_unit_test(no_time_counts_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
