/* group_norm_silu.cu - see group_norm_silu.h; three kernels.
 *
 *     sums    blocks take tiles of the pixels by turns and add them up, channel by channel
 *     gains   a block a group adds their sums up in fp64, and makes of them y = x * gain + offset
 *     apply   reads again, writes once
 *
 * A small map goes by slices instead (group_norm_slices.cu).  For a picture in parts, the sums of
 * each part are added onto the same sums.
 *
 * A thread stays with its channels and strides over pixels, so that what belongs to a channel is in
 * registers and neighbours read neighbouring chunks.  Apply begins with what sums read last, which
 * the L2 cache still holds.  No atomics: the order of every sum is fixed.
 */
#include "kernels/pictures/group_norm_silu.h"

#include "kernels/pictures/group_norm.cuh"

using namespace kiln;

constexpr int sum_threads = 512;
constexpr int gain_threads = 512;
constexpr int apply_threads = 256;
constexpr int64_t parts_max = 256; /* more cost the gains more than the sums save */
constexpr int batch = 4;           /* chunks of a thread in a tile: loads under way together */

/* How the threads of a block lie over a picture: `lanes` chunks of channels side by side, `depth`
 * pixels deep; more chunks than lanes take several rounds.  A tile is `batch` times as deep. */
struct block_shape {
    int chunks, lanes, depth, lane, deep;
};

template <int W, int THREADS> static __device__ __forceinline__ block_shape shape_of(int channels)
{
    block_shape s;
    s.chunks = channels / W;
    s.lanes = s.chunks < THREADS ? s.chunks : THREADS;
    s.depth = THREADS / s.lanes;
    s.lane = threadIdx.x % s.lanes;
    s.deep = threadIdx.x / s.lanes; /* threads beyond the depth have nothing to do */
    return s;
}

/* This thread's chunks of a tile: those of `pixel` and of every depth'th one behind it, as far as
 * there are such pixels. */
template <int W>
static __device__ __forceinline__ void load_tile(const struct kiln_group_norm &a, int64_t item_at,
                                                 const block_shape &s, int c, int64_t pixel,
                                                 int64_t pixels, chunk<W> ret[batch])
{
#pragma unroll
    for (int k = 0; k < batch; k++)
        if (pixel + k * s.depth < pixels)
            ret[k] = load_chunk<W>(a.x, item_at, (pixel + k * s.depth) * s.chunks + c);
}

template <int W>
static __device__ __forceinline__ void add_pixels(const struct kiln_group_norm &a, int64_t item_at,
                                                  const block_shape &s, int c, int64_t pixels,
                                                  float sum[W], float square[W])
{
    const int tile = batch * s.depth;
    float first[W];
    unpack<W>(load_chunk<W>(origin_of(a, item_at), 0, c), first);
    for (int64_t pixel = static_cast<int64_t>(blockIdx.x) * tile + s.deep; pixel < pixels;
         pixel += static_cast<int64_t>(gridDim.x) * tile) {
        chunk<W> in[batch];
        load_tile<W>(a, item_at, s, c, pixel, pixels, in);
#pragma unroll
        for (int k = 0; k < batch; k++)
            if (pixel + k * s.depth < pixels)
                add_chunk<W>(in[k], first, sum, square);
    }
}

template <int W>
static __global__ void __launch_bounds__(sum_threads)
    sum_channels(const struct kiln_group_norm a, const norm_plan p)
{
    __shared__ float held[2 * W][sum_threads];
    const block_shape s = shape_of<W, sum_threads>(a.channels);
    const int64_t item = blockIdx.y, item_at = item * p.pixels * a.channels;
    float *out = p.partial + (item * p.parts + blockIdx.x) * 2 * a.channels;
    let_next_start();
    for (int round = 0; round < s.chunks; round += s.lanes) {
        const int c = round + s.lane;
        float sum[W] = {}, square[W] = {};
        if (s.deep < s.depth && c < s.chunks)
            add_pixels<W>(a, item_at, s, c, p.pixels, sum, square);
#pragma unroll
        for (int i = 0; i < W; i++) {
            held[i][threadIdx.x] = sum[i];
            held[W + i][threadIdx.x] = square[i];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 2 * W * s.lanes; i += sum_threads) {
            const int lane = i % s.lanes, value = i / s.lanes; /* W sums, then W squares */
            double total = 0;
#pragma unroll 8
            for (int d = 0; d < s.depth; d++)
                total += held[value][d * s.lanes + lane];
            if (round + lane < s.chunks)
                out[value / W * a.channels + (round + lane) * W + value % W] =
                    static_cast<float>(total);
        }
        __syncthreads();
    }
}

/* --- gains ------------------------------------------------------------------------------------ */

