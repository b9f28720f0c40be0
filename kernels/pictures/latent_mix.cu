/* latent_mix.cu - see latent_mix.h; element by element, four at a time where pointers allow it.
 *
 * slerp needs the angle before the first value: one kernel leaves partial sums in fp64, as many as
 * the count of values says whatever the device, and every block of the second adds them up in the
 * same order.
 */
#include "kernels/pictures/latent_mix.h"

#include "kernels/device.cuh"

using namespace kiln;

constexpr int threads = 256;

/* W floats at once: 4 or 1. */
template <int W>
static __device__ __forceinline__ void load(const float *p, int64_t index, float v[W])
{
    if constexpr (W == 4) {
        const float4 f = reinterpret_cast<const float4 *>(p)[index];
        v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
    } else {
        v[0] = p[index];
    }
}

template <int W>
static __device__ __forceinline__ void store(float *p, int64_t index, const float v[W])
{
    if constexpr (W == 4)
        reinterpret_cast<float4 *>(p)[index] = make_float4(v[0], v[1], v[2], v[3]);
    else
        p[index] = v[0];
}

static __device__ __forceinline__ int64_t first_index()
{
    return static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
}

static __device__ __forceinline__ int64_t index_step()
{
    return static_cast<int64_t>(gridDim.x) * threads;
}

template <int W>
static __global__ void __launch_bounds__(threads) split(const struct kiln_latent_split a)
{
    for (int64_t i = first_index(); i < a.n / W; i += index_step()) {
        float x[W], v[W], out[W];
        load<W>(a.x, i, x);
        load<W>(a.velocity, i, v);
        if (a.clean) {
#pragma unroll
            for (int k = 0; k < W; k++)
                out[k] = x[k] - a.sigma * v[k];
            store<W>(a.clean, i, out);
        }
        if (a.noise) {
#pragma unroll
            for (int k = 0; k < W; k++)
                out[k] = x[k] + (1.0f - a.sigma) * v[k];
            store<W>(a.noise, i, out);
        }
    }
}

template <int W>
static __device__ __forceinline__ void weigh(const float *const *from, const float *weights,
                                             int count, int64_t i, float sum[W])
{
#pragma unroll
    for (int k = 0; k < W; k++)
        sum[k] = 0;
#pragma unroll
    for (int d = 0; d < KILN_MIX_MAX; d++)
        if (d < count) {
            float v[W];
            load<W>(from[d], i, v);
#pragma unroll
            for (int k = 0; k < W; k++)
                sum[k] += weights[d] * v[k];
        }
}

template <int W>
static __global__ void __launch_bounds__(threads) mix(const struct kiln_latent_mix a)
{
    for (int64_t i = first_index(); i < a.n / W; i += index_step()) {
        float clean[W], noise[W];
        weigh<W>(a.clean, a.clean_weight, a.clean_count, i, clean);
        weigh<W>(a.noise, a.noise_weight, a.noise_count, i, noise);
#pragma unroll
        for (int k = 0; k < W; k++)
            clean[k] = (1.0f - a.sigma) * clean[k] + a.sigma * noise[k];
        store<W>(a.x, i, clean);
    }
}

/* --- slerp ------------------------------------------------------------------------------------ */

/* The sum over the block, in every thread; shared memory as in block_sum. */
static __device__ __forceinline__ double block_sum(double v, double *slots)
{
#pragma unroll
    for (int step = warp_size / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(all_lanes, v, step);
    if (threadIdx.x % warp_size == 0)
        slots[threadIdx.x / warp_size] = v;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < threads / warp_size; i++)
        sum += slots[i];
    return sum;
}

/* A block a part: workspace = aa of every part, then bb, then ab. */
template <int W>
static __global__ void __launch_bounds__(threads) slerp_sums(const struct kiln_slerp args)
{
    __shared__ double slots[3][threads / warp_size];
    double aa = 0, bb = 0, ab = 0;
    for (int64_t i = first_index(); i < args.n / W; i += index_step()) {
        float a[W], b[W];
        load<W>(args.a, i, a);
        load<W>(args.b, i, b);
#pragma unroll
        for (int k = 0; k < W; k++) {
            aa += static_cast<double>(a[k]) * static_cast<double>(a[k]);
            bb += static_cast<double>(b[k]) * static_cast<double>(b[k]);
            ab += static_cast<double>(a[k]) * static_cast<double>(b[k]);
        }
    }
    aa = block_sum(aa, slots[0]);
    bb = block_sum(bb, slots[1]);
    ab = block_sum(ab, slots[2]);
    if (threadIdx.x == 0) {
        args.workspace[blockIdx.x] = aa;
        args.workspace[gridDim.x + blockIdx.x] = bb;
        args.workspace[2 * gridDim.x + blockIdx.x] = ab;
    }
}

