/* group_norm.cuh - what the kernels of GroupNorm share: where things lie in the workspace, how the
 * sums of a group become a gain and an offset for each channel, and what is done with them.
 *
 * The sums of a channel are taken about its origin, x's first pixel as a rule.  A small map is
 * summed in slices of its channels (group_norm_slices.cu), any other by turns over its pixels
 * (group_norm_silu.cu): the shape says which, so that every device adds in the same order.
 */
#ifndef KILN_GROUP_NORM_CUH
#define KILN_GROUP_NORM_CUH

#include "kernels/device.cuh"
#include "kernels/pictures/group_norm_silu.h"

namespace kiln
{

/* Where things are in the workspace, for `items` pictures of `channels`. */
struct norm_plan {
    double *sums;   /* [items][2][channels] */
    float *gains;   /* [items][2][channels] */
    float *partial; /* [items][parts][2][channels] */
    int64_t parts;
    int64_t pixels;             /* of a picture, or of the part of it that is here */
    int onto;                   /* whether sums has those of earlier parts already */
    double of_pixels, of_width; /* 1 / what a mean divides by: fp64 divisions are slow */
};

__device__ __forceinline__ double bf16_at(const void *p, int64_t i)
{
    return low_bf16(static_cast<const uint16_t *>(p)[i]);
}

__device__ __forceinline__ const void *origin_of(const struct kiln_group_norm &a, int64_t item_at)
{
    return a.origin ? a.origin : static_cast<const uint16_t *>(a.x) + item_at;
}

__device__ __forceinline__ double x_bias_at(const struct kiln_group_norm &a, int64_t i)
{
    return a.x_bias ? bf16_at(a.x_bias, i) : 0;
}

/* Asks for the line of value i, so that a later load of it need not wait for memory. */
__device__ __forceinline__ void prefetch(const void *p, int64_t i)
{
#ifdef __CUDACC__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const uint16_t *>(p) + i));
#else
    (void)p, (void)i;
#endif
}

/* --- sums ------------------------------------------------------------------------------------- */

/* The values of a chunk onto the sums of their channels, about `first`. */
template <int W>
__device__ __forceinline__ void add_chunk(const chunk<W> &in, const float first[W], float sum[W],
                                          float square[W])
{
    float v[W];
    unpack<W>(in, v);
#pragma unroll
    for (int i = 0; i < W; i++) {
        v[i] -= first[i];
        sum[i] += v[i];
        square[i] += v[i] * v[i];
    }
}

/* --- gains: the arithmetic of gains() in group_norm_silu_ref.c --------------------------------
 *
 * A channel's origin is lifted here, so that moments and mean are those of the lifted picture. */

/* What a channel adds to its group's mean; the sum of these is times of_width. */
__device__ __forceinline__ double mean_term(double origin, double sum, const norm_plan &p)
{
    return origin + sum * p.of_pixels;
}

/* And to its second moment: moments about the origin become moments about the group's mean. */
__device__ __forceinline__ double second_term(double origin, double mean, double sum, double square,
                                              const norm_plan &p)
{
    const double shift = origin - mean;
    return square * p.of_pixels + 2 * shift * sum * p.of_pixels + shift * shift;
}

/* y = x * gain + offset; x is not lifted, so the mean that line_of takes is less by the x_bias. */
struct norm_line {
    float gain, offset;
};

__device__ __forceinline__ double inverse_of(double second, float eps)
{
    return 1.0 / sqrt((second > 0 ? second : 0) + static_cast<double>(eps));
}

__device__ __forceinline__ norm_line line_of(double mean, double inverse, double weight,
                                             double bias)
{
    const double factor = inverse * weight;
    return {static_cast<float>(factor), static_cast<float>(bias - mean * factor)};
}

/* --- apply ------------------------------------------------------------------------------------ */

template <int W>
__device__ __forceinline__ chunk<W> normed(const chunk<W> &in, const float gain[W],
                                           const float offset[W], int with_silu)
{
    float v[W];
    unpack<W>(in, v);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] = v[i] * gain[i] + offset[i];
    if (with_silu) {
        round_all<W>(v);
#pragma unroll
        for (int i = 0; i < W; i++)
            v[i] = silu(v[i]);
    }
    return pack<W>(v);
}

/* --- small maps, in group_norm_slices.cu ------------------------------------------------------ */

constexpr int norm_slice_parts = 6; /* that the pixels of a slice are shared out to */

/* Whether a map, whose operands are on 16 bytes, is one. */
bool norm_takes_slices(const struct kiln_group_norm *a);
/* Sums up the slices of each picture into p.partial, or, where the device has clusters of blocks
 * that hold a slice, does the whole norm: *ret_done. */
int norm_slices(const struct kiln_group_norm *a, int64_t items, const norm_plan &p,
                kiln_stream stream, bool *ret_done, struct kiln_error *err) KILN_MUST_CHECK;

} // namespace kiln

#endif
