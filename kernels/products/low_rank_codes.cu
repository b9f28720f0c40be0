/* low_rank_codes.cu - see low_rank_codes.h; a block a column of up and the row of down that goes
 * with it.  Both are read twice, from the L2 the second time.  They are small, and what a set waits
 * for is how many launches it takes: one for each of a model's matrices.
 */
#include "kernels/products/low_rank_codes.h"

#include "kernels/rows.cuh"

using namespace kiln;

constexpr int threads = 1024, warps = threads / warp_size;

struct tops {
    float share, common; /* max |up / factor|, and with factors of half their mean at least */
};

static __device__ __forceinline__ tops column_tops(const struct kiln_low_rank_codes &a,
                                                   const uint16_t *up, float (*slots)[warps])
{
    float sum = 0;
#pragma unroll 4
    for (int64_t n = threadIdx.x; n < a.n; n += threads)
        sum += a.factor[n];
    const float least = block_sum<threads>(sum, slots[0]) / static_cast<float>(a.n) / 2;
    tops top = {KILN_E4M3_FLOOR, KILN_E4M3_FLOOR};
#pragma unroll 4
    for (int64_t n = threadIdx.x; n < a.n; n += threads) {
        const float size = fabsf(low_bf16(up[n * a.rank])), factor = a.factor[n];
        top.share = fmaxf(top.share, size / factor);
        top.common = fmaxf(top.common, size / fmaxf(factor, least));
    }
    return {block_max<threads>(top.share, slots[1]), block_max<threads>(top.common, slots[2])};
}

static __global__ void __launch_bounds__(threads) make_codes(const struct kiln_low_rank_codes a)
{
    __shared__ float slots[5][warps];
    const int64_t r = blockIdx.x;
    const uint16_t *up = static_cast<const uint16_t *>(a.up) + r;
    const uint16_t *down = static_cast<const uint16_t *>(a.down) + r * a.k;
    float squares = 0, top = KILN_E4M3_FLOOR;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < a.k; i += threads) {
        const float v = low_bf16(down[i]);
        squares += v * v, top = fmaxf(top, fabsf(v));
    }
    const float length = sqrtf(block_sum<threads>(squares, slots[3]));
    top = block_max<threads>(top, slots[4]);
    const tops of_up = column_tops(a, up, slots);
    const float most = KILN_E4M3_MAX / of_up.share, large = KILN_E4M3_MAX / of_up.common;
    const float reach = fmaxf(most, fminf(length / KILN_LOW_RANK_LENGTH, large));
#pragma unroll 4
    for (int64_t n = threadIdx.x; n < a.n; n += threads) {
        const float share = low_bf16(up[n * a.rank]) / a.factor[n];
        a.up_codes[n * a.pitch + r] = static_cast<uint8_t>(pack_e4m3(share * reach, 0));
    }
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < a.k; i += threads)
        a.down_codes[r * a.k + i] =
            static_cast<uint8_t>(pack_e4m3(low_bf16(down[i]) * (KILN_E4M3_MAX / top), 0));
    if (threadIdx.x == 0)
        a.down_scale[r] = top / KILN_E4M3_MAX / reach;
}

extern "C" int kiln_low_rank_codes_launch(const struct kiln_low_rank_codes *args,
                                          kiln_stream stream, struct kiln_error *err)
{
    const char *name = "low_rank_codes";
    const struct kiln_low_rank_codes a = *args;
    if (a.n < 1 || a.k < 1 || a.rank < 0 || a.pitch < a.rank)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: %lld rows of rank %lld, pitch %lld, and %lld values", name,
                         (long long)a.n, (long long)a.rank, (long long)a.pitch, (long long)a.k);
    if (a.rank && (!a.up || !a.down || !a.factor || !a.up_codes || !a.down_codes))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    if (a.format != KILN_BF16 || a.rank > INT32_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: on the GPU pairs are bf16, of rank %d at most",
                         name, INT32_MAX);
    const int code = check_quantised(err, name, a.down_codes, a.down_scale);
    if (code || a.rank == 0)
        return code;
    return launch(err, name, make_codes, dim3(static_cast<unsigned>(a.rank)), threads, stream, a);
}
