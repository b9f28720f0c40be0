/* test_lora_cuda.c - LoRAs on cuda:0: beside the weights and merged on the device, against the
 * merge from the files; switches without a trace; a set asked for while a batch runs; and, at full
 * size with random weights, what a switch and a step cost.
 *
 * The full-size model takes 25 GB and a minute, and is asked for with the argument `full`.
 */
#include <pthread.h>
#include <time.h>

#include "pipeline/model/transformer_parts.h"
#include "pipeline/torch/load.h"
#include "schemas/clock.h"
#include "storage/formats/safetensors.h"
#include "tests/gpu/gpu.h"
#include "tests/support/lora_rig.h"
#include "tests/support/measure.h"

#define SIDE 256
#define STEPS 4
#define BUSY_STEPS 50
#define FULL_SIDE 1024
#define FULL_STEPS 4
#define FULL_ROUNDS 7
#define RANK 16
#define PROMPT "two red stars above a blue circle at sunset"

static const char *const sketch_loras[] = {"clay",  "hatched", "neon",
                                           "pixel", "sticker", "watercolor"};

static const char *sketch_lora(size_t i)
{
    static char paths[4][4200];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/loras/%s.safetensors", sketch(), sketch_loras[i]);
    return path;
}

static struct lora_draw draw_of(const char *path, float weight)
{
    return (struct lora_draw){
        .prompt = PROMPT, .side = SIDE, .steps = STEPS, .loras = {{path, weight}}, .lora_count = 1};
}

static struct lora_draw draw_of_three(void)
{
    struct lora_draw draw = draw_of(sketch_lora(0), 0.5f);
    draw.loras[draw.lora_count++] = (DiffusionZLora){sketch_lora(2), 0.5f};
    draw.loras[draw.lora_count++] = (DiffusionZLora){sketch_lora(5), -0.25f};
    return draw;
}

/* --- against the merge from files ------------------------------------------------------------- */

struct kind {
    int dtype;
    double relative; /* that two ways may differ by */
};

static void check_both(struct kiln_engine *e, struct lora_draw draw, double relative)
{
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    for (int i = 0; i < 2; i++) {
        double effect;
        struct lora_gap gap = lora_rig_compare(e, draw, modes[i], KILN_LORA_FILES, &effect);
        assert_true(gap.relative <= relative);
        assert_true(gap.cosine >= 1 - relative * relative);
        assert_true(effect > 2 * gap.relative);
    }
}

static void every_shipped_lora_works_beside_and_merged(void **state)
{
    const struct kind *kind = *state;
    struct kiln_engine *e = lora_rig_open(sketch(), 0, kind->dtype);
    for (size_t i = 0; i < sizeof sketch_loras / sizeof *sketch_loras; i++) {
        /* A rounding to bf16 may decide a cell of pixel art otherwise: seen 9.4e-2, others 3e-2. */
        const int hard_edged = strcmp(sketch_loras[i], "pixel") == 0;
        check_both(e, draw_of(sketch_lora(i), 1), kind->relative * (hard_edged ? 3 : 1));
    }
    struct lora_draw two = draw_of(sketch_lora(1), 0.5f);
    two.loras[two.lora_count++] = (DiffusionZLora){sketch_lora(4), 0.5f};
    check_both(e, two, kind->relative);
    check_both(e, draw_of_three(), kind->relative);
    kiln_engine_close(e);
}

/* As many as a job may have, beside what the CPU draws with them. */
static void three_at_once_are_those_of_the_cpu(void **state)
{
    (void)state;
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    struct kiln_engine *cpu = lora_rig_open(sketch(), KT_CPU, DIFFUSIONZ_FP32);
    struct kiln_engine *gpu = lora_rig_open(sketch(), 0, DIFFUSIONZ_FP32);
    struct lora_draw draw = draw_of_three(), bare = draw;
    size_t n;
    bare.lora_count = 0;
    float *want = lora_rig_draw(cpu, &draw, &n), *without = lora_rig_draw(cpu, &bare, &n);
    const double effect = lora_rig_gap(without, want, n).relative;
    for (int i = 0; i < 2; i++) {
        draw.mode = modes[i];
        float *got = lora_rig_draw(gpu, &draw, &n);
        struct lora_gap gap = lora_rig_gap(got, want, n);
        printf("three %s, relative to the CPU: relative %.2e, cosine %.8f; they move it by %.2e\n",
               i ? "merged" : "beside", gap.relative, gap.cosine, effect);
        free(got);
        assert_true(gap.relative <= 1e-3);
        assert_true(effect > 100 * gap.relative);
    }
    free(want);
    free(without);
    kiln_engine_close(cpu);
    kiln_engine_close(gpu);
}

