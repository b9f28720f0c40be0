/* heads.cuh - heads normed and turned, for the kernels that do more or less with them afterwards.
 *
 * Heads of 64 and 128: 8 or 16 lanes take a head, each lane 8 values.  A lane keeps the same place
 * in every head, so angles and norm weights are loaded once, with the first heads.  The other
 * partner of a rotation is the lane's own neighbour value (interleaved) or the lane half a head
 * away.  Other sizes: a warp takes a head, value by value.
 */
#ifndef KILN_HEADS_CUH
#define KILN_HEADS_CUH

#include "kernels/device.cuh"

namespace kiln
{

/* Where a block takes a part of a row: small ones, and so many on a multiprocessor that a thread
 * has 48 registers, hide each other's waits best (LAB.md). */
constexpr int part_threads = 128, part_blocks = 10;

/* Heads of one row, one behind the other, and what becomes of them. */
struct head_run {
    const void *x;          /* the first one starts `from` values into it */
    const void *norm;       /* [head_dim]; NULL: no norm */
    const float *cos, *sin; /* tables of angles; NULL: no rotation */
    int64_t from;
    unsigned token; /* the row's line of the tables */
    int heads;
    float eps;
    bool turned; /* q or k; v stays as it is */
};

/* The angles of this lane's 8 values: interleaved, a pair has one; else a value has its own. */
template <int LANES, bool INTERLEAVED>
__device__ __forceinline__ void load_angles(const float *table, int64_t token, int lane,
                                            float out[8])
{
    const float *row = table + token * (LANES * 4);
    if constexpr (INTERLEAVED) {
        const float4 v = reinterpret_cast<const float4 *>(row)[lane];
        out[0] = out[1] = v.x, out[2] = out[3] = v.y;
        out[4] = out[5] = v.z, out[6] = out[7] = v.w;
    } else {
        const float4 *at = reinterpret_cast<const float4 *>(row) + lane % (LANES / 2) * 2;
        const float4 v = at[0], w = at[1];
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
        out[4] = w.x, out[5] = w.y, out[6] = w.z, out[7] = w.w;
    }
}

template <int LANES, bool INTERLEAVED>
__device__ __forceinline__ void rotate(float v[8], const float cos[8], const float sin[8], int lane)
{
    if constexpr (INTERLEAVED) {
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            const float a = v[i], b = v[i + 1];
            v[i] = a * cos[i] - b * sin[i];
            v[i + 1] = a * sin[i] + b * cos[i];
        }
    } else {
        /* The second half of a head adds what the first half takes away. */
        const float sign = lane < LANES / 2 ? -1.0f : 1.0f;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float other = __shfl_xor_sync(all_lanes, v[i], LANES / 2);
            v[i] = v[i] * cos[i] + sign * other * sin[i];
        }
    }
}

/* 1 / RMS of each of four heads.  A lane gives away two of its sums for as many of its partner's,
 * then one of two: behind that it adds up a single head, and takes root and quotient for it alone.
 * The same pairs are added as by lane_sum for each head. */
template <int LANES>
__device__ __forceinline__ void inverse_rms(const chunk<8> held[4], int lane, float eps,
                                            float out[4])
{
    const bool second_two = lane & LANES / 2, second = lane & LANES / 4;
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float v[8];
        unpack<8>(held[j], v);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sums[j] += v[i] * v[i];
    }
    float two[2];
#pragma unroll
    for (int j = 0; j < 2; j++)
        two[j] = (second_two ? sums[j + 2] : sums[j]) +
                 __shfl_xor_sync(all_lanes, second_two ? sums[j] : sums[j + 2], LANES / 2);
    float sum = (second ? two[1] : two[0]) +
                __shfl_xor_sync(all_lanes, second ? two[0] : two[1], LANES / 4);
    sum = lane_sum<LANES / 4>(sum);
    const float inverse = 1.0f / sqrtf(sum / (LANES * 8) + eps);
#pragma unroll
    for (int j = 0; j < 4; j++)
        out[j] = __shfl_sync(all_lanes, inverse, j * (LANES / 4), LANES);
}

