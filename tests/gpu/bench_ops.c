/* bench_ops.c - how fast the transformer's operations are on cuda:0, at the sizes of
 * Z-Image-Turbo, through the very calls that the pipeline makes.
 *
 *     bench_ops [PART]     only the lines whose name contains PART
 *
 * Products and attention in TFLOP/s, beside the rate that LibTorch's operators reached for the same
 * shape on one H200 (random data, CUDA 13.0, cuDNN 9.19, LibTorch 2.11.0): the ceilings.  Passes
 * over rows in GB/s of what they must read and write, beside the 4.3 TB/s of a copy on that card.
 * At the end, both together: one joint block, and what the 32 that see the picture come to.
 *
 * A case is recorded ten times into a graph, so that the time is the device's alone; the median of
 * nine replays counts.  Results are not looked at: test_ops_cuda does that, and is to be run first.
 * Exit 0; 1 if something failed; 69 without a usable GPU.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/torch/async.h"
#include "schemas/clock.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/ops_rig.h"
#include "tests/support/measure.h"

#define WIDTH 3840
#define FFN 10240
#define HEADS 30
#define HEAD_DIM 128
#define ROOM 64 /* columns behind rows, for LoRAs */
#define COPY_RATE 4.3e12
#define LAUNCHES 10
#define REPLAYS 9

static const char *filter = "";
static int failures;
static int64_t rows;

/* Weights and operands of the running size. */
static struct operands {
    kt x, residual, hidden, packed, gate_up; /* rows */
    kt stream;                               /* the residual with tails */
    kt norm, gain, cos, sin;
    kt weights[4], codes[4]; /* qkv, out, gate_up, down */
    kt x_codes, hidden_codes;
} o;

enum { QKV, OUT, GATE_UP, DOWN };
static const struct {
    const char *name;
    int64_t k, n;
} layers[4] = {{"qkv", WIDTH, 3 * WIDTH},
               {"out", WIDTH, WIDTH},
               {"gate_up", WIDTH, 2 * FFN},
               {"down", FFN, WIDTH}};

/* The measured rates, TFLOP/s: bf16 and e4m3 of the four products, then cuDNN's attention. */
static const struct {
    int64_t rows;
    double bf16[4], e4m3[4], attention;
} ceilings[] = {{1152, {664, 546, 746, 686}, {1091, 574, 1255, 832}, 313},
                {4224, {788, 717, 782, 769}, {1433, 1099, 1475, 1328}, 621}};

/* --- timing ----------------------------------------------------------------------------------- */

/* Runs the work `times` times, each in a scope of its own. */
static void repeat(struct kt_scope *s, void (*work)(struct kt_scope *s), int times)
{
    for (int i = 0; i < times; i++) {
        struct kt_scope *inner = kt_scope_child(s);
        work(inner);
        kt_scope_free(inner);
    }
}

/* Seconds of one run, or 0 with the failure told. */
static double seconds_of(const char *name, void (*work)(struct kt_scope *s))
{
    struct kt_scope *s = kt_scope_new(0);
    struct kiln_error err;
    double times[REPLAYS];
    repeat(s, work, 3);
    kt_wait(s);
    struct kt_graph *graph = kt_graph_begin(s);
    repeat(s, work, LAUNCHES);
    if (kt_graph_end(graph, s)) {
        for (int i = -2; i < REPLAYS; i++) {
            const double begin = kiln_monotonic_ms() / 1e3;
            kt_graph_replay(graph, s);
            kt_wait(s);
            times[i < 0 ? 0 : i] = (kiln_monotonic_ms() / 1e3 - begin) / LAUNCHES;
        }
        kt_graph_free(graph);
    }
    const int code = kt_scope_check(s, &err);
    kt_scope_free(s);
    if (code) {
        printf("FAIL %s: %s\n", name, err.text);
        failures++;
        return 0;
    }
    return test_median(times, REPLAYS);
}

