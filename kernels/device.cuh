/* device.cuh - what the CUDA kernels share: chunks of bf16, sums over warps and blocks, launching.
 *
 * A chunk is what a thread moves at once: 8 bf16 in one 16-byte access, or a single one where the
 * rows are not aligned.  Kernels are templates over its width W, so that the slow path is the same
 * code.  Arithmetic is in fp32, rounded to bf16 exactly where the reference rounds.
 *
 * The conversions are single instructions, written out; a build without nvcc (the tests run the
 * kernels on the host, see tests/doubles/host_cuda) takes the reference's own.
 */
#ifndef KILN_DEVICE_CUH
#define KILN_DEVICE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/floats.h"
#include "kernels/stream.h"
#include "schemas/error.h"
#ifndef __CUDACC__
#include "kernels/fp8.h"
#endif

namespace kiln
{

constexpr int warp_size = 32;
constexpr unsigned all_lanes = 0xffffffffu;

/* --- bf16 ------------------------------------------------------------------------------------- */

/* Two values rounded to bf16, `low` in the lower half. */
__device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
#ifdef __CUDACC__
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return kiln_to_bf16(low) | (uint32_t)kiln_to_bf16(high) << 16;
#endif
}

__device__ __forceinline__ float low_bf16(uint32_t word)
{
    return __uint_as_float(word << 16);
}

__device__ __forceinline__ float high_bf16(uint32_t word)
{
    return __uint_as_float(word & 0xffff0000u);
}

__device__ __forceinline__ float rounded(float value)
{
    return low_bf16(pack_bf16(value, 0.0f));
}

/* Pairs of bf16 multiplied, each result rounded once: the exact product fits into fp32, so that
 * this is what the reference does in two steps, in one instruction for a pair instead of seven. */
__device__ __forceinline__ uint32_t multiply_pairs(uint32_t a, uint32_t b)
{
#ifdef __CUDACC__
    uint32_t word;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(0x80008000u)); /* -0 */
    return word;
#else
    return pack_bf16(low_bf16(a) * low_bf16(b), high_bf16(a) * high_bf16(b));
#endif
}

/* The larger magnitudes; a number wins over NaN. */
__device__ __forceinline__ uint32_t larger_pairs(uint32_t a, uint32_t b)
{
    a &= 0x7fff7fffu, b &= 0x7fff7fffu;
#ifdef __CUDACC__
    uint32_t word;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
    return word;
#else
    return pack_bf16(fmaxf(low_bf16(a), low_bf16(b)), fmaxf(high_bf16(a), high_bf16(b)));
#endif
}

/* The same but for the signs, which mean nothing: one instruction instead of three on every device
 * that has e4m3. */
__device__ __forceinline__ uint32_t larger_signed_pairs(uint32_t a, uint32_t b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    uint32_t word;
    asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
    return word;
#else
    return larger_pairs(a, b);
#endif
}

__device__ __forceinline__ bool finite(float v)
{
    return fabsf(v) <= 3.402823466e38f; /* false for NaN */
}

/* Two values to e4m3, to nearest, beyond 448 to 448.  Launchers refuse devices without it. */
__device__ __forceinline__ uint32_t pack_e4m3(float low, float high)
{
#ifndef __CUDACC__
    return kiln_to_e4m3(low) | (uint32_t)kiln_to_e4m3(high) << 8;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return 0;
#endif
}

/* v / (1 + e^-v) by the two approximations that __expf and __fdividef make, without what these do
 * about denormals: 1 + e^-v is none, and where it is beyond range both give 0: -0, silu's limit. */
__device__ __forceinline__ float silu(float v)
{
#ifdef __CUDACC__
    float power, share;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v * -1.44269504f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(1.0f + power));
    return v * share;
#else
    return v / (1.0f + expf(-v));
#endif
}

/* --- chunks ----------------------------------------------------------------------------------- */

template <int W> struct chunk {
    uint32_t words[W / 2]; /* W is 8 */
};
template <> struct chunk<1> {
    uint16_t bits;
};

/* Chunk `index` of the values that start `at` values into p. */
template <int W>
__device__ __forceinline__ chunk<W> load_chunk(const void *p, int64_t at, int64_t index)
{
    chunk<W> c;
    if constexpr (W == 1) {
        c.bits = static_cast<const uint16_t *>(p)[at + index];
    } else {
        const uint4 v =
            reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(p) + at)[index];
        c.words[0] = v.x, c.words[1] = v.y, c.words[2] = v.z, c.words[3] = v.w;
    }
    return c;
}

template <int W>
__device__ __forceinline__ void store_chunk(void *p, int64_t at, int64_t index, const chunk<W> &c)
{
    if constexpr (W == 1)
        static_cast<uint16_t *>(p)[at + index] = c.bits;
    else
        reinterpret_cast<uint4 *>(static_cast<uint16_t *>(p) + at)[index] =
            make_uint4(c.words[0], c.words[1], c.words[2], c.words[3]);
}

template <int W> __device__ __forceinline__ void unpack(const chunk<W> &c, float v[W])
{
    if constexpr (W == 1) {
        v[0] = low_bf16(c.bits);
    } else {
#pragma unroll
        for (int i = 0; i < W / 2; i++) {
            v[2 * i] = low_bf16(c.words[i]);
            v[2 * i + 1] = high_bf16(c.words[i]);
        }
    }
}

template <int W> __device__ __forceinline__ chunk<W> pack(const float v[W])
{
    chunk<W> c;
    if constexpr (W == 1) {
        c.bits = static_cast<uint16_t>(pack_bf16(v[0], 0.0f));
    } else {
#pragma unroll
        for (int i = 0; i < W / 2; i++)
            c.words[i] = pack_bf16(v[2 * i], v[2 * i + 1]);
    }
    return c;
}