/* One chunk normed and rotated. */
template <int LANES, bool INTERLEAVED>
__device__ __forceinline__ chunk<8> turn(const chunk<8> &in, const head_run &run, float inverse,
                                         const chunk<8> &weight, bool rotated, const float cos[8],
                                         const float sin[8], int lane)
{
    float v[8];
    unpack<8>(in, v);
    if (run.norm) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] *= inverse;
        unpack<8>(product_of<8>(pack<8>(v), weight), v);
    }
    if (rotated)
        rotate<LANES, INTERLEAVED>(v, cos, sin, lane);
    return pack<8>(v);
}

/* The heads of a block of part_threads; put(head, chunk) gets what `lane`, this thread's in each of
 * its heads, has of them, rounded to bf16.  Every lane runs all of it, those behind the last head
 * too: shuffles need them. */
template <int LANES, bool INTERLEAVED, typename Put>
__device__ __forceinline__ void turn_heads(const head_run &run, int lane, const Put &put)
{
    constexpr int slots = part_threads / LANES, batch = 4;
    const bool rotated = run.cos && run.turned;
    float cos[8], sin[8];
    if (rotated) {
        load_angles<LANES, INTERLEAVED>(run.cos, run.token, lane, cos);
        load_angles<LANES, INTERLEAVED>(run.sin, run.token, lane, sin);
    }
    chunk<8> weight = {};
    if (run.norm)
        weight = load_chunk<8>(run.norm, 0, lane);
    /* As many rounds for every thread; a batch of heads is loaded before the first is turned. */
    for (int round = 0; round < run.heads; round += batch * slots) {
        const int first = round + static_cast<int>(threadIdx.x / LANES);
        chunk<8> held[batch] = {};
        float inverse[batch] = {};
#pragma unroll
        for (int j = 0; j < batch; j++)
            if (first + j * slots < run.heads)
                held[j] = load_chunk<8>(run.x, run.from, (first + j * slots) * LANES + lane);
        if (run.norm)
            inverse_rms<LANES>(held, lane, run.eps, inverse);
#pragma unroll
        for (int j = 0; j < batch; j++) {
            const int head = first + j * slots;
            if (run.turned)
                held[j] = turn<LANES, INTERLEAVED>(held[j], run, inverse[j], weight, rotated, cos,
                                                   sin, lane);
            if (head < run.heads)
                put(head, held[j]);
        }
    }
}

/* --- any head size ---------------------------------------------------------------------------- */

__device__ __forceinline__ float value_at(const void *p, int64_t at)
{
    return low_bf16(static_cast<const uint16_t *>(p)[at]);
}

__device__ __forceinline__ float normed(float v, float inverse, const void *norm, int i)
{
    return norm ? rounded(rounded(v * inverse) * value_at(norm, i)) : v;
}

/* The first head of the run, d values, by one warp; put(i, v) gets each, rounded to bf16. */
template <typename Put>
__device__ __forceinline__ void turn_values(const head_run &run, int d, bool interleaved,
                                            const Put &put)
{
    const int half = d / 2, lane = threadIdx.x % warp_size;
    float sum = 0;
    for (int i = lane; i < d; i += warp_size)
        sum += value_at(run.x, run.from + i) * value_at(run.x, run.from + i);
    const float inverse = 1.0f / sqrtf(lane_sum(sum) / static_cast<float>(d) + run.eps);
    if (!run.turned || !run.cos) {
        for (int i = lane; i < d; i += warp_size)
            put(i, normed(value_at(run.x, run.from + i), inverse, run.norm, i));
        return;
    }
    const float *cos = run.cos + static_cast<int64_t>(run.token) * half;
    const float *sin = run.sin + static_cast<int64_t>(run.token) * half;
    for (int i = lane; i < half; i += warp_size) {
        const int one = interleaved ? 2 * i : i, two = interleaved ? 2 * i + 1 : i + half;
        const float x = normed(value_at(run.x, run.from + one), inverse, run.norm, one);
        const float y = normed(value_at(run.x, run.from + two), inverse, run.norm, two);
        put(one, rounded(x * cos[i] - y * sin[i]));
        put(two, rounded(x * sin[i] + y * cos[i]));
    }
}

} // namespace kiln

#endif
