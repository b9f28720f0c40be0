/* group_norm_silu.cu - see group_norm_silu.h; three kernels.
 *
 *     sums    each block adds up its share of the pixels, channel by channel, about the first pixel
 *     gains   a block a group adds the shares up in fp64, and makes of them y = x * gain + offset
 *     apply   reads again, writes once
 *
 * For a picture in parts, the shares of each part are added onto the same sums.
 *
 * A thread stays with its channels and strides over pixels, so that what belongs to a channel is in
 * registers and neighbours read neighbouring chunks.  No atomics: the order of every sum is fixed.
 */
#include "kernels/group_norm_silu.h"

#include "kernels/device.cuh"

using namespace kiln;

constexpr int threads = 256;
constexpr int gain_threads = 512;
constexpr int64_t parts_max = 512; /* more cost the gains more than the sums save */
constexpr int batch = 4;           /* loads of a thread that are under way together */

/* Where things are in the workspace, for `items` pictures of `channels`. */
struct plan {
    double *sums;   /* [items][2][channels] */
    float *gains;   /* [items][2][channels] */
    float *partial; /* [items][parts][2][channels] */
    int64_t parts, part_pixels;
    int64_t pixels; /* of a picture, or of the part of it that is here */
    int onto;       /* whether sums has those of earlier parts already */
};

/* How the threads of a block lie over a picture: `lanes` chunks of channels side by side, `depth`
 * pixels deep; more chunks than lanes take several rounds. */
struct block_shape {
    int chunks, lanes, depth, lane, deep;
};

template <int W> static __device__ __forceinline__ block_shape shape_of(int channels)
{
    block_shape s;
    s.chunks = channels / W;
    s.lanes = s.chunks < threads ? s.chunks : threads;
    s.depth = threads / s.lanes;
    s.lane = threadIdx.x % s.lanes;
    s.deep = threadIdx.x / s.lanes; /* threads beyond the depth have nothing to do */
    return s;
}

/* This block's pixels. */
static __device__ __forceinline__ void pixels_of(const plan &p, int64_t *begin, int64_t *end)
{
    *begin = blockIdx.x * p.part_pixels;
    *end = *begin + p.part_pixels < p.pixels ? *begin + p.part_pixels : p.pixels;
}

template <int W>
static __device__ __forceinline__ void add_pixels(const struct kiln_group_norm &a, int64_t item_at,
                                                  const block_shape &s, int c, const plan &p,
                                                  float sum[W], float square[W])
{
    float first[W];
    int64_t begin, end;
    pixels_of(p, &begin, &end);
    unpack<W>(a.origin ? load_chunk<W>(a.origin, 0, c) : load_chunk<W>(a.x, item_at, c), first);
    for (int64_t pixel = begin + s.deep; pixel < end; pixel += batch * s.depth) {
        chunk<W> in[batch];
#pragma unroll
        for (int k = 0; k < batch; k++)
            if (pixel + k * s.depth < end)
                in[k] = load_chunk<W>(a.x, item_at, (pixel + k * s.depth) * s.chunks + c);
#pragma unroll
        for (int k = 0; k < batch; k++)
            if (pixel + k * s.depth < end) {
                float v[W];
                unpack<W>(in[k], v);
#pragma unroll
                for (int i = 0; i < W; i++) {
                    v[i] -= first[i];
                    sum[i] += v[i];
                    square[i] += v[i] * v[i];
                }
            }
    }
}

template <int W>
static __global__ void __launch_bounds__(threads)
    sum_channels(const struct kiln_group_norm a, const plan p)
{
    __shared__ float held[2 * W][threads];
    const block_shape s = shape_of<W>(a.channels);
    const int64_t item = blockIdx.y, item_at = item * p.pixels * a.channels;
    float *out = p.partial + (item * p.parts + blockIdx.x) * 2 * a.channels;
    for (int round = 0; round < s.chunks; round += s.lanes) {
        const int c = round + s.lane;
        float sum[W] = {}, square[W] = {};
        if (s.deep < s.depth && c < s.chunks)
            add_pixels<W>(a, item_at, s, c, p, sum, square);
#pragma unroll
        for (int i = 0; i < W; i++) {
            held[i][threadIdx.x] = sum[i];
            held[W + i][threadIdx.x] = square[i];
        }
        __syncthreads();
        if (s.deep == 0 && c < s.chunks)
#pragma unroll
            for (int i = 0; i < W; i++) {
                double total = 0, total_square = 0;
                for (int d = 0; d < s.depth; d++) {
                    total += held[i][d * s.lanes + s.lane];
                    total_square += held[W + i][d * s.lanes + s.lane];
                }
                out[c * W + i] = static_cast<float>(total);
                out[a.channels + c * W + i] = static_cast<float>(total_square);
            }
        __syncthreads();
    }
}

