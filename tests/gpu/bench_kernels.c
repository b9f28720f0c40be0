/* bench_kernels.c - how fast the CUDA kernels are, against what a copy reaches on the same card.
 *
 *     bench_kernels [--tsv]
 *
 * For every kernel at the sizes of Z-Image-Turbo: microseconds, bytes that it must read and write
 * at least, GB/s, and that as a share of a device-to-device copy of 1 GiB measured just before; and
 * then the microseconds of a copy that reads and writes as many bytes, and how much of the kernel's
 * they are: of a few microseconds two or three are those of any launch.  (Copies are queued one by
 * one, since a graph hands them to a slower engine; small ones take longer for it.)
 * A case is recorded 20 times into a CUDA graph, so that the time is the kernel's and not that of
 * launching it; the median of 9 replays counts.  Cases of fewer bytes than the L2 cache holds
 * (marked *) may find them there and come out above the large copy.  A kernel that is bound by its
 * products has TFLOP/s instead.  --tsv: the same, by tabs, for a table.
 *
 * Results are not looked at: test_kernels does that, and is to be run first.
 * Exit 0; 1 if something failed; 69 without a usable GPU.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/attention/qkv_e4m3.h"
#include "kernels/attention/qkv_rope.h"
#include "kernels/pictures/latent_enlarge.h"
#include "kernels/pictures/latent_mix.h"
#include "kernels/pictures/patches.h"
#include "kernels/products/gated_product.h"
#include "kernels/products/low_rank_codes.h"
#include "kernels/products/low_rank_down.h"
#include "kernels/rows/layer_norm.h"
#include "kernels/rows/quantise.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/swiglu.h"
#include "tests/gpu/speed_rig.h"

/* --- rows ------------------------------------------------------------------------------------- */

#define WIDTH 3840
#define FFN 10240
#define HEADS 30
#define HEAD_DIM 128

static int64_t rows;
static struct kiln_rms_norm rms;
static struct kiln_swiglu gate;
static struct kiln_qkv_rope split;
static struct kiln_qkv_e4m3 eight_bits;
static struct kiln_layer_norm layer;
static struct kiln_quantise codes;
static struct kiln_low_rank_down low_rank_down;
static struct kiln_low_rank_codes low_rank_codes;
static struct kiln_gated_product gated;

static void queue_rms(void)
{
    must_launch(kiln_rms_norm_launch(&rms, rows, stream, &err));
}

static void queue_gate(void)
{
    must_launch(kiln_swiglu_launch(&gate, rows, stream, &err));
}

static void queue_split(void)
{
    must_launch(kiln_qkv_rope_launch(&split, stream, &err));
}

static void queue_eight_bits(void)
{
    must_launch(kiln_qkv_e4m3_launch(&eight_bits, stream, &err));
}

static void queue_layer(void)
{
    must_launch(kiln_layer_norm_launch(&layer, rows, stream, &err));
}

static void queue_codes(void)
{
    must_launch(kiln_quantise_launch(&codes, rows, stream, &err));
}

static void queue_low_rank_down(void)
{
    must_launch(kiln_low_rank_down_launch(&low_rank_down, rows, stream, &err));
}

static void queue_low_rank_codes(void)
{
    must_launch(kiln_low_rank_codes_launch(&low_rank_codes, stream, &err));
}

static void queue_gated(void)
{
    must_launch(kiln_gated_product_launch(&gated, rows, stream, &err));
}