/* LoRAs of some steps: what the CPU draws with them, in both ways; and the same bits once the steps
 * of all sets are replayed. */
static void loras_of_steps_are_those_of_the_cpu(void **state)
{
    (void)state;
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    struct kiln_engine *cpu = lora_rig_open(sketch(), KT_CPU, DIFFUSIONZ_FP32);
    struct kiln_engine *gpu = lora_rig_open(sketch(), 0, DIFFUSIONZ_FP32);
    const DiffusionZStepLora steps[2] = {{{sketch_lora(0), 1}, 0, STEPS / 2},
                                         {{sketch_lora(2), 0.5f}, STEPS / 2 - 1, STEPS - 1}};
    struct lora_draw draw = draw_of(sketch_lora(5), 0.5f), bare = draw;
    size_t n;
    draw.step_loras = steps;
    draw.step_lora_count = 2;
    float *want = lora_rig_draw(cpu, &draw, &n), *without = lora_rig_draw(cpu, &bare, &n);
    const double effect = lora_rig_gap(without, want, n).relative;
    for (int i = 0; i < 2; i++) {
        draw.mode = modes[i];
        float *got = lora_rig_draw(gpu, &draw, &n);
        struct lora_gap gap = lora_rig_gap(got, want, n);
        printf("of steps, %s, relative to the CPU: relative %.2e; they move it by %.2e\n",
               i ? "merged" : "beside", gap.relative, effect);
        for (int again = 0; again < 3; again++) {
            float *same = lora_rig_draw(gpu, &draw, &n);
            assert_memory_equal(same, got, n * sizeof *got);
            free(same);
        }
        free(got);
        assert_true(gap.relative <= 1e-3);
        assert_true(effect > 100 * gap.relative);
    }
    free(want);
    free(without);
    kiln_engine_close(cpu);
    kiln_engine_close(gpu);
}

static void every_layout_of_keys_works_in_slots(void **state)
{
    (void)state;
    static const char *const names[] = {
        "diffusers",   "diffusers_alpha", "aitoolkit", "aitoolkit_alpha", "kohya",
        "kohya_fused", "comfy",           "dotted",    "default",         "peft"};
    struct kiln_engine *e = lora_rig_open(golden("models/plain"), 0, DIFFUSIONZ_FP32);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "loras/%s.safetensors", names[i]);
        struct lora_draw draw = draw_of(golden(name), 0.8f);
        draw.side = 64;
        check_both(e, draw, 1e-3);
    }
    kiln_engine_close(e);
}

/* FP8 weights with a LoRA draw what bf16 weights with it draw. */
static void quantised_weights_take_both_ways(void **state)
{
    (void)state;
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    size_t n;
    double effect;
    struct kiln_engine *half = lora_rig_open(sketch(), 0, DIFFUSIONZ_BF16);
    struct kiln_engine *fp8 = lora_rig_open(sketch(), 0, DIFFUSIONZ_FP8);
    struct lora_draw draw = draw_of(sketch_lora(1), 1), other = draw_of(sketch_lora(0), 1);
    draw.side = other.side = 2 * SIDE; /* where attention is in eight bits, too */
    (void)lora_rig_compare(half, draw, KILN_LORA_MERGED, KILN_LORA_FILES, &effect);
    float *want = lora_rig_draw(half, &draw, &n);
    for (int i = 0; i < 2; i++) {
        draw.mode = modes[i];
        float *got = lora_rig_draw(fp8, &draw, &n);
        struct lora_gap gap = lora_rig_gap(got, want, n);
        printf("fp8 with neon %s, relative to bf16: relative %.3e, cosine %.5f; one switch: %.3f "
               "ms\n",
               i ? "merged" : "beside", gap.relative, gap.cosine,
               lora_rig_switch(fp8, &draw, &other, 1000));
        free(got);
        assert_true(gap.cosine >= 0.98);
        assert_true(gap.relative < effect / 2);
    }
    free(want);
    kiln_engine_close(half);
    kiln_engine_close(fp8);
}

