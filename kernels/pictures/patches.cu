/* patches.cu - see patches.h.
 *
 * With patches of 2 and channels in eights a thread moves one line of a patch for 8 channels: two
 * 16-byte chunks of a token against 8 pairs of floats, one in each channel's plane.  Either side
 * can be the one along which neighbouring threads lie: what is written decides.  The step reads and
 * writes the planes, so it goes along the picture's lines, the groups of a place side by side: with
 * 16 channels two threads read whole sectors of a token, and half a warp fills a plane's 128 bytes.
 * Patchify writes tokens alone, so a token's threads are neighbours and fill its 128-byte lines.
 * Any other shape goes value by value.
 */
#include "kernels/pictures/patches.h"

#include "kernels/device.cuh"

using namespace kiln;

constexpr int threads = 256;

/* One thread's part of a fast launch, as places in the latents and among the tokens. */
struct part {
    int64_t item, latent, token; /* token: of the patch's left half; the right one is C further */
};

/* Line y of an item, its patch column x, the group'th eight channels. */
static __device__ __forceinline__ part part_at(const struct kiln_patches &s, int64_t item,
                                               unsigned y, unsigned x, unsigned group)
{
    const int64_t row = (item * (s.height / 2) + y / 2) * (s.width / 2) + x;
    const int64_t plane = item * s.channels + group * 8;
    return {item, (plane * s.height + y) * s.width + 2 * x,
            (row * 4 + y % 2 * 2) * s.channels + group * 8};
}

/* The i'th part along the lines of the planes, all groups of a place before the next place. */
static __device__ __forceinline__ part part_of_lines(const struct kiln_patches &s, unsigned i)
{
    const unsigned across = s.width / 2, height = s.height, groups = s.channels / 8;
    const unsigned place = i / groups, line = place / across;
    return part_at(s, line / height, line % height, place % across, i % groups);
}

/* The i'th part token by token: a token's upper line, then its lower one. */
static __device__ __forceinline__ part part_of_tokens(const struct kiln_patches &s, unsigned i)
{
    const unsigned across = s.width / 2, down = s.height / 2, groups = s.channels / 8;
    const unsigned token = i / (2 * groups), place = i % (2 * groups), row = token / across;
    return part_at(s, row / down, row % down * 2 + place / groups, token % across, place % groups);
}

/* Chunks of the transformer's output, and of the second one where there is guidance. */
template <int W> struct output {
    chunk<W> with, without;
};

template <int W>
static __device__ __forceinline__ output<W> load_output(const struct kiln_euler_step &a,
                                                        int64_t token)
{
    output<W> out = {load_chunk<W>(a.with, token, 0), {}};
    if (a.without)
        out.without = load_chunk<W>(a.without, token, 0);
    return out;
}

/* The velocity's opposite. */
template <int W>
static __device__ __forceinline__ void guided(const struct kiln_euler_step &a, const output<W> &out,
                                              float v[W])
{
    float w[W];
    unpack<W>(out.with, v);
    if (!a.without)
        return;
    unpack<W>(out.without, w);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] += a.guidance * (v[i] - w[i]);
}

/* Everything is loaded before the first store, which for all the compiler knows might change it. */
static __global__ void __launch_bounds__(threads)
    step_pairs(const struct kiln_euler_step a, unsigned parts)
{
    const int64_t plane = static_cast<int64_t>(a.shape.height) * a.shape.width;
    for (unsigned i = blockIdx.x * threads + threadIdx.x; i < parts; i += gridDim.x * threads) {
        const part p = part_of_lines(a.shape, i);
        const output<8> on_left = load_output<8>(a, p.token);
        const output<8> on_right = load_output<8>(a, p.token + a.shape.channels);
        float2 v[8];
#pragma unroll
        for (int c = 0; c < 8; c++)
            v[c] = *reinterpret_cast<const float2 *>(a.latent + p.latent + c * plane);
        const float stride = a.stride[p.item];
        float left[8], right[8];
        guided<8>(a, on_left, left);
        guided<8>(a, on_right, right);
        bool good = true;
#pragma unroll
        for (int c = 0; c < 8; c++) {
            v[c].x -= stride * left[c];
            v[c].y -= stride * right[c];
            good = good && finite(v[c].x) && finite(v[c].y);
            *reinterpret_cast<float2 *>(a.latent + p.latent + c * plane) = v[c];
        }
        if (!good && a.bad)
            atomicOr(a.bad + p.item, 1u);
    }
}