/* One line: work in FLOP against TFLOP/s, or in bytes (ceiling 0) against the copy. */
static double report(const char *name, double work, double ceiling, void (*run)(struct kt_scope *s))
{
    char full[96];
    snprintf(full, sizeof full, "%s, %lld rows", name, (long long)rows);
    if (!strstr(full, filter))
        return 0;
    const double seconds = seconds_of(full, run);
    if (seconds > 0 && ceiling > 0)
        printf("%-40s %9.1f us %7.0f TFLOP/s %5.1f %% of %.0f\n", full, seconds * 1e6,
               work / seconds / 1e12, work / seconds / 1e10 / ceiling, ceiling);
    else if (seconds > 0 && work > 0)
        printf("%-40s %9.1f us %7.0f GB/s    %5.1f %% of %.0f\n", full, seconds * 1e6,
               work / seconds / 1e9, work / seconds / COPY_RATE * 100, COPY_RATE / 1e9);
    else if (seconds > 0)
        printf("%-40s %9.1f us\n", full, seconds * 1e6);
    fflush(stdout);
    return seconds;
}

/* --- the work --------------------------------------------------------------------------------- */

static int layer; /* of the product that is timed */

static kt input_of(bool e4m3)
{
    if (e4m3)
        return layer == DOWN ? o.hidden_codes : o.x_codes;
    return layer == DOWN ? o.hidden : o.x;
}

static void multiply(struct kt_scope *s)
{
    kt_linear(s, input_of(false), o.weights[layer], NULL);
}

static void multiply_e4m3(struct kt_scope *s)
{
    kt_linear(s, input_of(true), o.codes[layer], NULL);
}

static kt attend(struct kt_scope *s, kt packed, struct kt_form form)
{
    const struct kt_attention_args a = {.qkv = packed,
                                        .q_norm = kt_narrow(s, o.norm, 0, 0, HEAD_DIM),
                                        .k_norm = kt_narrow(s, o.norm, 0, 0, HEAD_DIM),
                                        .cos = o.cos,
                                        .sin = o.sin,
                                        .heads = HEADS,
                                        .kv_heads = HEADS,
                                        .head_dim = HEAD_DIM,
                                        .interleaved = true,
                                        .narrow = true,
                                        .form = form,
                                        .eps = 1e-5};
    return kt_attention(s, &a);
}

static void attention(struct kt_scope *s)
{
    attend(s, o.packed, KT_PLAIN);
}

static void attention_room(struct kt_scope *s)
{
    attend(s, o.packed, (struct kt_form){.room = ROOM});
}

static void attention_e4m3(struct kt_scope *s)
{
    attend(s, o.packed, KT_CODES);
}

static void rms_norm(struct kt_scope *s)
{
    kt_rms_norm(s, o.x, o.gain, 1e-5, KT_PLAIN);
}

static void rms_norm_e4m3(struct kt_scope *s)
{
    kt_rms_norm(s, o.x, o.gain, 1e-5, KT_CODES);
}

static void join(struct kt_scope *s, kt y, struct kt_form form, kt *x, kt *next)
{
    const struct kt_residual_norm a = {
        .x = *x, .y = y, .gain = o.gain, .next_gain = o.gain, .eps = 1e-5, .next_form = form};
    kt_add_rms_norm(s, &a, x, next);
}

static void add_rms_norm(struct kt_scope *s)
{
    kt x = o.residual, next;
    join(s, o.x, KT_PLAIN, &x, &next);
}

static void add_rms_norm_tails(struct kt_scope *s)
{
    kt x = o.stream, next;
    join(s, o.x, KT_PLAIN, &x, &next);
}

static void add_rms_norm_e4m3(struct kt_scope *s)
{
    kt x = o.residual, next;
    join(s, o.x, KT_CODES, &x, &next);
}

static void swiglu(struct kt_scope *s)
{
    kt_swiglu(s, o.gate_up, KT_PLAIN);
}

static void swiglu_e4m3(struct kt_scope *s)
{
    kt_swiglu(s, o.gate_up, KT_CODES);
}

static void multiply_then_gate(struct kt_scope *s)
{
    kt_swiglu(s, kt_linear(s, o.x, o.weights[GATE_UP], NULL), KT_PLAIN);
}

static void multiply_and_gate(struct kt_scope *s)
{
    kt_linear_swiglu(s, kt_keep(s, o.x), o.weights[GATE_UP], 1, KT_PLAIN);
}

static void quantise(struct kt_scope *s)
{
    kt_quantise_rows(s, o.x);
}

/* A joint block as the pipeline runs it, its first norm done by the block before. */
static void block(struct kt_scope *s, const kt weights[4], kt in, struct kt_form form)
{
    kt x = form.e4m3 ? o.residual : o.stream, h;
    kt packed = kt_linear(s, in, weights[QKV], NULL);
    join(s, kt_linear(s, attend(s, packed, form), weights[OUT], NULL), form, &x, &h);
    h = kt_linear_swiglu(s, h, weights[GATE_UP], 1, form);
    join(s, kt_linear(s, h, weights[DOWN], NULL), form, &x, &h);
}

