/* bench_kernels.c - how fast the CUDA kernels are, against what a copy reaches on the same card.
 *
 *     bench_kernels [--tsv]
 *
 * For every kernel at the sizes of Z-Image-Turbo: microseconds, bytes that it must read and write
 * at least, GB/s, and that as a share of a device-to-device copy of 1 GiB measured just before.
 * A case is recorded 20 times into a CUDA graph, so that the time is the kernel's and not that of
 * launching it; the median of 9 replays counts.  Cases of fewer bytes than the L2 cache holds
 * (marked *) may find them there and come out above the copy.  --tsv: the same, by tabs, for a
 * table.
 *
 * Results are not looked at: test_kernels does that, and is to be run first.
 * Exit 0; 1 if something failed; 69 without a usable GPU.
 */
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/downscale.h"
#include "kernels/group_norm_silu.h"
#include "kernels/latent_mix.h"
#include "kernels/layer_norm.h"
#include "kernels/patches.h"
#include "kernels/qkv_e4m3.h"
#include "kernels/qkv_rope.h"
#include "kernels/quantise.h"
#include "kernels/rgb8.h"
#include "kernels/rms_norm.h"
#include "kernels/softmax.h"
#include "kernels/swiglu.h"
#include "tests/support/random.h"

#define LAUNCHES 20
#define REPLAYS 9
#define POOLS 8
#define POOL_BYTES ((size_t)1 << 30)

static char *pools[POOLS]; /* operands come from here: random bf16 of about unit size */
static cudaStream_t stream;
static cudaEvent_t begin, end;
static double copy_rate; /* bytes a second, read and written */
static size_t cache_bytes;
static bool tsv;

static void must(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorName(code), cudaGetErrorString(code));
    exit(1);
}