/* --- gains ------------------------------------------------------------------------------------ */

static __device__ __forceinline__ double bf16_at(const void *p, int64_t i)
{
    return low_bf16(static_cast<const uint16_t *>(p)[i]);
}

/* Adds the parts of this block's channels into p.sums; all threads return together. */
static __device__ __forceinline__ void add_parts(const plan &p, int channels, int width, int first,
                                                 int64_t item)
{
    __shared__ double held[2][gain_threads];
    const int lanes = width < gain_threads ? width : gain_threads, depth = gain_threads / lanes;
    const int lane = threadIdx.x % lanes, deep = threadIdx.x / lanes;
    for (int round = 0; round < width; round += lanes) {
        const int c = round + lane;
        double sum = 0, square = 0;
        if (deep < depth && c < width)
#pragma unroll 8
            for (int64_t part = deep; part < p.parts; part += depth) {
                const float *from = p.partial + (item * p.parts + part) * 2 * channels + first + c;
                sum += from[0];
                square += from[channels];
            }
        held[0][threadIdx.x] = sum;
        held[1][threadIdx.x] = square;
        __syncthreads();
        if (deep == 0 && c < width) {
            for (int d = 1; d < depth; d++) {
                sum += held[0][d * lanes + lane];
                square += held[1][d * lanes + lane];
            }
            double *to = p.sums + item * 2 * channels + first + c;
            to[0] = p.onto ? to[0] + sum : sum;
            to[channels] = p.onto ? to[channels] + square : square;
        }
        __syncthreads();
    }
}

/* The shares of a part onto the sums of those before; block (group). */
static __global__ void __launch_bounds__(gain_threads)
    add_part(const struct kiln_group_norm a, const plan p)
{
    const int width = a.channels / a.groups;
    add_parts(p, a.channels, width, blockIdx.x * width, 0);
}

/* The sum of what `term` is of the group's channels, in their order.  A term has divisions in fp64,
 * which are slow: each is one thread's, and only the adding up is everybody's.  Threads that have
 * no channel have no use for the sum, and get 0. */
template <typename Term>
static __device__ __forceinline__ double sum_terms(int first, int width, const Term &term)
{
    __shared__ double terms[gain_threads];
    const int me = static_cast<int>(threadIdx.x);
    double sum = 0;
    for (int round = 0; round < width; round += gain_threads) {
        const int count = width - round < gain_threads ? width - round : gain_threads;
        __syncthreads(); /* the round before has been added up */
        if (me < count)
            terms[me] = term(first + round + me);
        __syncthreads();
        for (int i = 0; me < width && i < count; i++)
            sum += terms[i];
    }
    return sum;
}

/* Block (group, item); the arithmetic is that of gains() in group_norm_silu_ref.c.  No parts: the
 * sums are there. */
static __global__ void __launch_bounds__(gain_threads)
    make_gains(const struct kiln_group_norm a, const plan p)
{
    const int width = a.channels / a.groups, first = blockIdx.x * width;
    const int64_t item = blockIdx.y;
    const double pixels = static_cast<double>(a.pixels);
    if (p.parts)
        add_parts(p, a.channels, width, first, item);
    const double *sums = p.sums + item * 2 * a.channels, *squares = sums + a.channels;
    const void *x =
        a.origin ? a.origin : static_cast<const uint16_t *>(a.x) + item * p.pixels * a.channels;
    const double mean =
        sum_terms(first, width, [&](int i) { return (bf16_at(x, i) + sums[i] / pixels) / width; });
    const double second = sum_terms(first, width, [&](int i) {
        const double shift = bf16_at(x, i) - mean;
        return (squares[i] / pixels + 2 * shift * sums[i] / pixels + shift * shift) / width;
    });
    if (static_cast<int>(threadIdx.x) >= width)
        return;
    const double inverse = 1.0 / sqrt((second > 0 ? second : 0) + static_cast<double>(a.eps));
    for (int i = first + threadIdx.x; i < first + width; i += gain_threads) {
        const double factor = inverse * bf16_at(a.weight, i);
        p.gains[item * 2 * a.channels + i] = static_cast<float>(factor);
        p.gains[(item * 2 + 1) * a.channels + i] =
            static_cast<float>(bf16_at(a.bias, i) - mean * factor);
    }
}