/* --- switches --------------------------------------------------------------------------------- */

static void a_thousand_switches_leave_no_trace(void **state)
{
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    const struct kind *kind = *state;
    struct kiln_engine *e = lora_rig_open(sketch(), 0, kind->dtype);
    for (int i = 0; i < 2; i++) {
        struct lora_draw a = draw_of(sketch_lora(1), 1), b = draw_of(sketch_lora(2), -0.5f);
        a.mode = modes[i];
        printf("sketch %s, one switch: %.3f ms\n", i ? "merged" : "beside",
               lora_rig_switch(e, &a, &b, 1000));
    }
    kiln_engine_close(e);
}

/* A batch that is long enough for files to be read beside it, on a thread of its own. */
struct busy {
    DiffusionZContext *ctx;
    int32_t progress;
    int code;
};

static void *draw_for_long(void *arg)
{
    struct busy *b = arg;
    const DiffusionZItem items[4] = {{.prompt = PROMPT, .seed = 1},
                                     {.prompt = PROMPT, .seed = 2},
                                     {.prompt = PROMPT, .seed = 3},
                                     {.prompt = PROMPT, .seed = 4}};
    const DiffusionZBatch batch = {.items = items,
                                   .item_count = 4,
                                   .width = 4 * SIDE,
                                   .height = 4 * SIDE,
                                   .num_steps = BUSY_STEPS,
                                   .progress = &b->progress};
    DiffusionZOutput out[4];
    b->code = diffusionz_run_batch(b->ctx, &batch, out, NULL);
    for (int i = 0; i < 4 && !b->code; i++)
        b->code = out[i].error_code;
    diffusionz_release_outputs(out, 4);
    return NULL;
}

/* Returns when a step has ended, or after ten seconds without. */
static void wait_until_drawing(const struct busy *b)
{
    for (int i = 0; i < 50000 && __atomic_load_n(&b->progress, __ATOMIC_ACQUIRE) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* The picture of a set, and where the set came from. */
static DiffusionZOutput draw_set(DiffusionZContext *ctx, const DiffusionZBatch *batch, int from)
{
    DiffusionZOutput out;
    DiffusionZTimes times;
    if (diffusionz_run_batch(ctx, batch, &out, &times))
        fail_msg("%s", diffusionz_last_error());
    if (out.error_code)
        fail_msg("%s", out.error_msg);
    printf("a switch of %.2f ms: %s\n", times.lora_ms,
           times.lora_from == DIFFUSIONZ_LORA_READY ? "it lay ready" : "its file was read");
    assert_int_equal(times.lora_from, from);
    return out;
}

static void a_set_is_read_while_a_batch_runs(void **state)
{
    (void)state;
    const DiffusionZLora lora = {sketch_lora(3), 1};
    const DiffusionZItem item = {.prompt = PROMPT, .seed = 5};
    const DiffusionZBatch next = {.items = &item,
                                  .item_count = 1,
                                  .width = SIDE,
                                  .height = SIDE,
                                  .num_steps = STEPS,
                                  .loras = &lora,
                                  .lora_count = 1};
    DiffusionZOutput out[2];
    for (int ahead = 0; ahead < 2; ahead++) {
        struct busy busy = {.ctx = open_model(sketch(), 0, DIFFUSIONZ_BF16)};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, draw_for_long, &busy), 0);
        if (ahead)
            wait_until_drawing(&busy);
        int code = ahead ? diffusionz_prefetch(busy.ctx, &next) : 0;
        const int32_t progress = __atomic_load_n(&busy.progress, __ATOMIC_ACQUIRE);
        pthread_join(thread, NULL);
        assert_int_equal(code, 0);
        assert_int_equal(busy.code, 0);
        if (ahead) /* the wish came while it drew, and has waited for nothing */
            assert_true(progress > 0 && progress < BUSY_STEPS);
        out[ahead] =
            draw_set(busy.ctx, &next, ahead ? DIFFUSIONZ_LORA_READY : DIFFUSIONZ_LORA_READ);
        diffusionz_free(busy.ctx);
    }
    assert_memory_equal(out[0].rgb, out[1].rgb, (size_t)SIDE * SIDE * 3);
    diffusionz_release_outputs(out, 2);
}