static void block_bf16(struct kt_scope *s)
{
    block(s, o.weights, o.x, KT_PLAIN);
}

static void block_e4m3(struct kt_scope *s)
{
    block(s, o.codes, o.x_codes, KT_CODES);
}

/* --- the program ------------------------------------------------------------------------------ */

static void make_operands(struct kt_scope *s)
{
    o.x = operand(s, KT_BF16, 1, 1, rows, WIDTH);
    o.residual = operand(s, KT_BF16, 2, 1, rows, WIDTH);
    o.hidden = operand(s, KT_BF16, 3, 1, rows, FFN);
    o.packed = operand(s, KT_BF16, 4, 1, rows, 3 * WIDTH);
    o.gate_up = operand(s, KT_BF16, 5, 1, rows, 2 * FFN);
    o.norm = operand(s, KT_BF16, 6, 1, WIDTH, 0);
    o.gain = kt_to(s, o.norm, KT_F32);
    o.stream = kt_with_tails(s, o.residual);
    o.cos = angles(s, false, rows, HEAD_DIM / 2);
    o.sin = angles(s, true, rows, HEAD_DIM / 2);
    for (int i = 0; i < 4; i++) {
        o.weights[i] = operand(s, KT_BF16, 7, 0.015625, layers[i].n, layers[i].k);
        o.codes[i] = kt_quantise_rows(s, o.weights[i]);
    }
    o.x_codes = kt_quantise_rows(s, o.x);
    o.hidden_codes = kt_quantise_rows(s, o.hidden);
}

static void bench_rows(size_t size)
{
    struct kt_scope *s = kt_scope_new(0);
    const double values = (double)rows * WIDTH, wide = (double)rows * FFN;
    char name[64];
    make_operands(s);
    for (layer = 0; layer < 4; layer++) {
        const double flop = 2.0 * (double)(rows * layers[layer].k) * (double)layers[layer].n;
        report(layers[layer].name, flop, ceilings[size].bf16[layer], multiply);
        snprintf(name, sizeof name, "%s e4m3", layers[layer].name);
        report(name, flop, ceilings[size].e4m3[layer], multiply_e4m3);
    }
    const double attended = 4.0 * (double)rows * (double)rows * WIDTH;
    report("attention with qkv_rope", attended, ceilings[size].attention, attention);
    report("attention with qkv_rope, room", attended, ceilings[size].attention, attention_room);
    report("attention with qkv_e4m3", attended, ceilings[size].attention, attention_e4m3);
    report("rms_norm", values * 4, 0, rms_norm);
    report("rms_norm e4m3", values * 3, 0, rms_norm_e4m3);
    report("add_rms_norm + next", values * 8, 0, add_rms_norm);
    report("add_rms_norm + next, tails", values * 9, 0, add_rms_norm_tails);
    report("add_rms_norm + next e4m3", values * 7, 0, add_rms_norm_e4m3);
    report("swiglu", wide * 6, 0, swiglu);
    report("swiglu e4m3", wide * 5, 0, swiglu_e4m3);
    const double gated = 4.0 * values * FFN, ceiling = ceilings[size].bf16[GATE_UP];
    report("gate_up, then swiglu", gated, ceiling, multiply_then_gate);
    report("gate_up with swiglu", gated, ceiling, multiply_and_gate);
    report("quantise_rows", values * 3, 0, quantise);
    const double bf16 = report("block bf16", 0, 0, block_bf16);
    const double e4m3 = report("block e4m3", 0, 0, block_e4m3);
    if (bf16 > 0 && e4m3 > 0)
        printf("32 such blocks, %lld rows: %.1f ms in bf16, %.1f ms in e4m3\n", (long long)rows,
               bf16 * 32e3, e4m3 * 32e3);
    kt_scope_free(s);
    kt_device_trim(0);
}

int main(int argc, char **argv)
{
    struct kiln_error err;
    filter = argc > 1 ? argv[1] : "";
    need_gpu();
    if (kt_device_open(0, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t size = 0; size < sizeof ceilings / sizeof *ceilings; size++) {
        rows = ceilings[size].rows;
        bench_rows(size);
    }
    return failures > 0;
}