static void must_launch(int code, const struct kiln_error *err)
{
    if (code == KILN_OK)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

/* --- timing ----------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Seconds that one run of `queue` takes. */
static double seconds_of(void (*queue)(void))
{
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    float times[REPLAYS];
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < LAUNCHES; i++)
        queue();
    must(cudaStreamEndCapture(stream, &graph), "end of capture");
    must(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
    for (int i = -2; i < REPLAYS; i++) { /* two to warm up */
        must(cudaEventRecord(begin, stream), "event");
        must(cudaGraphLaunch(replay, stream), "replay");
        must(cudaEventRecord(end, stream), "event");
        must(cudaEventSynchronize(end), "the kernel");
        must(cudaEventElapsedTime(&times[i < 0 ? 0 : i], begin, end), "time");
    }
    must(cudaGraphExecDestroy(replay), "destroy");
    must(cudaGraphDestroy(graph), "destroy");
    qsort(times, REPLAYS, sizeof *times, by_size);
    return (double)times[REPLAYS / 2] / 1e3 / LAUNCHES;
}

static void report(const char *kernel, const char *shape, double bytes, void (*queue)(void))
{
    const double seconds = seconds_of(queue), rate = bytes / seconds;
    const char *cached = bytes < (double)cache_bytes ? "*" : "";
    printf(tsv ? "%s\t%s\t%.2f\t%.1f\t%.0f\t%.0f%s\n"
               : "%-34s %-30s %9.2f us %9.1f MB %7.0f GB/s %5.0f %%%s\n",
           kernel, shape, seconds * 1e6, bytes / 1e6, rate / 1e9, rate / copy_rate * 100, cached);
    fflush(stdout);
}

/* Bytes a second of a plain copy, read and written: asked for directly, since a graph hands copies
 * to an engine of two thirds of the speed. */
static double rate_of_copies(void)
{
    float ms = 0, best = 1e9f;
    for (int i = 0; i < REPLAYS; i++) {
        must(cudaEventRecord(begin, stream), "event");
        must(cudaMemcpyAsync(pools[1], pools[0], POOL_BYTES, cudaMemcpyDeviceToDevice, stream),
             "copy");
        must(cudaEventRecord(end, stream), "event");
        must(cudaEventSynchronize(end), "the copy");
        must(cudaEventElapsedTime(&ms, begin, end), "time");
        best = ms < best ? ms : best;
    }
    return 2.0 * (double)POOL_BYTES / (double)best * 1e3;
}

/* --- rows ------------------------------------------------------------------------------------- */

#define WIDTH 3840
#define FFN 10240
#define HEADS 30
#define HEAD_DIM 128

static struct kiln_error err;
static int64_t rows;
static struct kiln_rms_norm rms;
static struct kiln_swiglu gate;
static struct kiln_qkv_rope split;
static struct kiln_qkv_e4m3 eight_bits;
static struct kiln_layer_norm layer;
static struct kiln_quantise codes;

static void queue_rms(void)
{
    must_launch(kiln_rms_norm_launch(&rms, rows, stream, &err), &err);
}

static void queue_gate(void)
{
    must_launch(kiln_swiglu_launch(&gate, rows, stream, &err), &err);
}

static void queue_split(void)
{
    must_launch(kiln_qkv_rope_launch(&split, stream, &err), &err);
}

static void queue_eight_bits(void)
{
    must_launch(kiln_qkv_e4m3_launch(&eight_bits, stream, &err), &err);
}

static void queue_layer(void)
{
    must_launch(kiln_layer_norm_launch(&layer, rows, stream, &err), &err);
}

static void queue_codes(void)
{
    must_launch(kiln_quantise_launch(&codes, rows, stream, &err), &err);
}

/* pools[7] holds the weights: they are read by every row and stay in the caches. */
static void *weights_at(size_t slot)
{
    return pools[7] + slot * 65536;
}

static void bench_rms(const char *shape)
{
    const double values = (double)(rows * WIDTH), scales = (double)rows * 4;
    rms = (struct kiln_rms_norm){.x = pools[0],
                                 .weight = weights_at(0),
                                 .factor = weights_at(1),
                                 .y = pools[1],
                                 .n = WIDTH,
                                 .eps = 1e-5f,
                                 .format = KILN_BF16};
    report("rms_norm", shape, values * 4, queue_rms);
    rms.y = NULL, rms.quantised = (uint8_t *)pools[1], rms.row_scale = (float *)(void *)pools[2];
    report("rms_norm -> e4m3", shape, values * 3 + scales, queue_rms);
    rms.y = pools[1], rms.add = pools[2], rms.quantised = NULL;
    report("rms_norm + residual", shape, values * 6, queue_rms);
    rms.next_weight = weights_at(2), rms.next_factor = weights_at(3), rms.next = pools[3];
    report("rms_norm + residual + next", shape, values * 8, queue_rms);
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
                                   .q_scale = 1.0f,
                                   .format = KILN_BF16,
                                   .out_format = KILN_BF16};
    report("qkv_rope", shape, 3 * part * 4 + angles, queue_split);
    split.by_token = 1;
    report("qkv_rope by token", shape, 3 * part * 4 + angles, queue_split);
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
                                        .inverse = (float *)(void *)pools[3],
                                        .tops = (float *)(void *)pools[6],
                                        .rows = rows,
                                        .heads = HEADS,
                                        .kv_heads = HEADS,
                                        .head_dim = HEAD_DIM,
                                        .interleaved = 1,
                                        .eps = 1e-5f};
    report("qkv_e4m3 (v read twice)", shape, part * 11 + angles, queue_eight_bits);
}

static void bench_transformer(int64_t count)
{
    char shape[64];
    rows = count;
    snprintf(shape, sizeof shape, "%lld x %d", (long long)rows, WIDTH);
    bench_rms(shape);
    layer = (struct kiln_layer_norm){.x = pools[0],
                                     .scale = weights_at(0),
                                     .y = pools[1],
                                     .n = WIDTH,
                                     .eps = 1e-6f,
                                     .format = KILN_BF16};
    report("layer_norm", shape, (double)(rows * WIDTH) * 4, queue_layer);
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
}

/* --- pictures --------------------------------------------------------------------------------- */

static struct kiln_group_norm norm;
static int64_t strip_pixels; /* of the picture that norm is, one strip */
static struct kiln_softmax softmax;
static struct kiln_rgb8 rgb;
static struct kiln_downscale smaller;

static void queue_norm(void)
{
    must_launch(kiln_group_norm_launch(&norm, 1, pools[6], stream, &err), &err);
}

/* The sums of a strip lie behind what the launch works in. */
static double *strip_sums(void)
{
    return (double *)(void *)(pools[6] + POOL_BYTES / 2);
}

static void queue_norm_add(void)
{
    must_launch(
        kiln_group_norm_add_launch(&norm, strip_pixels, strip_sums(), pools[6], stream, &err),
        &err);
}