/* A graph that was recorded under one set is replayed under another. */
static void a_recorded_step_serves_the_next_set(void **state)
{
    (void)state;
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    for (int i = 0; i < 2; i++) {
        size_t n;
        struct kiln_engine *e = lora_rig_open(sketch(), 0, DIFFUSIONZ_BF16);
        struct lora_draw a = draw_of(sketch_lora(1), 1), b = draw_of(sketch_lora(2), 0.7f);
        a.mode = b.mode = modes[i];
        free(lora_rig_draw(e, &a, &n));
        free(lora_rig_draw(e, &a, &n));
        float *after = lora_rig_draw(e, &b, &n);
        kiln_engine_close(e);
        e = lora_rig_open(sketch(), 0, DIFFUSIONZ_BF16);
        float *first = lora_rig_draw(e, &b, &n);
        kiln_engine_close(e);
        assert_memory_equal(after, first, n * sizeof *first);
        free(after);
        free(first);
    }
}

/* Sets of different ranks lie behind the same weights, one after the other; the recorded steps of
 * each find theirs, and those without any set find none. */
static void ranks_share_the_room(void **state)
{
    (void)state;
    size_t n;
    struct kiln_engine *e = lora_rig_open(sketch(), 0, DIFFUSIONZ_BF16);
    struct lora_draw draws[3] = {draw_of(sketch_lora(1), 1), draw_of_three(), draw_of("", 0)};
    float *first[3], *again;
    draws[2].lora_count = 0;
    for (int i = 0; i < 9; i++) {
        struct lora_draw *draw = &draws[i % 3];
        draw->mode = KILN_LORA_BESIDE;
        again = lora_rig_draw(e, draw, &n);
        const struct kiln_linear_layer *layer = &kiln_joint_block(e->sets[0].transformer, 0)->qkv;
        assert_int_equal(layer->both != NULL, draw->lora_count > 0);
        if (i < 3) {
            first[i] = again;
            continue;
        }
        assert_memory_equal(again, first[i % 3], n * sizeof *again);
        free(again);
    }
    kiln_engine_close(e);
    e = lora_rig_open(sketch(), 0, DIFFUSIONZ_BF16);
    for (int i = 2; i >= 0; i--) {
        again = lora_rig_draw(e, &draws[i], &n);
        assert_memory_equal(again, first[i], n * sizeof *again);
        free(again);
        free(first[i]);
    }
    kiln_engine_close(e);
}

/* --- full size -------------------------------------------------------------------------------- */

static struct kiln_engine *full;
static char full_dir[] = "/tmp/kiln-lora-XXXXXX";
static const char *const full_loras[2] = {"a.safetensors", "b.safetensors"};

static int enter_directory(void **state)
{
    (void)state;
    return mkdtemp(full_dir) && chdir(full_dir) == 0 ? 0 : -1;
}

static int leave_directory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        (void)!unlink(full_loras[i]);
    return chdir("/") == 0 && rmdir(full_dir) == 0 ? 0 : -1;
}

/* Evenly distributed bf16 values in -size .. size. */
static uint16_t *noise(size_t count, float size, uint32_t seed)
{
    uint16_t *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float value = ((float)(seed >> 8) / 8388608.0f - 1) * size;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        values[i] = (uint16_t)(bits >> 16);
    }
    return values;
}

