/* rgb8.cu - see rgb8.h; 16 bytes a thread where the picture is packed bf16, one byte elsewhere. */
#include "kernels/pictures/rgb8.h"

#include "kernels/device.cuh"

using namespace kiln;

constexpr int threads = 256;

static __device__ __forceinline__ uint32_t byte_of(float x)
{
    return static_cast<uint32_t>(rintf(fminf(fmaxf(x * 0.5f + 0.5f, 0.0f), 1.0f) * 255.0f));
}

/* Four values, the first in the lowest byte. */
static __device__ __forceinline__ uint32_t word_of(const float v[4])
{
    return byte_of(v[0]) | byte_of(v[1]) << 8 | byte_of(v[2]) << 16 | byte_of(v[3]) << 24;
}

static __global__ void __launch_bounds__(threads)
    sixteen_bytes(const struct kiln_rgb8 a, int64_t chunks)
{
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < chunks;
         i += static_cast<int64_t>(gridDim.x) * threads) {
        float v[16];
        unpack<8>(load_chunk<8>(a.x, 0, 2 * i), v);
        unpack<8>(load_chunk<8>(a.x, 0, 2 * i + 1), v + 8);
        bool good = true;
#pragma unroll
        for (int k = 0; k < 16; k++)
            good = good && finite(v[k]);
        if (!good && a.bad)
            atomicOr(a.bad, 1u);
        reinterpret_cast<uint4 *>(a.rgb)[i] =
            make_uint4(word_of(v), word_of(v + 4), word_of(v + 8), word_of(v + 12));
    }
}

/* From value `begin` of the result on. */
static __global__ void __launch_bounds__(threads)
    single_bytes(const struct kiln_rgb8 a, int64_t begin)
{
    for (int64_t i = begin + static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
         i < 3 * a.pixels; i += static_cast<int64_t>(gridDim.x) * threads) {
        const int64_t from = i / 3 * a.channels + i % 3;
        const float v = a.format == KILN_BF16 ? low_bf16(static_cast<const uint16_t *>(a.x)[from])
                                              : static_cast<const float *>(a.x)[from];
        if (!finite(v) && a.bad)
            atomicOr(a.bad, 1u);
        a.rgb[i] = static_cast<uint8_t>(byte_of(v));
    }
}

extern "C" int kiln_rgb8_launch(const struct kiln_rgb8 *args, kiln_stream stream,
                                struct kiln_error *err)
{
    const char *name = "rgb8";
    if (args->pixels < 0 || args->channels < 3)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %lld pixels of %d channels", name,
                         (long long)args->pixels, args->channels);
    if (args->pixels == 0)
        return KILN_OK;
    if (!args->x || !args->rgb)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const bool packed = args->format == KILN_BF16 && args->channels == 3 && on_bytes(args->x, 16) &&
                        on_bytes(args->rgb, 16);
    const int64_t chunks = packed ? 3 * args->pixels / 16 : 0,
                  rest = 3 * args->pixels - 16 * chunks;
    int code = KILN_OK;
    if (chunks)
        code = launch(err, name, sixteen_bytes, dim3(blocks_for(chunks, threads)), threads, stream,
                      *args, chunks);
    if (!code && rest)
        code = launch(err, name, single_bytes, dim3(blocks_for(rest, threads)), threads, stream,
                      *args, 16 * chunks);
    return code;
}