static void queue_norm_part(void)
{
    must_launch(
        kiln_group_norm_part_launch(&norm, strip_pixels, strip_sums(), pools[6], stream, &err),
        &err);
}

static void queue_softmax(void)
{
    must_launch(kiln_softmax_launch(&softmax, rows, stream, &err), &err);
}

static void queue_rgb(void)
{
    must_launch(kiln_rgb8_launch(&rgb, stream, &err), &err);
}

static void queue_smaller(void)
{
    must_launch(kiln_downscale_launch(&smaller, stream, &err), &err);
}

static struct kiln_group_norm norm_of_level(int side, int channels)
{
    return (struct kiln_group_norm){.x = pools[0],
                                    .weight = weights_at(0),
                                    .bias = weights_at(1),
                                    .y = pools[1],
                                    .pixels = (int64_t)side * side,
                                    .channels = channels,
                                    .groups = 32,
                                    .eps = 1e-6f,
                                    .silu = 1,
                                    .format = KILN_BF16};
}

/* A level of the decoder: 128 to 1024 for a picture of 1024 x 1024, 64 the first for 512 x 512. */
static void bench_level(int side, int channels)
{
    char shape[64];
    const double values = (double)side * side * channels;
    snprintf(shape, sizeof shape, "%d x %d x %d", side, side, channels);
    norm = norm_of_level(side, channels);
    report("group_norm_silu (2 reads, 1 write)", shape, values * 6, queue_norm);
    norm.y = pools[0];
    report("group_norm_silu in place", shape, values * 6, queue_norm);
}

/* 128 rows of a level that is decoded in strips. */
static void bench_strip(int side, int channels)
{
    char shape[64];
    strip_pixels = (int64_t)128 * side;
    const double values = (double)strip_pixels * channels;
    snprintf(shape, sizeof shape, "128 of %d x %d x %d", side, side, channels);
    norm = norm_of_level(side, channels);
    norm.origin = weights_at(2);
    report("group_norm_add (1 read)", shape, values * 2, queue_norm_add);
    must(cudaMemsetAsync(strip_sums(), 0, (size_t)channels * 2 * sizeof(double), stream), "zeros");
    report("group_norm_part (1 read, 1 write)", shape, values * 4, queue_norm_part);
}

/* Scores of the decoder's one wide head: as many rows as are in memory together. */
static void bench_softmax(int64_t tokens, int64_t block)
{
    char shape[64];
    rows = block;
    softmax = (struct kiln_softmax){.scores = (float *)(void *)pools[0],
                                    .y = pools[1],
                                    .n = tokens,
                                    .format = KILN_BF16,
                                    .scale = 0.04f};
    snprintf(shape, sizeof shape, "%lld x %lld", (long long)block, (long long)tokens);
    report("softmax", shape, (double)(block * tokens) * 6, queue_softmax);
}

static void bench_downscale(uint32_t to)
{
    char shape[64];
    smaller.out_width = smaller.out_height = to;
    snprintf(shape, sizeof shape, "1024 x 1024 -> %u x %u", to, to);
    report("downscale", shape, 1024.0 * 1024 * 3 + (double)to * to * 3, queue_smaller);
}

static void bench_pictures(void)
{
    bench_level(64, 512);
    bench_level(128, 512);
    bench_level(256, 512);
    bench_level(512, 256);
    bench_level(1024, 128);
    bench_strip(1024, 256);
    bench_strip(2048, 128);
    bench_softmax(4096, 4096);
    bench_softmax(9216, 4096);
    bench_softmax(16384, 4096);
    rgb = (struct kiln_rgb8){.x = pools[0],
                             .rgb = (uint8_t *)pools[1],
                             .pixels = 1024 * 1024,
                             .channels = 3,
                             .format = KILN_BF16};
    report("rgb8", "1024 x 1024 x 3", 1024.0 * 1024 * 9, queue_rgb);
    const uint16_t *light;
    const uint8_t *stored;
    kiln_downscale_tables(&light, &stored);
    must(cudaMemcpy(pools[6], light, 512, cudaMemcpyHostToDevice), "the table of light");
    must(cudaMemcpy(pools[6] + 512, stored, 65536, cudaMemcpyHostToDevice), "the table back");
    smaller = (struct kiln_downscale){.src = (uint8_t *)pools[0],
                                      .dst = (uint8_t *)pools[1],
                                      .items = 1,
                                      .width = 1024,
                                      .height = 1024,
                                      .light = (uint16_t *)(void *)pools[6],
                                      .stored = (uint8_t *)pools[6] + 512};
    bench_downscale(512);
    bench_downscale(256);
    bench_downscale(300);
}