/* A pair for every linear layer of every block. */
static void write_full_lora(const struct kiln_engine *e, const char *path, uint32_t seed)
{
    const struct kiln_param_table *params = &e->sets[0].params;
    struct kiln_st_tensor *tensors = calloc(2 * params->count, sizeof *tensors);
    char(*names)[128] = calloc(2 * params->count, sizeof *names);
    const size_t longest = (size_t)RANK * 20480;
    uint16_t *a = noise(longest, 0.03f, seed), *b = noise(longest, 0.01f, seed + 1);
    size_t n = 0;
    struct kiln_error err;
    assert_true(tensors && names);
    for (size_t i = 0; i < params->count; i++) {
        const struct kiln_param *p = &params->items[i];
        if (!p->layer)
            continue;
        snprintf(names[n], sizeof names[0], "transformer.%s.lora_A.weight", p->name);
        tensors[n] = (struct kiln_st_tensor){
            names[n], KILN_ST_BF16, 2, {RANK, p->cols}, a, (size_t)(RANK * p->cols) * 2};
        n++;
        snprintf(names[n], sizeof names[0], "transformer.%s.lora_B.weight", p->name);
        tensors[n] = (struct kiln_st_tensor){
            names[n], KILN_ST_BF16, 2, {p->rows, RANK}, b, (size_t)(RANK * p->rows) * 2};
        n++;
    }
    if (kiln_st_write(path, tensors, n, NULL, &err))
        fail_msg("%s", err.text);
    free(tensors);
    free(names);
    free(a);
    free(b);
}

static int open_full(void **state)
{
    const char *source = getenv("KILN_SOURCE");
    char dir[4200];
    const int *dtype = *state;
    struct kiln_error err;
    full = NULL;
    snprintf(dir, sizeof dir, "%s/scripts/bench/z-image-turbo", source ? source : ".");
    const DiffusionZOptions options = {.model_path = dir, .device_id = 0, .dtype = *dtype};
    if (kiln_engine_open(&options, true, &full, &err)) {
        printf("the full model: %s\n", err.text);
        return -1;
    }
    for (uint32_t i = 0; i < 2; i++)
        if (access(full_loras[i], R_OK) != 0)
            write_full_lora(full, full_loras[i], 7 * i + 1);
    return 0;
}

static int close_full(void **state)
{
    (void)state;
    kiln_engine_close(full);
    return 0;
}

static double full_switch(const char *path)
{
    const struct kiln_lora_use use = {path, 1};
    struct kiln_error err;
    double start = kiln_monotonic_ms();
    if (kiln_engine_loras(&full->sets[0], &use, path ? 1 : 0, &err))
        fail_msg("%s", err.text);
    struct kt_scope *s = kt_scope_new(0);
    kt_wait(s);
    kt_scope_free(s);
    return kiln_monotonic_ms() - start;
}

/* Milliseconds of one step with the set; set 2 is none.  Of two pictures the second counts: a card
 * at its power limit is faster at first where it has rested, as it does while a set changes. */
static double full_step(int set)
{
    const DiffusionZLora lora = {set < 2 ? full_loras[set] : NULL, 1};
    const DiffusionZItem item = {.prompt = PROMPT, .seed = 1};
    const DiffusionZBatch batch = {.items = &item,
                                   .item_count = 1,
                                   .width = FULL_SIDE,
                                   .height = FULL_SIDE,
                                   .num_steps = FULL_STEPS,
                                   .loras = &lora,
                                   .lora_count = set < 2,
                                   .skip_decode = 1};
    DiffusionZOutput out;
    DiffusionZTimes times;
    struct kiln_error err;
    (void)full_switch(lora.path);
    for (int i = 0; i < 2; i++) {
        if (kiln_engine_run(full, &batch, NULL, &out, &times, &err))
            fail_msg("%s", err.text);
        if (out.error_code)
            fail_msg("%s", out.error_msg);
        diffusionz_release_outputs(&out, 1);
    }
    return times.denoise_ms / FULL_STEPS;
}

/* Medians of a step with none and with a set, by turns: a card's clock falls while it gets warm. */
static void full_steps(double *ret_bare, double *ret_with)
{
    double bare[FULL_ROUNDS], with[FULL_ROUNDS];
    for (int i = -1; i < FULL_ROUNDS; i++) { /* the first round records the steps */
        bare[i < 0 ? 0 : i] = full_step(2);
        with[i < 0 ? 0 : i] = full_step(1);
    }
    *ret_bare = test_median(bare, FULL_ROUNDS), *ret_with = test_median(with, FULL_ROUNDS);
}

