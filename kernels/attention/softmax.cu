/* softmax.cu - see softmax.h; a block a row.  The order of every sum is fixed.
 *
 * Aligned rows of up to 16,384 scores stay in the registers of their block, eight chunks of four a
 * thread: they are read once, and every exponential is worked out once.  Which threads and how many
 * follows from the length alone.
 *
 * Any other row is read twice, the second time from the caches: a thread keeps the largest score it
 * has seen and the sum of exponentials about it, so that one reading gives both.
 */
#include "kernels/attention/softmax.h"

#include "kernels/rows.cuh"

using namespace kiln;

constexpr int threads = 512; /* at most, where the row is held */
constexpr int held_items = 8, held_width = 4;

struct run { /* over the scores seen so far; sum is of exp((x - top) * scale) */
    float top, sum;
};

template <int W> struct scores {
    float v[W];
};

template <int W>
static __device__ __forceinline__ scores<W> load_scores(const float *row, int64_t index)
{
    scores<W> s;
    if constexpr (W == 1) {
        s.v[0] = row[index];
    } else {
        const float4 four = reinterpret_cast<const float4 *>(row)[index];
        s.v[0] = four.x, s.v[1] = four.y, s.v[2] = four.z, s.v[3] = four.w;
    }
    return s;
}

/* Chunk `index` of a row of probabilities. */
template <int W>
static __device__ __forceinline__ void store_shares(uint16_t *row, int64_t index,
                                                    const scores<W> &s)
{
    if constexpr (W == 1)
        row[index] = static_cast<uint16_t>(pack_bf16(s.v[0], 0.0f));
    else
        reinterpret_cast<uint2 *>(row)[index] =
            make_uint2(pack_bf16(s.v[0], s.v[1]), pack_bf16(s.v[2], s.v[3]));
}

/* --- held in registers ------------------------------------------------------------------------ */

/* Beyond the row a thread holds -inf, whose exponential is 0. */
static __global__ void __launch_bounds__(threads)
    softmax_held(const struct kiln_softmax a, int chunks)
{
    constexpr int W = held_width;
    __shared__ float tops[warp_size], sums[warp_size];
    const int64_t at = blockIdx.x * a.n;
    scores<W> held[held_items];
    float top = -INFINITY, sum = 0;
#pragma unroll
    for (int j = 0; j < held_items; j++) {
        held[j] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        if (chunk_of(j) < chunks)
            held[j] = load_scores<W>(a.scores + at, chunk_of(j));
    }
#pragma unroll
    for (int j = 0; j < held_items; j++)
#pragma unroll
        for (int i = 0; i < W; i++)
            top = fmaxf(top, held[j].v[i]);
    top = block_max(top, tops);
#pragma unroll
    for (int j = 0; j < held_items; j++)
#pragma unroll
        for (int i = 0; i < W; i++) {
            held[j].v[i] = __expf((held[j].v[i] - top) * a.scale);
            sum += held[j].v[i];
        }
    const float inverse = 1.0f / block_sum(sum, sums);
    uint16_t *y = static_cast<uint16_t *>(a.y) + at;
#pragma unroll
    for (int j = 0; j < held_items; j++)
        if (chunk_of(j) < chunks) {
#pragma unroll
            for (int i = 0; i < W; i++)
                held[j].v[i] *= inverse;
            store_shares<W>(y, chunk_of(j), held[j]);
        }
}

/* --- read twice ------------------------------------------------------------------------------- */

template <int W>
static __device__ __forceinline__ void add_scores(run &r, const scores<W> &s, float scale)
{
    float top = r.top;
#pragma unroll
    for (int i = 0; i < W; i++)
        top = fmaxf(top, s.v[i]);
    if (top > r.top) {
        r.sum *= __expf((r.top - top) * scale);
        r.top = top;
    }
#pragma unroll
    for (int i = 0; i < W; i++)
        r.sum += __expf((s.v[i] - r.top) * scale);
}

template <int W>
static __global__ void __launch_bounds__(threads) softmax_twice(const struct kiln_softmax a)
{
    __shared__ float tops[threads / warp_size], sums[threads / warp_size];
    const float *row = a.scores + blockIdx.x * a.n;
    const int64_t chunks = a.n / W, at = blockIdx.x * a.n;
    run r = {-INFINITY, 0};
    for (int64_t i = threadIdx.x; i < chunks; i += threads)
        add_scores<W>(r, load_scores<W>(row, i), a.scale);
    const float top = block_max(r.top, tops);
    /* A thread without scores has the sum 0, about -inf. */
    const float inverse = 1.0f / block_sum(r.sum * __expf((r.top - top) * a.scale), sums);
    uint16_t *y = static_cast<uint16_t *>(a.y) + at;
    for (int64_t i = threadIdx.x; i < chunks; i += threads) {
        scores<W> s = load_scores<W>(row, i);
#pragma unroll
        for (int k = 0; k < W; k++)
            s.v[k] = __expf((s.v[k] - top) * a.scale) * inverse;
        store_shares<W>(y, i, s);
    }
}

/* --- launching -------------------------------------------------------------------------------- */

extern "C" int kiln_softmax_launch(const struct kiln_softmax *args, int64_t rows,
                                   kiln_stream stream, struct kiln_error *err)
{
    const char *name = "softmax";
    if (rows < 0 || rows > INT32_MAX || args->n < 1)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %lld rows of %lld scores", name, (long long)rows,
                         (long long)args->n);
    if (args->format != KILN_BF16 || args->inverse)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: on the GPU probabilities are bf16 and divided by their sum", name);
    if (rows == 0)
        return KILN_OK;
    if (!args->scores || !args->y)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand is missing", name);
    struct kiln_softmax a = *args;
    a.scale = a.scale != 0 ? a.scale : 1;
    const dim3 grid(static_cast<unsigned>(rows));
    const bool vectors = a.n % held_width == 0 && on_bytes(a.scores, 16) && on_bytes(a.y, 8);
    if (vectors && a.n <= threads * held_items * held_width) {
        const int chunks = static_cast<int>(a.n / held_width);
        return launch(err, name, softmax_held, grid, row_threads(chunks, held_items), stream, a,
                      chunks);
    }
    return launch(err, name, vectors ? softmax_twice<4> : softmax_twice<1>, grid, threads, stream,
                  a);
}