/* One 32-bit word of pairs of a chunk; a single value is the lower half of one. */
template <int W> constexpr int chunk_words = W == 1 ? 1 : W / 2;
template <int W> __device__ __forceinline__ uint32_t word_of(const chunk<W> &c, int i)
{
    if constexpr (W == 1)
        return c.bits;
    else
        return c.words[i];
}
template <int W> __device__ __forceinline__ void set_word(chunk<W> &c, int i, uint32_t word)
{
    if constexpr (W == 1)
        c.bits = static_cast<uint16_t>(word);
    else
        c.words[i] = word;
}

/* Value by value, rounded as a store would. */
template <int W>
__device__ __forceinline__ chunk<W> product_of(const chunk<W> &a, const chunk<W> &b)
{
    chunk<W> c;
#pragma unroll
    for (int i = 0; i < chunk_words<W>; i++)
        set_word<W>(c, i, multiply_pairs(word_of<W>(a, i), word_of<W>(b, i)));
    return c;
}

/* v as it would be after a store. */
template <int W> __device__ __forceinline__ void round_all(float v[W])
{
    unpack<W>(pack<W>(v), v);
}

/* --- reductions: every thread gets the result, always summed in the same order ---------------- */

template <int LANES = warp_size> __device__ __forceinline__ float lane_sum(float v)
{
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(all_lanes, v, step);
    return v;
}

__device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (int step = warp_size / 2; step > 0; step /= 2)
        v = fmaxf(v, __shfl_xor_sync(all_lanes, v, step));
    return v;
}

/* Of the block, which has THREADS where they are known at compile time. */
template <int THREADS> __device__ __forceinline__ unsigned block_threads()
{
    return THREADS ? THREADS : blockDim.x;
}

/* Over the block; slots is shared memory for one float a warp, used by no other reduction of the
 * kernel, so that one barrier is enough.  A kernel that goes round may use them again when another
 * reduction has been between.  All threads must arrive; whole warps only. */
template <int THREADS = 0> __device__ __forceinline__ float block_sum(float v, float *slots)
{
    v = lane_sum(v);
    if (threadIdx.x % warp_size == 0)
        slots[threadIdx.x / warp_size] = v;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < block_threads<THREADS>() / warp_size; i++)
        sum += slots[i];
    return sum;
}

template <int THREADS = 0> __device__ __forceinline__ float block_max(float v, float *slots)
{
    v = warp_max(v);
    if (threadIdx.x % warp_size == 0)
        slots[threadIdx.x / warp_size] = v;
    __syncthreads();
    float top = slots[0];
    for (unsigned i = 1; i < block_threads<THREADS>() / warp_size; i++)
        top = fmaxf(top, slots[i]);
    return top;
}

/* --- launching -------------------------------------------------------------------------------- */

inline bool on_bytes(const void *p, unsigned bytes)
{
    return reinterpret_cast<uintptr_t>(p) % bytes == 0; /* NULL is */
}

/* How many blocks of `threads` cover `items`, at most what keeps a large device busy: the kernel
 * strides over the rest. */
inline unsigned blocks_for(int64_t items, int threads)
{
    const int64_t blocks = (items + threads - 1) / threads;
    return static_cast<unsigned>(blocks < 8192 ? blocks : 8192);
}

/* What the last launch came to; `name` is what an error calls the kernel. */
inline int launched(struct kiln_error *err, const char *name)
{
    const cudaError_t code = cudaGetLastError();
    if (code == cudaSuccess)
        return KILN_OK;
    return kiln_fail(err, KILN_DEVICE, "%s: %s (%s)", name, cudaGetErrorName(code),
                     cudaGetErrorString(code));
}

/* Queues one kernel. */
template <typename... Params, typename... Args>
static int launch(struct kiln_error *err, const char *name, void (*kernel)(Params...), dim3 grid,
                  int threads, kiln_stream stream, Args... args)
{
#ifdef __CUDACC__
    kernel<<<grid, threads, 0, stream>>>(args...);
#else
    host_cuda_launch(grid, threads, stream, [=] { kernel(args...); });
#endif
    return launched(err, name);
}

/* --- early starts: from compute capability 9.0 on; before it they do nothing -------------------
 *
 * A kernel queued by launch_early starts once all blocks of the one before it have called
 * let_next_start or ended, so that a small kernel's start, and the first loads of a large one, are
 * not waited for.  All that the one before it and those in front of that have written is there
 * after await_previous, which every block calls; before it a block reads only what was there when
 * the first kernel of such a chain began, and writes nothing.  In a chain of two, blocks that touch
 * nothing that the first kernel writes need not call it, and may write what that does not read. */

__device__ __forceinline__ void let_next_start()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void await_previous()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

inline bool device_has(int major)
{
    int device = 0, has = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&has, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           has >= major;
}

template <typename... Params, typename... Args>
static int launch_early(struct kiln_error *err, const char *name, void (*kernel)(Params...),
                        dim3 grid, int threads, kiln_stream stream, Args... args)
{
#ifdef __CUDACC__
    if (device_has(9)) {
        cudaLaunchAttribute early = {};
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = grid, config.blockDim = dim3(threads), config.stream = stream;
        config.attrs = &early, config.numAttrs = 1;
        (void)cudaLaunchKernelEx(&config, kernel, args...); /* launched() asks for its error */
        return launched(err, name);
    }
#endif
    return launch(err, name, kernel, grid, threads, stream, args...);
}

} // namespace kiln

#endif