/* The weights of a and b; every thread of every block gets the same. */
static __device__ __forceinline__ float2 slerp_weights(const struct kiln_slerp &args, int parts,
                                                       double slots[3][threads / warp_size])
{
    double sums[3];
#pragma unroll
    for (int s = 0; s < 3; s++) {
        double part = 0;
        for (int i = threadIdx.x; i < parts; i += threads)
            part += args.workspace[s * parts + i];
        sums[s] = block_sum(part, slots[s]);
    }
    const double t = args.t, size = sqrt(sums[0] * sums[1]);
    const double cosine = size > 0 ? fmin(1.0, fmax(-1.0, sums[2] / size)) : 1.0;
    const double angle = acos(cosine), sine = sin(angle);
    if (sine > KILN_SLERP_PARALLEL)
        return make_float2(static_cast<float>(sin((1 - t) * angle) / sine),
                           static_cast<float>(sin(t * angle) / sine));
    return make_float2(static_cast<float>(1 - t), static_cast<float>(t));
}

template <int W>
static __global__ void __launch_bounds__(threads)
    slerp_apply(const struct kiln_slerp args, int parts)
{
    __shared__ double slots[3][threads / warp_size];
    const float2 weights = slerp_weights(args, parts, slots);
    for (int64_t i = first_index(); i < args.n / W; i += index_step()) {
        float a[W], b[W];
        load<W>(args.a, i, a);
        load<W>(args.b, i, b);
#pragma unroll
        for (int k = 0; k < W; k++)
            a[k] = weights.x * a[k] + weights.y * b[k];
        store<W>(args.x, i, a);
    }
}

/* --- launching -------------------------------------------------------------------------------- */

static int check(const char *name, int64_t n, float share, struct kiln_error *err)
{
    if (n < 0 || !(share >= 0 && share <= 1))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %lld values, %g of 0 .. 1", name, (long long)n,
                         static_cast<double>(share));
    return KILN_OK;
}

extern "C" int kiln_latent_split_launch(const struct kiln_latent_split *args, kiln_stream stream,
                                        struct kiln_error *err)
{
    const char *name = "latent_split";
    const int code = check(name, args->n, args->sigma, err);
    if (code || args->n == 0)
        return code;
    if (!args->x || !args->velocity || (!args->clean && !args->noise))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const bool fours = args->n % 4 == 0 && on_bytes(args->x, 16) && on_bytes(args->velocity, 16) &&
                       on_bytes(args->clean, 16) && on_bytes(args->noise, 16);
    return launch(err, name, fours ? split<4> : split<1>,
                  dim3(blocks_for(args->n / (fours ? 4 : 1), threads)), threads, stream, *args);
}

static bool sources_on_16(const float *const *from, int count)
{
    for (int i = 0; i < count; i++)
        if (!on_bytes(from[i], 16))
            return false;
    return true;
}

static bool sources_there(const float *const *from, int count)
{
    for (int i = 0; i < count; i++)
        if (!from[i])
            return false;
    return count >= 0;
}

extern "C" int kiln_latent_mix_launch(const struct kiln_latent_mix *args, kiln_stream stream,
                                      struct kiln_error *err)
{
    const char *name = "latent_mix";
    const int code = check(name, args->n, args->sigma, err);
    if (code || args->n == 0)
        return code;
    if (args->clean_count > KILN_MIX_MAX || args->noise_count > KILN_MIX_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %d and %d donors; at most %d", name,
                         args->clean_count, args->noise_count, KILN_MIX_MAX);
    if (!args->x || !sources_there(args->clean, args->clean_count) ||
        !sources_there(args->noise, args->noise_count))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const bool fours = args->n % 4 == 0 && on_bytes(args->x, 16) &&
                       sources_on_16(args->clean, args->clean_count) &&
                       sources_on_16(args->noise, args->noise_count);
    return launch(err, name, fours ? mix<4> : mix<1>,
                  dim3(blocks_for(args->n / (fours ? 4 : 1), threads)), threads, stream, *args);
}

/* Parts of at least eight values a thread, so that one latent's sums are few to add up, within what
 * fills a device and what every block of slerp_apply can add up beside its own values. */
static unsigned slerp_parts(int64_t n)
{
    const int64_t parts = n / (threads * 8), least = 128, most = KILN_SLERP_PARTS_MAX;
    return static_cast<unsigned>(parts < least ? least : parts < most ? parts : most);
}

extern "C" int kiln_slerp_launch(const struct kiln_slerp *args, kiln_stream stream,
                                 struct kiln_error *err)
{
    const char *name = "slerp";
    int code = check(name, args->n, args->t, err);
    if (code || args->n == 0)
        return code;
    if (!args->a || !args->b || !args->x || !args->workspace)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const bool fours =
        args->n % 4 == 0 && on_bytes(args->a, 16) && on_bytes(args->b, 16) && on_bytes(args->x, 16);
    const unsigned parts = slerp_parts(args->n);
    code = launch(err, name, fours ? slerp_sums<4> : slerp_sums<1>, dim3(parts), threads, stream,
                  *args);
    if (code)
        return code;
    /* Every block adds up all the parts: no more blocks than pay for it. */
    const unsigned blocks = blocks_for(args->n / (fours ? 4 : 1), threads);
    return launch(err, name, fours ? slerp_apply<4> : slerp_apply<1>,
                  dim3(blocks < parts ? blocks : parts), threads, stream, *args,
                  static_cast<int>(parts));
}