/* Adds the parts of this block's channels into p.sums; all threads return together. */
static __device__ __forceinline__ void add_parts(const norm_plan &p, int channels, int width,
                                                 int first, int64_t item)
{
    __shared__ double held[2][gain_threads];
    const int lanes = width < gain_threads ? width : gain_threads, depth = gain_threads / lanes;
    const int lane = threadIdx.x % lanes, deep = threadIdx.x / lanes, me = threadIdx.x;
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
        held[0][me] = sum;
        held[1][me] = square;
        __syncthreads();
        for (int n = p.parts < depth ? static_cast<int>(p.parts) : depth; n > 1; n = (n + 1) / 2) {
            const int half = (n + 1) / 2;
            if (deep + half < n) {
                held[0][me] += held[0][me + half * lanes];
                held[1][me] += held[1][me + half * lanes];
            }
            __syncthreads();
        }
        if (deep == 0 && c < width) {
            double *to = p.sums + item * 2 * channels + first + c;
            to[0] = p.onto ? to[0] + held[0][me] : held[0][me];
            to[channels] = p.onto ? to[channels] + held[1][me] : held[1][me];
        }
        __syncthreads();
    }
}

/* The sums of a part onto those of the parts before; block (group). */
static __global__ void __launch_bounds__(gain_threads)
    add_part(const struct kiln_group_norm a, const norm_plan p)
{
    const int width = a.channels / a.groups;
    await_previous();
    add_parts(p, a.channels, width, blockIdx.x * width, 0);
}

/* The sum of what `term` is of the group's channels, in their order.  Each term is one thread's,
 * and only the adding up is everybody's.  Threads that have no channel have no use for the sum, and
 * get 0. */
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
        if (me < width)
#pragma unroll 8
            for (int i = 0; i < count; i++)
                sum += terms[i];
    }
    return sum;
}

/* Block (group, item).  No parts: the sums are there. */
static __global__ void __launch_bounds__(gain_threads)
    make_gains(const struct kiln_group_norm a, const norm_plan p)
{
    const int width = a.channels / a.groups, first = blockIdx.x * width;
    const int64_t item = blockIdx.y;
    const void *x = origin_of(a, item * p.pixels * a.channels);
    let_next_start();
    for (int i = first + threadIdx.x; i < first + width; i += gain_threads)
        prefetch(x, i), prefetch(a.weight, i), prefetch(a.bias, i);
    await_previous();
    if (p.parts)
        add_parts(p, a.channels, width, first, item);
    const double *sums = p.sums + item * 2 * a.channels, *squares = sums + a.channels;
    const double mean = p.of_width * sum_terms(first, width, [&](int i) {
                            return mean_term(bf16_at(x, i) + x_bias_at(a, i), sums[i], p);
                        });
    const double second =
        p.of_width * sum_terms(first, width, [&](int i) {
            return second_term(bf16_at(x, i) + x_bias_at(a, i), mean, sums[i], squares[i], p);
        });
    if (static_cast<int>(threadIdx.x) >= width)
        return;
    const double inverse = inverse_of(second, a.eps);
    for (int i = first + threadIdx.x; i < first + width; i += gain_threads) {
        const norm_line line =
            line_of(mean - x_bias_at(a, i), inverse, bf16_at(a.weight, i), bf16_at(a.bias, i));
        p.gains[item * 2 * a.channels + i] = line.gain;
        p.gains[(item * 2 + 1) * a.channels + i] = line.offset;
    }
}

/* --- apply ------------------------------------------------------------------------------------ */

/* A tile a block, the picture's last tile first.  y may be x: a thread loads its chunks of the tile
 * before it writes one, and no two threads share a chunk. */
template <int W>
static __global__ void __launch_bounds__(apply_threads)
    apply(const struct kiln_group_norm a, const norm_plan p)
{
    const block_shape s = shape_of<W, apply_threads>(a.channels);
    const int64_t item = blockIdx.y, item_at = item * p.pixels * a.channels;
    const int64_t pixel =
        static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * batch * s.depth + s.deep;
    if (s.deep >= s.depth)
        return;
    for (int c = s.lane; c < s.chunks; c += s.lanes) {
        chunk<W> in[batch];
        load_tile<W>(a, item_at, s, c, pixel, p.pixels, in);
        await_previous();
        float gain[W], offset[W];
        const float *gains = p.gains + item * 2 * a.channels + c * W;
#pragma unroll
        for (int i = 0; i < W; i++) {
            gain[i] = gains[i];
            offset[i] = gains[a.channels + i];
        }
#pragma unroll
        for (int k = 0; k < batch; k++)
            if (pixel + k * s.depth < p.pixels)
                store_chunk<W>(a.y, item_at, (pixel + k * s.depth) * s.chunks + c,
                               normed<W>(in[k], gain, offset, a.silu));
    }
}