struct full_case {
    int dtype;
    const char *name;
    enum kiln_lora_mode mode;
};

static void a_set_costs_little_at_full_size(void **state)
{
    const struct full_case *c = *state;
    kiln_loras_mode(full->sets[0].loras, c->mode);
    (void)full_step(2); /* what an engine does once is not the switch's */
    double cold = full_switch(full_loras[0]), worst = 0, sum = 0, bare, with;
    (void)full_switch(full_loras[1]);
    for (int i = 0; i < 20; i++) {
        double ms = full_switch(full_loras[i % 2]);
        sum += ms;
        worst = ms > worst ? ms : worst;
    }
    const double away = full_switch(NULL);
    full_steps(&bare, &with);
    struct kt_memory memory = {0};
    (void)kt_memory_of(0, &memory);
    printf("full %s: switch from the file %.0f ms, from host memory %.1f ms (worst %.1f), away "
           "%.2f ms; step %.2f ms, with rank %d on every layer %.2f ms (%+.1f %%); %.1f GB used\n",
           c->name, cold, sum / 20, worst, away, bare, RANK, with, 100 * (with / bare - 1),
           (double)memory.used / 1e9);
    assert_true(sum / 20 <= 30);
    if (c->mode == KILN_LORA_AUTO)
        assert_true(with / bare <= 1.03);
    kiln_loras_mode(full->sets[0].loras, KILN_LORA_AUTO);
}

int main(int argc, char **argv)
{
    static struct kind fp32 = {DIFFUSIONZ_FP32, 1e-3}, bf16 = {DIFFUSIONZ_BF16, 5e-2};
    static struct full_case beside = {DIFFUSIONZ_BF16, "bf16 beside", KILN_LORA_BESIDE},
                            merged = {DIFFUSIONZ_BF16, "bf16 auto", KILN_LORA_AUTO},
                            fp8_beside = {DIFFUSIONZ_FP8, "fp8 beside", KILN_LORA_BESIDE},
                            fp8_merged = {DIFFUSIONZ_FP8, "fp8 auto", KILN_LORA_AUTO};
    const struct CMUnitTest tests[] = {
        {"every_shipped_lora_fp32", every_shipped_lora_works_beside_and_merged, NULL, NULL, &fp32},
        {"every_shipped_lora_bf16", every_shipped_lora_works_beside_and_merged, NULL, NULL, &bf16},
        cmocka_unit_test(three_at_once_are_those_of_the_cpu),
        cmocka_unit_test(loras_of_steps_are_those_of_the_cpu),
        cmocka_unit_test(every_layout_of_keys_works_in_slots),
        {"a_thousand_switches_fp32", a_thousand_switches_leave_no_trace, NULL, NULL, &fp32},
        {"a_thousand_switches_bf16", a_thousand_switches_leave_no_trace, NULL, NULL, &bf16},
        cmocka_unit_test(a_set_is_read_while_a_batch_runs),
        cmocka_unit_test(a_recorded_step_serves_the_next_set),
        cmocka_unit_test(ranks_share_the_room),
        cmocka_unit_test(quantised_weights_take_both_ways),
    };
    const struct CMUnitTest sizes[] = {
        {"beside", a_set_costs_little_at_full_size, open_full, close_full, &beside},
        {"merged", a_set_costs_little_at_full_size, open_full, close_full, &merged},
        {"fp8_beside", a_set_costs_little_at_full_size, open_full, close_full, &fp8_beside},
        {"fp8_merged", a_set_costs_little_at_full_size, open_full, close_full, &fp8_merged},
    };
    need_gpu();
    if (argc > 1 && strcmp(argv[1], "full") == 0)
        return cmocka_run_group_tests_name("lora_cuda full", sizes, enter_directory,
                                           leave_directory);
    return cmocka_run_group_tests_name("lora_cuda", tests, NULL, NULL);
}