static __global__ void __launch_bounds__(threads)
    patchify_pairs(const struct kiln_patchify a, unsigned parts)
{
    const int64_t plane = static_cast<int64_t>(a.shape.height) * a.shape.width;
    for (unsigned i = blockIdx.x * threads + threadIdx.x; i < parts; i += gridDim.x * threads) {
        const part p = part_of_tokens(a.shape, i);
        float left[8], right[8];
#pragma unroll
        for (int c = 0; c < 8; c++) {
            const float2 v = *reinterpret_cast<const float2 *>(a.latent + p.latent + c * plane);
            left[c] = v.x, right[c] = v.y;
        }
        store_chunk<8>(a.tokens, p.token, 0, pack<8>(left));
        store_chunk<8>(a.tokens, p.token + a.shape.channels, 0, pack<8>(right));
    }
}

/* --- any shape -------------------------------------------------------------------------------- */

/* Where value i of the latents is among the tokens; its item in *item. */
static __device__ __forceinline__ int64_t token_of(const struct kiln_patches &s, int64_t i,
                                                   int64_t *item)
{
    const int64_t p = s.patch, x = i % s.width, y = i / s.width % s.height;
    const int64_t c = i / s.width / s.height % s.channels;
    *item = i / s.width / s.height / s.channels;
    const int64_t row = (*item * (s.height / p) + y / p) * (s.width / p) + x / p;
    return (row * p * p + y % p * p + x % p) * s.channels + c;
}

static __global__ void __launch_bounds__(threads)
    step_values(const struct kiln_euler_step a, int64_t values)
{
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < values;
         i += static_cast<int64_t>(gridDim.x) * threads) {
        int64_t item;
        float out[1];
        guided<1>(a, load_output<1>(a, token_of(a.shape, i, &item)), out);
        const float next = a.latent[i] - a.stride[item] * out[0];
        a.latent[i] = next;
        if (!finite(next) && a.bad)
            atomicOr(a.bad + item, 1u);
    }
}

static __global__ void __launch_bounds__(threads)
    patchify_values(const struct kiln_patchify a, int64_t values)
{
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < values;
         i += static_cast<int64_t>(gridDim.x) * threads) {
        int64_t item;
        const int64_t token = token_of(a.shape, i, &item);
        static_cast<uint16_t *>(a.tokens)[token] =
            static_cast<uint16_t>(pack_bf16(a.latent[i], 0.0f));
    }
}

/* --- launching -------------------------------------------------------------------------------- */

static int check(const char *name, const struct kiln_patches *s, struct kiln_error *err)
{
    if (s->items < 0 || s->channels < 1 || s->height < 1 || s->width < 1 || s->patch < 1 ||
        s->height % s->patch || s->width % s->patch)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %lld latents of %d x %d x %d, patches of %d",
                         name, (long long)s->items, s->channels, s->height, s->width, s->patch);
    if (s->format != KILN_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: on the GPU tokens are bf16", name);
    return KILN_OK;
}

static int64_t values_of(const struct kiln_patches *s)
{
    return s->items * s->channels * s->height * s->width;
}

/* Parts are counted in 32 bits, whose divisions are cheap. */
static bool takes_pairs(const struct kiln_patches *s, const void *latent)
{
    return s->patch == 2 && s->channels % 8 == 0 && values_of(s) / 16 < INT32_MAX &&
           on_bytes(latent, 8);
}

extern "C" int kiln_patchify_launch(const struct kiln_patchify *args, kiln_stream stream,
                                    struct kiln_error *err)
{
    const char *name = "patchify";
    const struct kiln_patches *s = &args->shape;
    const int code = check(name, s, err);
    if (code || s->items == 0)
        return code;
    if (!args->latent || !args->tokens)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const int64_t values = values_of(s);
    if (takes_pairs(s, args->latent) && on_bytes(args->tokens, 16))
        return launch(err, name, patchify_pairs, dim3(blocks_for(values / 16, threads)), threads,
                      stream, *args, static_cast<unsigned>(values / 16));
    return launch(err, name, patchify_values, dim3(blocks_for(values, threads)), threads, stream,
                  *args, values);
}

extern "C" int kiln_euler_step_launch(const struct kiln_euler_step *args, kiln_stream stream,
                                      struct kiln_error *err)
{
    const char *name = "euler_step";
    const struct kiln_patches *s = &args->shape;
    const int code = check(name, s, err);
    if (code || s->items == 0)
        return code;
    if (!args->with || !args->stride || !args->latent)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    const int64_t values = values_of(s);
    if (takes_pairs(s, args->latent) && on_bytes(args->with, 16) && on_bytes(args->without, 16))
        return launch(err, name, step_pairs, dim3(blocks_for(values / 16, threads)), threads,
                      stream, *args, static_cast<unsigned>(values / 16));
    return launch(err, name, step_values, dim3(blocks_for(values, threads)), threads, stream, *args,
                  values);
}
