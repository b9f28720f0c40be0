/* host_cuda.c - runs the blocks of a CUDA kernel on the host, one after the other.
 *
 * The threads of a block are fibers, made once and resumed in turn; they change places by longjmp,
 * which asks nothing of the system.  A fiber goes on until it must wait: at a barrier for the
 * block, at a shuffle for the lanes of its mask.  A whole round in which no fiber
 * moved means that some wait for others that ended or wait elsewhere, which hangs a device; it is
 * printed and ends the program.
 *
 * A warp keeps the values of its last two shuffles: a lane can be at most one ahead of the others,
 * since the next one needs them all.
 */
#undef _FORTIFY_SOURCE /* its longjmp takes another fiber's stack for a mistake */

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "cuda_runtime_api.h"

#define WARP 32
#define THREADS_MAX 1024
#define STACK_BYTES (64 * 1024)

struct index {
    unsigned x, y, z;
};
struct index threadIdx, blockIdx, blockDim, gridDim;

/* Called by the kernels, declared for them in cuda_runtime.h. */
void __syncthreads(void);
uint64_t host_cuda_exchange(unsigned mask, uint64_t value, int step);
void host_cuda_run(struct index grid, int threads, void (*body)(void *), void *context);

/* Where a stack goes on.  The address sanitizer's own longjmp marks up the stack it leaves. */
#ifdef __SANITIZE_ADDRESS__
typedef ucontext_t place;
#define change_places(from, to) swapcontext(&(from), &(to))
#else
typedef jmp_buf place;
#define change_places(from, to)                                                                    \
    do {                                                                                           \
        if (_setjmp(from) == 0)                                                                    \
            _longjmp(to, 1);                                                                       \
    } while (0)
#endif

struct warp {
    uint64_t values[2][WARP];
    unsigned arrived[2];
};

static struct {
    place scheduler, fibers[THREADS_MAX];
    bool made[THREADS_MAX]; /* fiber i waits in fibers[i] */
    bool ended[THREADS_MAX];
    unsigned shuffles[THREADS_MAX]; /* how many each thread has come to */
    struct warp warps[THREADS_MAX / WARP];
    char *stacks;
    int current, live, at_barrier;
    unsigned long barriers, moves; /* moves: anything that may let another fiber go on */
    void (*body)(void *);
    void *context;
} block;

static cudaError_t last_error;

struct cudaDeviceProp host_cuda_card = {"NVIDIA H200", 9, 0};
cudaError_t host_cuda_lookup = cudaSuccess;

static void yield(void)
{
    change_places(block.fibers[block.current], block.scheduler);
}

static void release_if_all_arrived(void)
{
    if (block.live > 0 && block.at_barrier == block.live) {
        block.at_barrier = 0;
        block.barriers++;
    }
}

void __syncthreads(void)
{
    const unsigned long barrier = block.barriers;
    block.at_barrier++;
    block.moves++;
    release_if_all_arrived();
    while (block.barriers == barrier)
        yield();
}

uint64_t host_cuda_exchange(unsigned mask, uint64_t value, int step)
{
    struct warp *warp = &block.warps[block.current / WARP];
    const int lane = block.current % WARP;
    const unsigned side = block.shuffles[block.current]++ & 1;
    warp->values[side][lane] = value;
    warp->arrived[side] |= 1u << lane;
    block.moves++;
    if ((warp->arrived[side] & mask) == mask)
        warp->arrived[side ^ 1] = 0; /* all have left the one before */
    while ((warp->arrived[side] & mask) != mask)
        yield();
    return warp->values[side][lane ^ step];
}

static ucontext_t birth; /* where a fiber is made */

/* A fiber's life: one thread of each block. */
static void run_fiber(void)
{
#ifdef __SANITIZE_ADDRESS__
    swapcontext(&block.fibers[block.current], &birth);
#else
    if (_setjmp(block.fibers[block.current]) == 0)
        setcontext(&birth);
#endif
    for (;;) {
        block.body(block.context);
        block.ended[block.current] = true;
        block.live--;
        block.moves++;
        release_if_all_arrived();
        yield();
    }
}

/* Makes a fiber, which comes back at once to wait for its first block. */
static void make_fiber(int thread)
{
    static ucontext_t fresh;
    getcontext(&fresh);
    fresh.uc_stack.ss_sp = block.stacks + (size_t)thread * STACK_BYTES;
    fresh.uc_stack.ss_size = STACK_BYTES;
    fresh.uc_link = NULL;
    makecontext(&fresh, run_fiber, 0);
    swapcontext(&birth, &fresh);
}

/* Returns when the fiber waits or has ended. */
static void resume(int thread)
{
    block.current = thread;
    threadIdx = (struct index){(unsigned)thread, 0, 0};
    if (!block.made[thread]) {
        block.made[thread] = true;
        make_fiber(thread);
    }
    change_places(block.scheduler, block.fibers[thread]);
}

static void start_block(int threads)
{
    memset(block.ended, 0, sizeof block.ended);
    memset(block.shuffles, 0, sizeof block.shuffles);
    memset(block.warps, 0, sizeof block.warps);
    block.live = threads;
    block.at_barrier = 0;
}

static void run_block(int threads)
{
    start_block(threads);
    while (block.live > 0) {
        const unsigned long moves = block.moves;
        for (int i = 0; i < threads; i++)
            if (!block.ended[i])
                resume(i);
        if (block.moves == moves && block.live > 0) {
            fprintf(stderr, "block %u,%u: %d threads wait for others that do not come\n",
                    blockIdx.x, blockIdx.y, block.live);
            abort();
        }
    }
}

void host_cuda_run(struct index grid, int threads, void (*body)(void *), void *context)
{
    if (threads < 1 || threads > THREADS_MAX || grid.x < 1 || grid.y < 1 || grid.z < 1 ||
        grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535) {
        last_error = cudaErrorInvalidConfiguration;
        return;
    }
    if (!block.stacks)
        block.stacks = malloc((size_t)THREADS_MAX * STACK_BYTES);
    if (!block.stacks) {
        last_error = cudaErrorMemoryAllocation;
        return;
    }
    block.body = body;
    block.context = context;
    gridDim = grid;
    blockDim = (struct index){(unsigned)threads, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
                run_block(threads);
}

/* --- the C API -------------------------------------------------------------------------------- */

const char *cudaGetErrorName(cudaError_t code)
{
    switch (code) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
        return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDeviceFunction:
        return "cudaErrorInvalidDeviceFunction";
    case cudaErrorNoKernelImageForDevice:
        return "cudaErrorNoKernelImageForDevice";
    }
    return "unknown";
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaSuccess ? "no error" : "refused by the host's stand-in for CUDA";
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t code = last_error;
    last_error = cudaSuccess;
    return code;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    if (device != 0)
        return cudaErrorInvalidValue;
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = 2; /* so few that a kernel which goes round does so for small shapes */
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = host_cuda_card.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = host_cuda_card.minor;
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *card, int device)
{
    if (device != 0)
        return cudaErrorInvalidValue;
    *card = host_cuda_card;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    if (!kernel)
        return cudaErrorInvalidDeviceFunction;
    attributes->binaryVersion = 90;
    last_error = host_cuda_lookup;
    return host_cuda_lookup;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
    *ptr = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *ptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *ptr)
{
    free(ptr);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *ptr, int value, size_t bytes)
{
    memset(ptr, value, bytes);
    return cudaSuccess;
}