static void bench_rms(const char *shape)
{
    const double values = (double)(rows * WIDTH), scales = (double)rows * 4;
    rms = (struct kiln_rms_norm){.x = pools[0],
                                 .gain = weights_at(0),
                                 .y = pools[1],
                                 .n = WIDTH,
                                 .eps = 1e-5f,
                                 .format = KILN_BF16};
    report("rms_norm", shape, values * 4, queue_rms);
    rms.tails = true;
    report("rms_norm of rows with tails", shape, values * 4.5, queue_rms);
    rms.tails = false;
    rms.y = NULL, rms.quantised = (uint8_t *)pools[1], rms.row_scale = (float *)(void *)pools[2];
    report("rms_norm -> e4m3", shape, values * 3 + scales, queue_rms);
    rms.y = pools[1], rms.add = pools[2], rms.quantised = NULL;
    report("rms_norm + residual", shape, values * 6, queue_rms);
    rms.tails = true;
    report("rms_norm + residual with tails", shape, values * 7, queue_rms);
    rms.tails = false;
    rms.next_gain = weights_at(2), rms.next = pools[3];
    report("rms_norm + residual + next", shape, values * 8, queue_rms);
    rms.tails = true;
    report("rms_norm + residual with tails + next", shape, values * 9, queue_rms);
    rms.tails = false;
    rms.next = NULL, rms.quantised = (uint8_t *)pools[3], rms.row_scale = (float *)(void *)pools[4];
    report("rms_norm + residual + next -> e4m3", shape, values * 7 + scales, queue_rms);
}

/* Packed rows of q, k and v, each a part. */
static void bench_heads(void)
{
    char shape[64];
    const double part = (double)(rows * HEADS * HEAD_DIM), angles = (double)(rows * HEAD_DIM) * 4;
    snprintf(shape, sizeof shape, "%lld x 3 x %d x %d", (long long)rows, HEADS, HEAD_DIM);
    split = (struct kiln_qkv_rope){.qkv = pools[0],
                                   .q_norm = weights_at(0),
                                   .k_norm = weights_at(1),
                                   .cos = (float *)(void *)pools[4],
                                   .sin = (float *)(void *)pools[5],
                                   .q = pools[1],
                                   .k = pools[2],
                                   .v = pools[3],
                                   .rows = rows,
                                   .heads = HEADS,
                                   .kv_heads = HEADS,
                                   .head_dim = HEAD_DIM,
                                   .interleaved = 1,
                                   .eps = 1e-5f,
                                   .format = KILN_BF16};
    report("qkv_rope", shape, 3 * part * 4 + angles, queue_split);
    split.q = pools[0], split.k = pools[0] + HEADS * HEAD_DIM * 2;
    split.v = NULL, split.in_place = 1;
    report("qkv_rope in place", shape, 2 * part * 4 + angles, queue_split);
    eight_bits = (struct kiln_qkv_e4m3){.qkv = pools[0],
                                        .q_norm = split.q_norm,
                                        .k_norm = split.k_norm,
                                        .cos = split.cos,
                                        .sin = split.sin,
                                        .codes = (uint8_t *)pools[1],
                                        .scale = (float *)(void *)pools[2],
                                        .to_codes = (float *)(void *)pools[3],
                                        .tops = (float *)(void *)pools[6],
                                        .rows = rows,
                                        .heads = HEADS,
                                        .kv_heads = HEADS,
                                        .head_dim = HEAD_DIM,
                                        .interleaved = 1,
                                        .eps = 1e-5f};
    report("qkv_e4m3 (v read twice)", shape, part * 11 + angles, queue_eight_bits);
}

