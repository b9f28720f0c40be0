/* tails.cuh - rows with tails (tails.h) in chunks of eight, and other rows by the same code. */
#ifndef KILN_TAILS_CUH
#define KILN_TAILS_CUH

#include "kernels/device.cuh"
#include "kernels/tails.h"

namespace kiln
{

/* A chunk of a row with tails; without them `tail` is 0, which is the same value. */
template <int W> struct residual_chunk {
    chunk<W> high;
    uint32_t tail;
};

/* Of a launcher whose rows may have tails; vectors: all of its operands are on 16 bytes. */
inline int check_tails(struct kiln_error *err, const char *name, bool tails, int64_t n,
                       bool vectors)
{
    if (!tails || (vectors && n % KILN_TAILS_MULTIPLE == 0))
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED, "%s: tails of rows of %lld values, or off 16 bytes",
                     name, static_cast<long long>(n));
}

/* 16-bit words from row to row. */
__device__ __forceinline__ int64_t residual_pitch(int64_t n, bool tails)
{
    return tails ? KILN_TAILED(n) : n;
}

/* Chunk `index` of row `row` of n values each.  Single values (W 1) have no tails. */
template <int W>
__device__ __forceinline__ residual_chunk<W> load_residual(const void *p, int64_t row, int64_t n,
                                                       int index, bool tails)
{
    const int64_t at = row * residual_pitch(n, tails);
    residual_chunk<W> c = {load_chunk<W>(p, at, index), 0};
    if (W == 8 && tails)
        c.tail =
            reinterpret_cast<const uint32_t *>(static_cast<const uint16_t *>(p) + at + n)[index];
    return c;
}

template <int W>
__device__ __forceinline__ void store_residual(void *p, int64_t row, int64_t n, int index, bool tails,
                                             const residual_chunk<W> &c)
{
    const int64_t at = row * residual_pitch(n, tails);
    store_chunk<W>(p, at, index, c.high);
    if (W == 8 && tails)
        reinterpret_cast<uint32_t *>(static_cast<uint16_t *>(p) + at + n)[index] = c.tail;
}

template <int W>
__device__ __forceinline__ void unpack_residual(const residual_chunk<W> &c, bool tails, float v[W])
{
    if constexpr (W == 8) {
        if (tails) {
            const uint32_t even = c.tail << 4 & 0xf0f0f0f0u, odd = c.tail & 0xf0f0f0f0u;
#pragma unroll
            for (int i = 0; i < 4; i++) { /* the bytes 0, tail, and those of the bf16 */
                const uint32_t word = c.high.words[i], from = static_cast<uint32_t>(4 + i) << 4;
                v[2 * i] = __uint_as_float(__byte_perm(word, even, 0x1000 | from) & ~0xffu);
                v[2 * i + 1] = __uint_as_float(__byte_perm(word, odd, 0x3200 | from) & ~0xffu);
            }
            return;
        }
    }
    unpack<W>(c.high, v);
}

/* Rounds v as a store does; returns what is to be stored. */
template <int W> __device__ __forceinline__ residual_chunk<W> round_residual(float v[W], bool tails)
{
    residual_chunk<W> c = {};
    if constexpr (W == 8) {
        if (tails) {
            uint32_t bits[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                /* A NaN that arithmetic made is 0x7fffffff, to which nothing can be added. */
                const int32_t whole = __float_as_int(v[i]);
                bits[i] = static_cast<uint32_t>(whole < 0x7fff0000 ? whole : 0x7fff0000) + 0x800u;
                v[i] = __uint_as_float(bits[i] & ~0xfffu);
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                c.high.words[i] = __byte_perm(bits[2 * i], bits[2 * i + 1], 0x7632);
            const uint32_t even = __byte_perm(__byte_perm(bits[0], bits[2], 0x0051),
                                              __byte_perm(bits[4], bits[6], 0x0051), 0x5410);
            const uint32_t odd = __byte_perm(__byte_perm(bits[1], bits[3], 0x0051),
                                             __byte_perm(bits[5], bits[7], 0x0051), 0x5410);
            c.tail = (even >> 4 & 0x0f0f0f0fu) | (odd & 0xf0f0f0f0u);
            return c;
        }
    }
    c.high = pack<W>(v);
    unpack<W>(c.high, v);
    return c;
}

/* Chunk `index` of a vector of fp32 that no launch which reads it writes. */
template <int W> __device__ __forceinline__ void load_gains(const float *p, int index, float v[W])
{
    if constexpr (W == 8) {
        const float4 low = __ldg(reinterpret_cast<const float4 *>(p) + 2 * index);
        const float4 high = __ldg(reinterpret_cast<const float4 *>(p) + 2 * index + 1);
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    } else {
        v[0] = __ldg(p + index);
    }
}

} // namespace kiln

#endif