/* --- apply ------------------------------------------------------------------------------------ */

template <int W>
static __device__ __forceinline__ chunk<W> normed(const chunk<W> &in, const float gain[W],
                                                  const float offset[W], int silu)
{
    float v[W];
    unpack<W>(in, v);
#pragma unroll
    for (int i = 0; i < W; i++)
        v[i] = v[i] * gain[i] + offset[i];
    if (silu) {
        round_all<W>(v);
#pragma unroll
        for (int i = 0; i < W; i++)
            v[i] = __fdividef(v[i], 1.0f + __expf(-v[i]));
    }
    return pack<W>(v);
}

template <int W>
static __global__ void __launch_bounds__(threads)
    apply(const struct kiln_group_norm a, const plan p)
{
    const block_shape s = shape_of<W>(a.channels);
    const int64_t item = blockIdx.y, item_at = item * p.pixels * a.channels;
    int64_t begin, end;
    pixels_of(p, &begin, &end);
    if (s.deep >= s.depth)
        return;
    for (int c = s.lane; c < s.chunks; c += s.lanes) {
        float gain[W], offset[W];
        const float *gains = p.gains + item * 2 * a.channels + c * W;
#pragma unroll
        for (int i = 0; i < W; i++) {
            gain[i] = gains[i];
            offset[i] = gains[a.channels + i];
        }
        for (int64_t pixel = begin + s.deep; pixel < end; pixel += batch * s.depth) {
            /* y may be x: the loads are written in front, or each would wait for a store. */
            chunk<W> in[batch];
#pragma unroll
            for (int k = 0; k < batch; k++)
                if (pixel + k * s.depth < end)
                    in[k] = load_chunk<W>(a.x, item_at, (pixel + k * s.depth) * s.chunks + c);
#pragma unroll
            for (int k = 0; k < batch; k++)
                if (pixel + k * s.depth < end)
                    store_chunk<W>(a.y, item_at, (pixel + k * s.depth) * s.chunks + c,
                                   normed<W>(in[k], gain, offset, a.silu));
        }
    }
}

/* --- launching -------------------------------------------------------------------------------- */

/* So many parts that each thread of a part has a batch of chunks to load, within bounds. */
static int64_t parts_of(int64_t pixels, int channels)
{
    const int64_t values = pixels * channels, share = (int64_t)threads * 8 * batch;
    const int64_t parts = (values + share - 1) / share;
    const int64_t most = pixels < parts_max ? pixels : parts_max;
    return parts < most ? parts : most;
}

extern "C" size_t kiln_group_norm_workspace(const struct kiln_group_norm *args, int64_t items)
{
    const size_t channels = (size_t)(items * args->channels);
    return channels * (2 * sizeof(double) + 2 * sizeof(float)) +
           channels * 2 * sizeof(float) * (size_t)parts_of(args->pixels, args->channels);
}

static int check(const struct kiln_group_norm *a, int64_t items, const void *workspace,
                 struct kiln_error *err)
{
    if (items < 0 || a->pixels < 1 || a->channels < 1 || a->groups < 1 || a->channels % a->groups)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "group_norm: %lld pictures of %lld pixels, %d channels in %d groups",
                         (long long)items, (long long)a->pixels, a->channels, a->groups);
    if (a->channels > KILN_NORM_CHANNELS_MAX || items > 65535)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "group_norm: %lld pictures of %d channels; at most "
                         "65535 and %d",
                         (long long)items, a->channels, KILN_NORM_CHANNELS_MAX);
    if (a->format != KILN_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "group_norm: on the GPU pictures are bf16");
    if (items &&
        (!a->x || !a->weight || !a->bias || !a->y || !workspace || !on_bytes(workspace, 16)))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "group_norm: an operand is missing, or the workspace "
                         "not on 16 bytes");
    return KILN_OK;
}

