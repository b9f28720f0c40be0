/* group_norm_silu_ref.c - see group_norm_silu.h. */
#include "kernels/pictures/group_norm_silu.h"

#include <math.h>

#define BLOCK 64 /* pixels that are summed in fp32 before they go into fp64 */

static const void *origin_of(const struct kiln_group_norm *a)
{
    return a->origin ? a->origin : a->x;
}

KILN_INLINE void sum_block(const struct kiln_group_norm *a, int64_t begin, int64_t end,
                           const float *first, float *sum, float *square, enum kiln_float f)
{
    const int c = a->channels;
    memset(sum, 0, (size_t)c * sizeof *sum);
    memset(square, 0, (size_t)c * sizeof *square);
    for (int64_t p = begin; p < end; p++)
#pragma omp simd
        for (int i = 0; i < c; i++) {
            float v = kiln_load(a->x, p * c + i, f) - first[i];
            sum[i] += v;
            square[i] += v * v;
        }
}

KILN_INLINE void sum_pixels(const struct kiln_group_norm *a, int64_t begin, int64_t end,
                            double *sums, enum kiln_float f)
{
    const int c = a->channels;
    float first[KILN_NORM_CHANNELS_MAX], sum[KILN_NORM_CHANNELS_MAX];
    float square[KILN_NORM_CHANNELS_MAX];
    for (int i = 0; i < c; i++)
        first[i] = kiln_load(origin_of(a), i, f);
    for (int64_t p = begin; p < end; p += BLOCK) {
        sum_block(a, p, p + BLOCK < end ? p + BLOCK : end, first, sum, square, f);
        for (int i = 0; i < c; i++) {
            sums[i] += (double)sum[i];
            sums[c + i] += (double)square[i];
        }
    }
}

static double x_bias_at(const struct kiln_group_norm *a, int i)
{
    return a->x_bias ? (double)kiln_load(a->x_bias, i, a->format) : 0;
}

/* From the sums to y = x * gain + offset by channel. */
static void gains(const struct kiln_group_norm *a, const double *sums, float *gain, float *offset)
{
    const int c = a->channels, width = c / a->groups;
    const double pixels = (double)a->pixels;
    const void *origin = origin_of(a);
    for (int g = 0; g < a->groups; g++) {
        double mean = 0, second = 0;
        for (int i = g * width; i < (g + 1) * width; i++)
            mean += ((double)kiln_load(origin, i, a->format) + x_bias_at(a, i) + sums[i] / pixels) /
                    width;
        for (int i = g * width; i < (g + 1) * width; i++) {
            /* Moments about the origin become moments about the group's mean. */
            double shift = (double)kiln_load(origin, i, a->format) + x_bias_at(a, i) - mean;
            second += (sums[c + i] / pixels + 2 * shift * sums[i] / pixels + shift * shift) / width;
        }
        double inverse = 1.0 / sqrt((second > 0 ? second : 0) + (double)a->eps);
        for (int i = g * width; i < (g + 1) * width; i++) {
            double factor = inverse * (double)kiln_load(a->weight, i, a->format);
            gain[i] = (float)factor;
            offset[i] = (float)((double)kiln_load(a->bias, i, a->format) -
                                (mean - x_bias_at(a, i)) * factor);
        }
    }
}

KILN_INLINE void apply_pixels(const struct kiln_group_norm *a, const float *gain,
                              const float *offset, int64_t begin, int64_t end, int silu,
                              enum kiln_float f)
{
    const int c = a->channels;
    for (int64_t p = begin; p < end; p++)
#pragma omp simd
        for (int i = 0; i < c; i++) {
            float v = kiln_load(a->x, p * c + i, f) * gain[i] + offset[i];
            v = silu ? kiln_silu(kiln_rounded(v, f)) : v;
            kiln_store(a->y, p * c + i, v, f);
        }
}

KILN_CLONES static void sum_pixels_f32(const struct kiln_group_norm *a, int64_t begin, int64_t end,
                                       double *sums)
{
    sum_pixels(a, begin, end, sums, KILN_F32);
}

KILN_CLONES static void sum_pixels_bf16(const struct kiln_group_norm *a, int64_t begin, int64_t end,
                                        double *sums)
{
    sum_pixels(a, begin, end, sums, KILN_BF16);
}

KILN_CLONES static void apply_f32(const struct kiln_group_norm *a, const float *gain,
                                  const float *offset, int64_t begin, int64_t end)
{
    if (a->silu)
        apply_pixels(a, gain, offset, begin, end, 1, KILN_F32);
    else
        apply_pixels(a, gain, offset, begin, end, 0, KILN_F32);
}

KILN_CLONES static void apply_bf16(const struct kiln_group_norm *a, const float *gain,
                                   const float *offset, int64_t begin, int64_t end)
{
    if (a->silu)
        apply_pixels(a, gain, offset, begin, end, 1, KILN_BF16);
    else
        apply_pixels(a, gain, offset, begin, end, 0, KILN_BF16);
}

void kiln_group_norm_sums_ref(const struct kiln_group_norm *args, int64_t begin, int64_t end,
                              double *sums)
{
    (args->format == KILN_BF16 ? sum_pixels_bf16 : sum_pixels_f32)(args, begin, end, sums);
}

void kiln_group_norm_apply_ref(const struct kiln_group_norm *args, const double *sums,
                               int64_t begin, int64_t end)
{
    float gain[KILN_NORM_CHANNELS_MAX], offset[KILN_NORM_CHANNELS_MAX];
    gains(args, sums, gain, offset);
    (args->format == KILN_BF16 ? apply_bf16 : apply_f32)(args, gain, offset, begin, end);
}