/* --- launching -------------------------------------------------------------------------------- */

static int64_t parts_of(int64_t pixels, int channels)
{
    const int64_t tile = (int64_t)sum_threads * 8 * batch;
    const int64_t tiles = (pixels * channels + tile - 1) / tile;
    const int64_t most = pixels < parts_max ? pixels : parts_max;
    return tiles < most ? tiles : most;
}

/* Of a picture, where apply takes so many channels at once. */
static unsigned apply_tiles(int64_t pixels, int channels, int at_once)
{
    const int chunks = channels / at_once, lanes = chunks < apply_threads ? chunks : apply_threads;
    const int tile = batch * (apply_threads / lanes);
    return static_cast<unsigned>((pixels + tile - 1) / tile);
}

extern "C" size_t kiln_group_norm_workspace(const struct kiln_group_norm *args, int64_t items)
{
    const size_t channels = (size_t)(items * args->channels);
    const int64_t parts = parts_of(args->pixels, args->channels);
    return channels * (2 * sizeof(double) + 2 * sizeof(float)) +
           channels * 2 * sizeof(float) *
               (size_t)(parts > norm_slice_parts ? parts : norm_slice_parts);
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
                         "group_norm: %lld pictures of %d channels; at most 65535 and %d",
                         (long long)items, a->channels, KILN_NORM_CHANNELS_MAX);
    if (a->format != KILN_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "group_norm: on the GPU pictures are bf16");
    if (items &&
        (!a->x || !a->weight || !a->bias || !a->y || !workspace || !on_bytes(workspace, 16)))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "group_norm: an operand is missing, or the workspace not on 16 bytes");
    return KILN_OK;
}

/* Of `items` pictures, or parts of pictures, with so many pixels each. */
static norm_plan plan_of(const struct kiln_group_norm *a, int64_t items, int64_t pixels,
                         void *workspace)
{
    norm_plan p;
    p.pixels = pixels;
    p.onto = 0;
    p.of_pixels = 1.0 / static_cast<double>(a->pixels);
    p.of_width = static_cast<double>(a->groups) / a->channels;
    p.parts = parts_of(pixels, a->channels);
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

static int launch_sums(const struct kiln_group_norm *a, unsigned items, const norm_plan &p,
                       kiln_stream stream, struct kiln_error *err)
{
    return launch(err, name, by_chunks(a) ? sum_channels<8> : sum_channels<1>,
                  dim3(static_cast<unsigned>(p.parts), items), sum_threads, stream, *a, p);
}

static int launch_apply(const struct kiln_group_norm *a, unsigned items, const norm_plan &p,
                        kiln_stream stream, struct kiln_error *err)
{
    const bool chunks = by_chunks(a);
    const dim3 grid(apply_tiles(p.pixels, a->channels, chunks ? 8 : 1), items);
    return launch_early(err, name, chunks ? apply<8> : apply<1>, grid, apply_threads, stream, *a,
                        p);
}

extern "C" int kiln_group_norm_launch(const struct kiln_group_norm *args, int64_t items,
                                      void *workspace, kiln_stream stream, struct kiln_error *err)
{
    int code = check(args, items, workspace, err);
    if (code || items == 0)
        return code;
    norm_plan p = plan_of(args, items, args->pixels, workspace);
    const unsigned rows = static_cast<unsigned>(items);
    bool done = false;
    if (by_chunks(args) && norm_takes_slices(args)) {
        p.parts = norm_slice_parts;
        code = norm_slices(args, items, p, stream, &done, err);
    } else {
        code = launch_sums(args, rows, p, stream, err);
    }
    if (code || done)
        return code;
    code = launch_early(err, name, make_gains, dim3(static_cast<unsigned>(args->groups), rows),
                        gain_threads, stream, *args, p);
    return code ? code : launch_apply(args, rows, p, stream, err);
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
    norm_plan p = plan_of(args, 1, count, workspace);
    p.sums = sums;
    p.onto = 1;
    code = launch_sums(args, 1, p, stream, err);
    if (code)
        return code;
    return launch_early(err, name, add_part, dim3(static_cast<unsigned>(args->groups)),
                        gain_threads, stream, *args, p);
}

extern "C" int kiln_group_norm_part_launch(const struct kiln_group_norm *args, int64_t count,
                                           double *sums, void *workspace, kiln_stream stream,
                                           struct kiln_error *err)
{
    int code = check_part(args, count, sums, workspace, err);
    if (code || count == 0)
        return code;
    norm_plan p = plan_of(args, 1, count, workspace);
    p.sums = sums;
    p.parts = 0;
    code = launch(err, name, make_gains, dim3(static_cast<unsigned>(args->groups)), gain_threads,
                  stream, *args, p);
    return code ? code : launch_apply(args, 1, p, stream, err);
}
