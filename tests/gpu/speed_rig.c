/* speed_rig.c - see speed_rig.h. */
#include "tests/gpu/speed_rig.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "tests/support/measure.h"
#include "tests/support/random.h"

#define LAUNCHES 20
#define REPLAYS 9

char *pools[POOLS];
cudaStream_t stream;
struct kiln_error err;
static cudaEvent_t begin, end;
static double copy_rate; /* of a whole pool: bytes a second, read and written */
static char *copied;     /* as large as a pool; nothing else uses it */
static size_t cache_bytes;
static bool by_tabs;

void must(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorName(code), cudaGetErrorString(code));
    exit(1);
}

void must_launch(int code)
{
    if (code == KILN_OK)
        return;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

/* --- timing ----------------------------------------------------------------------------------- */

/* Milliseconds between the two events, as soon as the later one has come. */
static double elapsed(const char *what)
{
    float ms = 0;
    must(cudaEventSynchronize(end), what);
    must(cudaEventElapsedTime(&ms, begin, end), "time");
    return (double)ms;
}

/* Seconds that one run of `queue` takes. */
static double seconds_of(void (*queue)(void))
{
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    double times[REPLAYS];
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < LAUNCHES; i++)
        queue();
    must(cudaStreamEndCapture(stream, &graph), "end of capture");
    must(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
    for (int i = -2; i < REPLAYS; i++) { /* two to warm up */
        must(cudaEventRecord(begin, stream), "event");
        must(cudaGraphLaunch(replay, stream), "replay");
        must(cudaEventRecord(end, stream), "event");
        times[i < 0 ? 0 : i] = elapsed("the kernel");
    }
    must(cudaGraphExecDestroy(replay), "destroy");
    must(cudaGraphDestroy(graph), "destroy");
    return test_median(times, REPLAYS) / 1e3 / LAUNCHES;
}

/* Seconds of a copy that reads and writes so many bytes together, two pools' at most.  It is not
 * recorded, since a graph hands copies to an engine of two thirds of the speed; that of a whole
 * pool, in front, keeps the device busy until all are queued. */
static double seconds_of_copy(double bytes)
{
    const size_t half = (size_t)(bytes / 2);
    double times[REPLAYS];
    for (int i = 0; i < REPLAYS; i++) {
        must(cudaMemcpyAsync(copied, pools[0], POOL_BYTES, cudaMemcpyDeviceToDevice, stream),
             "copy");
        must(cudaEventRecord(begin, stream), "event");
        for (int j = 0; j < LAUNCHES; j++)
            must(cudaMemcpyAsync(copied, pools[0], half, cudaMemcpyDeviceToDevice, stream), "copy");
        must(cudaEventRecord(end, stream), "event");
        times[i] = elapsed("the copies");
    }
    return test_median(times, REPLAYS) / 1e3 / LAUNCHES;
}

void report(const char *kernel, const char *shape, double bytes, void (*queue)(void))
{
    const double seconds = seconds_of(queue), rate = bytes / seconds;
    const double copy = seconds_of_copy(bytes);
    const char *cached = bytes < (double)cache_bytes ? "*" : "";
    printf(by_tabs
               ? "%s\t%s\t%.2f\t%.1f\t%.0f\t%.0f%s\t%.2f\t%.0f\n"
               : "%-34s %-30s %9.2f us %9.1f MB %7.0f GB/s %5.0f %%%-1s copy %9.2f us %5.0f %%\n",
           kernel, shape, seconds * 1e6, bytes / 1e6, rate / 1e9, rate / copy_rate * 100, cached,
           copy * 1e6, copy / seconds * 100);
    fflush(stdout);
}

void report_products(const char *kernel, const char *shape, double flop, void (*queue)(void))
{
    const double seconds = seconds_of(queue);
    printf(by_tabs ? "%s\t%s\t%.2f\t\t\t%.0f TFLOP/s\t\t\n"
                   : "%-34s %-30s %9.2f us %7.0f TFLOP/s\n",
           kernel, shape, seconds * 1e6, flop / seconds / 1e12);
    fflush(stdout);
}

/* --- memory ----------------------------------------------------------------------------------- */

void *weights_at(size_t slot)
{
    return pools[7] + slot * 65536;
}

static void open_device(void)
{
    struct cudaDeviceProp device;
    int count = 0, runtime = 0, driver = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess || count == 0) {
        fprintf(stderr, "this needs a GPU: %s\n", cudaGetErrorString(code));
        exit(EX_UNAVAILABLE);
    }
    must(cudaGetDeviceProperties(&device, 0), "properties");
    must(cudaRuntimeGetVersion(&runtime), "version");
    must(cudaDriverGetVersion(&driver), "version");
    cache_bytes = (size_t)device.l2CacheSize;
    printf("%s, compute capability %d.%d, %d multiprocessors, %zu MB L2, CUDA %d, driver for %d\n",
           device.name, device.major, device.minor, device.multiProcessorCount, cache_bytes >> 20,
           runtime, driver);
    must(cudaStreamCreate(&stream), "stream");
    must(cudaEventCreate(&begin), "event");
    must(cudaEventCreate(&end), "event");
}

/* Random bf16 between 2^-7 and 2 of either sign, or floats of about that size. */
static void fill_part(char *part, size_t bytes)
{
    uint16_t *host = malloc(bytes);
    struct test_random random = {1};
    if (!host)
        must(cudaErrorMemoryAllocation, "host memory");
    for (size_t i = 0; i < bytes / 2; i++) {
        const uint32_t r = test_random_below(&random, 1 << 16);
        host[i] = (uint16_t)((r & 0x807f) | (0x3c00 + (r & 0x380)));
    }
    must(cudaMemcpy(part, host, bytes, cudaMemcpyHostToDevice), "filling");
    free(host);
}

void fill_pools(void)
{
    const size_t part = 16 << 20;
    fill_part(pools[0], part);
    for (int i = 0; i < POOLS; i++)
        for (size_t at = i ? 0 : part; at < POOL_BYTES; at += part)
            must(cudaMemcpy(pools[i] + at, pools[0], part, cudaMemcpyDeviceToDevice), "filling");
    must(cudaMemset(weights_at(4), 0, 2 * 65536), "zeros");
}

static char *make_pool(void)
{
    void *pool = NULL;
    must(cudaMalloc(&pool, POOL_BYTES), "cudaMalloc");
    return pool;
}

void speed_begin(bool tsv)
{
    by_tabs = tsv;
    open_device();
    for (int i = 0; i < POOLS; i++)
        pools[i] = make_pool();
    copied = make_pool();
    fill_pools();
    copy_rate = 2.0 * (double)POOL_BYTES / seconds_of_copy(2.0 * (double)POOL_BYTES);
    printf(tsv ? "copy\t1 GiB\t\t\t%.0f\t100\t\t\n" : "copy of 1 GiB: %.0f GB/s\n",
           copy_rate / 1e9);
}
