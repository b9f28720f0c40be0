/* downscale.cu - see downscale.h; whole numbers as in downscale_ref.c, a thread an output pixel.
 *
 * The exact half, where all weights are equal and cancel, does without 64-bit products and
 * divisions.  The table of light lies in shared memory, the larger one back in the cache.
 */
#include "kernels/pictures/downscale.h"

#include "kernels/device.cuh"

using namespace kiln;

constexpr int threads = 256;
constexpr int channels = 3;

struct span {
    uint32_t first, last, head, tail;
};

/* The source pixels under output pixel o of out, over `in` of them; see downscale_ref.c. */
static __device__ __forceinline__ span span_at(uint32_t o, uint32_t in, uint32_t out)
{
    const uint64_t start = static_cast<uint64_t>(o) * in, end = start + in;
    span s;
    s.first = static_cast<uint32_t>(start / out);
    s.last = static_cast<uint32_t>((end - 1) / out);
    s.head = out - static_cast<uint32_t>(start % out);
    s.tail = static_cast<uint32_t>(end - static_cast<uint64_t>(s.last) * out);
    return s;
}

/* What pixel i of the span weighs. */
static __device__ __forceinline__ uint32_t weight_at(const span &s, uint32_t i, uint32_t whole)
{
    return i == s.first ? s.head : i == s.last ? s.tail : whole;
}

static __device__ __forceinline__ void halve_pixel(const struct kiln_downscale &a,
                                                   const uint16_t *light, uint32_t x, uint32_t y,
                                                   uint8_t *dst)
{
    const uint64_t stride = static_cast<uint64_t>(a.width) * channels;
    const uint8_t *top = a.src + 2 * y * stride + 2 * x * channels, *low = top + stride;
#pragma unroll
    for (int c = 0; c < channels; c++) {
        const uint32_t sum = static_cast<uint32_t>(light[top[c]]) + light[top[c + channels]] +
                             light[low[c]] + light[low[c + channels]];
        dst[c] = a.stored[(sum + 2) >> 2];
    }
}

static __device__ __forceinline__ void shrink_pixel(const struct kiln_downscale &a,
                                                    const uint16_t *light, uint32_t x, uint32_t y,
                                                    uint8_t *dst)
{
    const span down = span_at(y, a.height, a.out_height), across = span_at(x, a.width, a.out_width);
    const uint64_t total = static_cast<uint64_t>(a.width) * a.height;
    uint64_t sum[channels] = {0, 0, 0};
    for (uint32_t j = down.first; j <= down.last; j++) {
        const uint8_t *row = a.src + static_cast<uint64_t>(j) * a.width * channels;
        uint64_t line[channels] = {0, 0, 0};
        for (uint32_t i = across.first; i <= across.last; i++) {
            const uint64_t weight = weight_at(across, i, a.out_width);
#pragma unroll
            for (int c = 0; c < channels; c++)
                line[c] += weight * light[row[static_cast<uint64_t>(i) * channels + c]];
        }
        const uint64_t weight = weight_at(down, j, a.out_height);
#pragma unroll
        for (int c = 0; c < channels; c++)
            sum[c] += line[c] * weight;
    }
#pragma unroll
    for (int c = 0; c < channels; c++)
        dst[c] = a.stored[(sum[c] + total / 2) / total];
}

template <bool HALF>
static __global__ void __launch_bounds__(threads)
    downscale(const struct kiln_downscale a, int64_t pixels)
{
    __shared__ uint16_t light[256];
    light[threadIdx.x] = a.light[threadIdx.x]; /* as many threads as entries */
    __syncthreads();
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < pixels;
         i += static_cast<int64_t>(gridDim.x) * threads) {
        const uint32_t x = static_cast<uint32_t>(i % a.out_width);
        const uint32_t y = static_cast<uint32_t>(i / a.out_width);
        if constexpr (HALF)
            halve_pixel(a, light, x, y, a.dst + i * channels);
        else
            shrink_pixel(a, light, x, y, a.dst + i * channels);
    }
}

extern "C" int kiln_downscale_launch(const struct kiln_downscale *args, kiln_stream stream,
                                     struct kiln_error *err)
{
    const char *name = "downscale";
    if (args->out_width < 1 || args->out_height < 1 || args->out_width > args->width ||
        args->out_height > args->height)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: a picture of %u x %u to %u x %u", name,
                         args->width, args->height, args->out_width, args->out_height);
    /* The sums' bound, as in the reference. */
    if (args->width > 65535 || args->height > 65535)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: a picture of %u x %u; sides of 65535 at most",
                         name, args->width, args->height);
    if (!args->src || !args->dst || !args->light || !args->stored)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const int64_t pixels = static_cast<int64_t>(args->out_width) * args->out_height;
    const bool half = args->width == 2 * args->out_width && args->height == 2 * args->out_height;
    return launch(err, name, half ? downscale<true> : downscale<false>,
                  dim3(blocks_for(pixels, threads)), threads, stream, *args, pixels);
}
