/* tensor_cores.cuh - one step of the tensor cores by a warp, for kernels whose products are too
 * small for a library's.
 *
 *     c [16][8] += a [16][16] b [8][16]^T        a and b bf16, c and the sums fp32
 *
 * Lane l, with g = l / 4 and q = l % 4, holds of them, two values of bf16 in a word:
 *
 *     a[0], a[1]  rows g and g + 8, columns 2q and 2q + 1
 *     a[2], a[3]  the same rows, columns 2q + 8 and 2q + 9
 *     b[0], b[1]  row g, the same columns as a
 *     c[0], c[1]  row g, columns 2q and 2q + 1
 *     c[2], c[3]  row g + 8, the same columns
 *
 * The columns of a and b are only summed over: any order will do that is that of both.  So a lane
 * may take 8 neighbours of a row in one access, for two steps.
 */
#ifndef KILN_TENSOR_CORES_CUH
#define KILN_TENSOR_CORES_CUH

#include "kernels/device.cuh"

namespace kiln
{

__device__ __forceinline__ void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef __CUDACC__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    const int lane = static_cast<int>(threadIdx.x % warp_size), g = lane / 4, q = lane % 4;
    for (int t = 0; t < 4; t++)
        for (int half = 0; half < 2; half++) {
            const uint32_t upper = __shfl_sync(all_lanes, a[2 * half], 4 * g + t, warp_size);
            const uint32_t lower = __shfl_sync(all_lanes, a[2 * half + 1], 4 * g + t, warp_size);
            for (int i = 0; i < 2; i++) {
                const uint32_t other =
                    __shfl_sync(all_lanes, b[half], 4 * (2 * q + i) + t, warp_size);
                c[i] += low_bf16(upper) * low_bf16(other) + high_bf16(upper) * high_bf16(other);
                c[2 + i] += low_bf16(lower) * low_bf16(other) + high_bf16(lower) * high_bf16(other);
            }
        }
#endif
}

} // namespace kiln

#endif
