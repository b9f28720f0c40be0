/* cuda_runtime.h - as much of CUDA C++ as the kernels use, for an ordinary C++ compiler.
 *
 * Stands in for CUDA's own header: with it a .cu file compiles as C++ and its kernels run on the
 * host, a thread of a block being a fiber of host_cuda.c.  What is shared stays shared, barriers
 * and shuffles wait for the same threads as on a device, and a thread that never arrives is an
 * error.  Not shown by it: races between barriers, alignment faults, and how fast anything is.
 */
#ifndef KILN_HOST_CUDA_RUNTIME_H
#define KILN_HOST_CUDA_RUNTIME_H

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __CUDA_ARCH_LIST__ 900

struct uint3 {
    unsigned x, y, z;
};
struct dim3 : uint3 {
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : uint3{a, b, c} {}
};
/* Aligned as on the device: a reference to one that is not is seen by the undefined sanitizer. */
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

extern "C" {
extern uint3 threadIdx, blockIdx, blockDim, gridDim;
void __syncthreads(void);
/* The value that the lane `lane ^ step` of the same warp gives to the same call. */
uint64_t host_cuda_exchange(unsigned mask, uint64_t value, int step);
void host_cuda_run(uint3 grid, int threads, void (*body)(void *), void *context);
}

template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int step)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves a register or two");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = host_cuda_exchange(mask, bits, step);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What the lane `from` of each `width` lanes gives. */
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int from, int width)
{
    const int lane = static_cast<int>(threadIdx.x % 32);
    return __shfl_xor_sync(mask, value, lane ^ (lane / width * width + from));
}

template <typename T> static inline T __ldg(const T *p)
{
    return *p;
}

static inline float __uint_as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline int __float_as_int(float value)
{
    int bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
/* Four of the bytes of x (0 to 3) and y (4 to 7), by the digits of `which`. */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned which)
{
    const uint64_t both = (uint64_t)y << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; i++)
        out |= (unsigned)(both >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return out;
}
#define __expf(x) expf(x) /* the C library has a function of this name */
static inline float __fdividef(float x, float y)
{
    return x / y;
}
/* One fiber runs at a time. */
static inline unsigned atomicOr(unsigned *p, unsigned bits)
{
    unsigned old = *p;
    *p |= bits;
    return old;
}

template <typename Body>
static void host_cuda_launch(dim3 grid, int threads, cudaStream_t, Body body)
{
    host_cuda_run(
        grid, threads, [](void *context) { (*static_cast<Body *>(context))(); }, &body);
}

#endif