/* Of `items` pictures, or parts of pictures, with so many pixels each. */
static plan plan_of(const struct kiln_group_norm *a, int64_t items, int64_t pixels, void *workspace)
{
    plan p;
    p.pixels = pixels;
    p.onto = 0;
    p.parts = parts_of(pixels, a->channels);
    p.part_pixels = (pixels + p.parts - 1) / p.parts;
    p.sums = static_cast<double *>(workspace);
    p.gains = reinterpret_cast<float *>(p.sums + items * 2 * a->channels);
    p.partial = p.gains + items * 2 * a->channels;
    return p;
}

/* Whether sums, or norming, may go by chunks of eight channels. */
static bool by_chunks(const struct kiln_group_norm *a)
{
    return a->channels % 8 == 0 && on_bytes(a->x, 16) && on_bytes(a->y, 16) &&
           on_bytes(a->origin, 16);
}

static const char name[] = "group_norm";

extern "C" int kiln_group_norm_launch(const struct kiln_group_norm *args, int64_t items,
                                      void *workspace, kiln_stream stream, struct kiln_error *err)
{
    int code = check(args, items, workspace, err);
    if (code || items == 0)
        return code;
    const plan p = plan_of(args, items, args->pixels, workspace);
    const unsigned rows = static_cast<unsigned>(items);
    const dim3 grid(static_cast<unsigned>(p.parts), rows);
    code = launch(err, name, by_chunks(args) ? sum_channels<8> : sum_channels<1>, grid, threads,
                  stream, *args, p);
    if (code)
        return code;
    code = launch(err, name, make_gains, dim3(static_cast<unsigned>(args->groups), rows),
                  gain_threads, stream, *args, p);
    if (code)
        return code;
    return launch(err, name, by_chunks(args) ? apply<8> : apply<1>, grid, threads, stream, *args,
                  p);
}

/* --- pictures in parts ------------------------------------------------------------------------ */

static int check_part(const struct kiln_group_norm *a, int64_t count, const double *sums,
                      const void *workspace, struct kiln_error *err)
{
    int code = check(a, 1, workspace, err);
    if (code)
        return code;
    if (count < 0 || count > a->pixels || !a->origin || !sums)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "group_norm: a part of %lld of %lld pixels; its origin or its sums may be "
                         "missing",
                         (long long)count, (long long)a->pixels);
    return KILN_OK;
}

extern "C" int kiln_group_norm_add_launch(const struct kiln_group_norm *args, int64_t count,
                                          double *sums, void *workspace, kiln_stream stream,
                                          struct kiln_error *err)
{
    int code = check_part(args, count, sums, workspace, err);
    if (code || count == 0)
        return code;
    plan p = plan_of(args, 1, count, workspace);
    p.sums = sums;
    p.onto = 1;
    code = launch(err, name, by_chunks(args) ? sum_channels<8> : sum_channels<1>,
                  dim3(static_cast<unsigned>(p.parts)), threads, stream, *args, p);
    if (code)
        return code;
    return launch(err, name, add_part, dim3(static_cast<unsigned>(args->groups)), gain_threads,
                  stream, *args, p);
}

extern "C" int kiln_group_norm_part_launch(const struct kiln_group_norm *args, int64_t count,
                                           double *sums, void *workspace, kiln_stream stream,
                                           struct kiln_error *err)
{
    int code = check_part(args, count, sums, workspace, err);
    if (code || count == 0)
        return code;
    plan p = plan_of(args, 1, count, workspace);
    const dim3 grid(static_cast<unsigned>(p.parts));
    p.sums = sums;
    plan summed = p;
    summed.parts = 0;
    code = launch(err, name, make_gains, dim3(static_cast<unsigned>(args->groups)), gain_threads,
                  stream, *args, summed);
    if (code)
        return code;
    return launch(err, name, by_chunks(args) ? apply<8> : apply<1>, grid, threads, stream, *args,
                  p);
}