/* --- latents ---------------------------------------------------------------------------------- */

static struct kiln_patchify patchify;
static struct kiln_patch_step step;
static struct kiln_latent_split take_apart;
static struct kiln_latent_mix mix;
static struct kiln_slerp slerp;

static void queue_patchify(void)
{
    must_launch(kiln_patchify_launch(&patchify, stream, &err), &err);
}

static void queue_step(void)
{
    must_launch(kiln_patch_step_launch(&step, stream, &err), &err);
}

static void queue_take_apart(void)
{
    must_launch(kiln_latent_split_launch(&take_apart, stream, &err), &err);
}

static void queue_mix(void)
{
    must_launch(kiln_latent_mix_launch(&mix, stream, &err), &err);
}

static void queue_slerp(void)
{
    must_launch(kiln_slerp_launch(&slerp, stream, &err), &err);
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
                                       .item_rows = (int64_t)side * side / 4,
                                       .format = KILN_BF16};
    patchify = (struct kiln_patchify){shape, floats[0], pools[1]};
    report("patchify", text, (double)n * 6, queue_patchify);
    step = (struct kiln_patch_step){.shape = shape,
                                    .with = pools[1],
                                    .stride = (float *)weights_at(4), /* zeros: the latent stays */
                                    .latent = floats[0],
                                    .bad = weights_at(5)};
    report("patch_step", text, (double)n * 10, queue_step);
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
}

/* --- the program ------------------------------------------------------------------------------ */

static void open_device(void)
{
    struct cudaDeviceProp device;
    int count = 0, runtime = 0, driver = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess || count == 0) {
        fprintf(stderr, "this needs a GPU: %s\n", cudaGetErrorString(code));
        exit(EX_UNAVAILABLE);
    }
    must(cudaGetDeviceProperties(&device, 0), "properties");
    must(cudaRuntimeGetVersion(&runtime), "version");
    must(cudaDriverGetVersion(&driver), "version");
    cache_bytes = (size_t)device.l2CacheSize;
    printf("%s, compute capability %d.%d, %d multiprocessors, %zu MB L2, CUDA %d, driver for %d\n",
           device.name, device.major, device.minor, device.multiProcessorCount, cache_bytes >> 20,
           runtime, driver);
    must(cudaStreamCreate(&stream), "stream");
    must(cudaEventCreate(&begin), "event");
    must(cudaEventCreate(&end), "event");
}

/* Random bf16 between 2^-7 and 2 of either sign, or floats of about that size. */
static void fill_pools(void)
{
    const size_t part = 16 << 20;
    uint16_t *host = malloc(part);
    struct test_random random = {1};
    if (!host)
        must(cudaErrorMemoryAllocation, "host memory");
    for (size_t i = 0; i < part / 2; i++) {
        const uint32_t r = test_random_below(&random, 1 << 16);
        host[i] = (uint16_t)((r & 0x807f) | (0x3c00 + (r & 0x380)));
    }
    for (int i = 0; i < POOLS; i++) {
        void *pool = NULL;
        must(cudaMalloc(&pool, POOL_BYTES), "cudaMalloc");
        pools[i] = pool;
        for (size_t at = 0; at < POOL_BYTES; at += part)
            must(cudaMemcpy(pools[i] + at, host, part, cudaMemcpyHostToDevice), "filling");
    }
    must(cudaMemset(weights_at(4), 0, 2 * 65536), "zeros");
    free(host);
}

int main(int argc, char **argv)
{
    tsv = argc > 1 && strcmp(argv[1], "--tsv") == 0;
    if (argc > 1 && !tsv) {
        fprintf(stderr, "usage: bench_kernels [--tsv]\n");
        return EX_USAGE;
    }
    open_device();
    fill_pools();
    copy_rate = rate_of_copies();
    printf(tsv ? "copy\t1 GiB\t\t\t%.0f\t100\n" : "copy of 1 GiB: %.0f GB/s\n", copy_rate / 1e9);
    bench_transformer(1152);
    bench_transformer(4224);
    bench_transformer(16896);
    bench_pictures();
    bench_latents(1, 128);
    bench_latents(32, 128);
    return 0;
}
