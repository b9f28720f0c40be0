/* gated_lora.cuh - the second product of gated_product.h, lora = y down^T: what the tile of a block
 * gives to it, and the sum of all tiles.
 *
 * A thread has y's values in pairs, to be stored by squares of 8 by 8, and those of 16 columns are
 * what the tensor cores want of a left operand.  So a warp multiplies its 16 rows without another
 * copy of them, and leaves the sums of a tile's columns in memory.  They are added up behind, in
 * an order that depends on the number of columns alone.
 */
#ifndef KILN_GATED_LORA_CUH
#define KILN_GATED_LORA_CUH

#include "kernels/products/gated_product.h"
#include "kernels/products/hopper.cuh"

namespace kiln
{

/* Where tiles leave their parts of lora: [tiles across][rows][rank]. */
struct lora_parts {
    float *at;
    int rows;
};

/* What a warp has of lora: 16 rows, the columns by eights as multiply() has them. */
struct lora_sums {
    float eights[2][4];
};
static_assert(KILN_GATED_RANK == 16, "two eights");

/* Adds what 16 columns of y give, whose squares are those words; down's box of their columns, in
 * which they begin at that place. */
__device__ __forceinline__ void add_to_lora(lora_sums &lora, const uint32_t words[4], uint32_t down,
                                            int place)
{
    const int lane = threadIdx.x % warp_size, square = lane / 8;
    uint32_t squares[4]; /* eight ranks of both eights of columns, then the next eight */
    load_squares(down + (square / 2 * 8 + lane % 8) * box_pitch +
                     ((place + square % 2) ^ lane % 8) * 16,
                 squares);
    multiply_squares(lora.eights[0], words, squares);
    multiply_squares(lora.eights[1], words, squares + 2);
}

/* `row` is the warpgroup's first, `part` the tile's. */
__device__ __forceinline__ void store_lora_part(const lora_sums &lora, const lora_parts &to,
                                                int row, int part)
{
    constexpr int columns = KILN_GATED_RANK;
    const int lane = threadIdx.x % warp_size, warp = threadIdx.x % warpgroup_size / warp_size;
    const int first = row + warp * 16 + lane / 4;
    float *at = to.at + (static_cast<int64_t>(part) * to.rows + first) * columns + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float *four = lora.eights[i];
        if (first < to.rows)
            *reinterpret_cast<float2 *>(at + 8 * i) = make_float2(four[0], four[1]);
        if (first + 8 < to.rows)
            *reinterpret_cast<float2 *>(at + 8 * (columns + i)) = make_float2(four[2], four[3]);
    }
}

/* --- adding up -------------------------------------------------------------------------------- */

constexpr int adders = 8; /* warps, each of which adds up so many of the parts */

/* A lane has four columns of lora in a row; the block `warp_size` of such fours. */
static __global__ void __launch_bounds__(adders *warp_size)
    add_parts(const float4 *parts, int count, int64_t fours, uint32_t *lora, int64_t words_a_row)
{
    constexpr int fours_a_row = KILN_GATED_RANK / 4;
    __shared__ float4 shares[adders][warp_size];
    const int lane = threadIdx.x % warp_size, adder = threadIdx.x / warp_size;
    const int64_t four = static_cast<int64_t>(blockIdx.x) * warp_size + lane;
    float4 sum = {};
    if (four < fours)
        for (int i = count * adder / adders; i < count * (adder + 1) / adders; i++) {
            const float4 part = __ldg(parts + i * fours + four);
            sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
        }
    shares[adder][lane] = sum;
    __syncthreads();
    if (adder || four >= fours)
        return;
#pragma unroll
    for (int i = 1; i < adders; i++) {
        const float4 share = shares[i][lane];
        sum.x += share.x, sum.y += share.y, sum.z += share.z, sum.w += share.w;
    }
    uint32_t *to = lora + four / fours_a_row * words_a_row + four % fours_a_row * 2;
    to[0] = pack_bf16(sum.x, sum.y), to[1] = pack_bf16(sum.z, sum.w);
}

static int launch_adders(const struct kiln_gated_product *a, int64_t rows, kiln_stream stream,
                         const char *name, struct kiln_error *err)
{
    const int64_t fours = rows * KILN_GATED_RANK / 4;
    return launch(err, name, add_parts,
                  dim3(static_cast<unsigned>((fours + warp_size - 1) / warp_size)),
                  adders * warp_size, stream, reinterpret_cast<const float4 *>(a->parts),
                  static_cast<int>(a->n / KILN_GATED_COLUMNS), fours,
                  static_cast<uint32_t *>(a->lora), a->lora_pitch / 2);
}

} // namespace kiln

#endif