/* Some cards have it.  Of q, k and v at once, and behind the gate; lora behind the rows. */
static void bench_low_rank_down(void)
{
    static const int64_t sizes[][2] = {{WIDTH, 48}, {FFN, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int e4m3 = 0; e4m3 < 2; e4m3++) {
            char shape[64];
            const int64_t k = sizes[i][0], rank = sizes[i][1], bytes = e4m3 ? 1 : 2;
            snprintf(shape, sizeof shape, "%lld x %lld to %lld", (long long)rows, (long long)k,
                     (long long)rank);
            low_rank_down = (struct kiln_low_rank_down){.x = pools[0],
                                                        .down = pools[1],
                                                        .factor = weights_at(0),
                                                        .lora = pools[0] + k * bytes,
                                                        .x_pitch = k + rank,
                                                        .lora_pitch = k + rank,
                                                        .k = k,
                                                        .rank = rank,
                                                        .format = KILN_BF16,
                                                        .e4m3 = e4m3};
            if (kiln_low_rank_down_launch(&low_rank_down, rows, stream, &err) == KILN_UNSUPPORTED)
                printf("skip: %s\n", err.text);
            else
                report(e4m3 ? "low_rank_down, e4m3" : "low_rank_down", shape,
                       (double)(rows * (k + rank) * bytes), queue_low_rank_down);
        }
}

/* A LoRA's pair for gate and up, beside a weight of 3840 columns. */
static void bench_low_rank_codes(void)
{
    enum { N = 2 * FFN, RANK = 32 };
    char shape[64];
    snprintf(shape, sizeof shape, "%d x %d and %d x %d", N, RANK, RANK, WIDTH);
    must(cudaMemset(pools[2], 0x3c, N * sizeof(float)), "factors"); /* 0.0115 each */
    low_rank_codes = (struct kiln_low_rank_codes){.up = pools[0],
                                                  .down = pools[1],
                                                  .factor = (float *)(void *)pools[2],
                                                  .up_codes = (uint8_t *)pools[3] + WIDTH,
                                                  .down_codes = (uint8_t *)pools[4],
                                                  .down_scale = (float *)(void *)pools[5],
                                                  .pitch = WIDTH + 128,
                                                  .n = N,
                                                  .k = WIDTH,
                                                  .rank = RANK,
                                                  .format = KILN_BF16};
    report("low_rank_codes", shape, (double)((N + WIDTH) * RANK * 3 + N * 4), queue_low_rank_codes);
}

static void bench_gated_form(const char *name)
{
    char shape[64];
    snprintf(shape, sizeof shape, "%lld x %d to 2 x %d", (long long)rows, WIDTH, FFN);
    if (kiln_gated_product_launch(&gated, rows, stream, &err) == KILN_UNSUPPORTED)
        printf("skip: %s\n", err.text);
    else
        report_products(name, shape, 4.0 * (double)(rows * WIDTH) * FFN, queue_gated);
}

/* Some cards have it; bench_ops has the product and the pass that it stands for beside it. */
static void bench_gated(void)
{
    gated = (struct kiln_gated_product){.x = pools[0],
                                        .weight = pools[1],
                                        .y = pools[2],
                                        .x_pitch = WIDTH,
                                        .weight_pitch = WIDTH,
                                        .pitch = FFN,
                                        .n = FFN,
                                        .k = WIDTH,
                                        .format = KILN_BF16,
                                        .down = pools[3],
                                        .lora = pools[4],
                                        .lora_pitch = KILN_GATED_RANK,
                                        .parts = (float *)(void *)pools[5]};
    bench_gated_form("gated_product");
    gated.rank = KILN_GATED_RANK;
    bench_gated_form("gated_product with lora");
}

static void bench_transformer(int64_t count)
{
    char shape[64];
    rows = count;
    snprintf(shape, sizeof shape, "%lld x %d", (long long)rows, WIDTH);
    fill_pools();
    bench_rms(shape);
    layer = (struct kiln_layer_norm){.x = pools[0],
                                     .scale = weights_at(0),
                                     .y = pools[1],
                                     .n = WIDTH,
                                     .eps = 1e-6f,
                                     .format = KILN_BF16};
    report("layer_norm", shape, (double)(rows * WIDTH) * 4, queue_layer);
    layer.tails = true;
    report("layer_norm of rows with tails", shape, (double)(rows * WIDTH) * 4.5, queue_layer);
    codes = (struct kiln_quantise){.x = pools[0],
                                   .quantised = (uint8_t *)pools[1],
                                   .row_scale = (float *)(void *)pools[2],
                                   .n = WIDTH,
                                   .format = KILN_BF16};
    report("quantise", shape, (double)(rows * WIDTH) * 3 + (double)rows * 4, queue_codes);
    bench_heads();
    gate = (struct kiln_swiglu){.gate_up = pools[0], .y = pools[1], .n = FFN, .format = KILN_BF16};
    snprintf(shape, sizeof shape, "%lld x 2 x %d", (long long)rows, FFN);
    report("swiglu", shape, (double)(rows * FFN) * 6, queue_gate);
    gate.y = NULL, gate.quantised = (uint8_t *)pools[1], gate.row_scale = (float *)(void *)pools[2];
    report("swiglu -> e4m3", shape, (double)(rows * FFN) * 5 + (double)rows * 4, queue_gate);
    fill_pools();
    bench_low_rank_down();
    fill_pools();
    bench_gated();
}

/* --- latents ---------------------------------------------------------------------------------- */

static struct kiln_patchify patchify;
static struct kiln_euler_step step;
static struct kiln_latent_split take_apart;
static struct kiln_latent_mix mix;
static struct kiln_slerp slerp;
static struct kiln_latent_enlarge enlarge;

static void queue_patchify(void)
{
    must_launch(kiln_patchify_launch(&patchify, stream, &err));
}

static void queue_step(void)
{
    must_launch(kiln_euler_step_launch(&step, stream, &err));
}

static void queue_take_apart(void)
{
    must_launch(kiln_latent_split_launch(&take_apart, stream, &err));
}

static void queue_mix(void)
{
    must_launch(kiln_latent_mix_launch(&mix, stream, &err));
}

static void queue_slerp(void)
{
    must_launch(kiln_slerp_launch(&slerp, stream, &err));
}

static void queue_enlarge(void)
{
    must_launch(kiln_latent_enlarge_launch(&enlarge, stream, &err));
}

static void bench_latents(int64_t items, int side)
{
    char text[64];
    const int64_t n = items * 16 * side * side;
    float *floats[6];
    for (int i = 0; i < 6; i++)
        floats[i] = (float *)(void *)pools[i];
    snprintf(text, sizeof text, "%lld x 16 x %d x %d", (long long)items, side, side);
    const struct kiln_patches shape = {.items = items,
                                       .channels = 16,
                                       .height = side,
                                       .width = side,
                                       .patch = 2,
                                       .format = KILN_BF16};
    patchify = (struct kiln_patchify){shape, floats[0], pools[1]};
    report("patchify", text, (double)n * 6, queue_patchify);
    step = (struct kiln_euler_step){.shape = shape,
                                    .with = pools[1],
                                    .stride = (float *)weights_at(4), /* zeros: the latent stays */
                                    .latent = floats[0],
                                    .bad = weights_at(5)};
    report("euler_step", text, (double)n * 10, queue_step);
    take_apart = (struct kiln_latent_split){.x = floats[0],
                                            .velocity = floats[1],
                                            .clean = floats[2],
                                            .noise = floats[3],
                                            .n = n,
                                            .sigma = 0.8f};
    report("latent_split", text, (double)n * 16, queue_take_apart);
    mix = (struct kiln_latent_mix){.clean = {floats[0], floats[1]},
                                   .noise = {floats[2]},
                                   .clean_weight = {0.5f, 0.5f},
                                   .noise_weight = {1},
                                   .clean_count = 2,
                                   .noise_count = 1,
                                   .x = floats[3],
                                   .n = n,
                                   .sigma = 0.8f};
    report("latent_mix (2 clean, 1 noise)", text, (double)n * 16, queue_mix);
    slerp = (struct kiln_slerp){.a = floats[0],
                                .b = floats[1],
                                .x = floats[2],
                                .n = n,
                                .t = 0.5f,
                                .workspace = (double *)(void *)pools[6]};
    report("slerp (2 x 2 reads, 1 write)", text, (double)n * 20, queue_slerp);
    if (items > 1)
        return; /* a launch is one item's */
    enlarge = (struct kiln_latent_enlarge){.clean = floats[0],
                                           .noise = floats[1],
                                           .x = floats[2],
                                           .channels = 16,
                                           .height = side / 2,
                                           .width = side / 2,
                                           .out_height = side,
                                           .out_width = side,
                                           .sigma = 0.75f};
    report("latent_enlarge (from half the side)", text, (double)n * 9, queue_enlarge);
}

/* --- the program ------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    const bool tsv = argc > 1 && strcmp(argv[1], "--tsv") == 0;
    if (argc > 1 && !tsv) {
        fprintf(stderr, "usage: bench_kernels [--tsv]\n");
        return EX_USAGE;
    }
    speed_begin(tsv);
    bench_transformer(1152);
    bench_transformer(4224);
    bench_transformer(16896);
    fill_pools();
    bench_low_rank_codes();
    fill_pools();
    bench_pictures();
    fill_pools();
    bench_latents(1, 128);
    bench_latents(32, 128);
    return 0;
}
