/* speed_pictures.c - see speed_rig.h: norms, softmax, bytes and smaller sizes of a picture. */
#include <stdint.h>
#include <stdio.h>

#include "kernels/attention/softmax.h"
#include "kernels/pictures/downscale.h"
#include "kernels/pictures/group_norm_silu.h"
#include "kernels/pictures/rgb8.h"
#include "tests/gpu/speed_rig.h"

static struct kiln_group_norm norm;
static int64_t strip_pixels; /* of the picture that norm is, one strip */
static struct kiln_softmax softmax;
static int64_t score_rows;
static struct kiln_rgb8 rgb;
static struct kiln_downscale smaller;

static void queue_norm(void)
{
    must_launch(kiln_group_norm_launch(&norm, 1, pools[6], stream, &err));
}

/* The sums of a strip lie behind what the launch works in. */
static double *strip_sums(void)
{
    return (double *)(void *)(pools[6] + POOL_BYTES / 2);
}

static void queue_norm_add(void)
{
    must_launch(
        kiln_group_norm_add_launch(&norm, strip_pixels, strip_sums(), pools[6], stream, &err));
}

static void queue_norm_part(void)
{
    must_launch(
        kiln_group_norm_part_launch(&norm, strip_pixels, strip_sums(), pools[6], stream, &err));
}

static void queue_softmax(void)
{
    must_launch(kiln_softmax_launch(&softmax, score_rows, stream, &err));
}

static void queue_rgb(void)
{
    must_launch(kiln_rgb8_launch(&rgb, stream, &err));
}

static void queue_smaller(void)
{
    must_launch(kiln_downscale_launch(&smaller, stream, &err));
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
    score_rows = block;
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

void bench_pictures(void)
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
                             .bad = (uint32_t *)pools[6],
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
                                      .width = 1024,
                                      .height = 1024,
                                      .light = (uint16_t *)(void *)pools[6],
                                      .stored = (uint8_t *)pools[6] + 512};
    bench_downscale(512);
    bench_downscale(256);
    bench_downscale(300);
}
