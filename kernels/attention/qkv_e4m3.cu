/* qkv_e4m3.cu - see qkv_e4m3.h; two kernels.
 *
 * The first finds the largest |v| of each of its blocks' shares.  The second, which starts while it
 * runs, makes the codes, a block for q, k or v of a row.  Its blocks of v come first, the last row
 * in front: they load while the first kernel ends, from a cache that holds what that has read last,
 * and then take the largest of its few results each.  The blocks of q and k (heads.cuh), or the
 * warps where a head is neither of 64 nor of 128, need nothing of it and wait for nothing.
 */
#include "kernels/attention/qkv_e4m3.h"

#include "kernels/attention/heads.cuh"
#include "kernels/attention/qkv_rope.h"
#include "kernels/rows.cuh"

using namespace kiln;

/* Two such blocks on a multiprocessor: loads enough, and room for blocks of the second kernel. */
constexpr int top_threads = 512, top_batch = 8;

/* What a launch knows beside its arguments, in chunks; 32 bits, whose divisions are cheap. */
struct plan {
    unsigned width, v, v_width; /* a row; where its v begins; its v */
    unsigned tops;              /* blocks of the first kernel */
};

/* Block b: the largest |v| of every p.tops'th run of top_threads chunks, to tops[b]. */
static __global__ void __launch_bounds__(top_threads, 2)
    top_values(const struct kiln_qkv_e4m3 a, const plan p)
{
    __shared__ float slots[top_threads / warp_size];
    const unsigned chunks = static_cast<unsigned>(a.rows) * p.v_width;
    const unsigned step = p.tops * top_threads;
    float top = 0;
    let_next_start();
    for (unsigned round = blockIdx.x * top_threads; round < chunks; round += top_batch * step) {
        chunk<8> held[top_batch] = {};
#pragma unroll
        for (int j = 0; j < top_batch; j++) {
            const unsigned i = round + j * step + threadIdx.x;
            if (i < chunks)
                held[j] = load_chunk<8>(a.qkv, 0, i / p.v_width * p.width + p.v + i % p.v_width);
        }
        top = fmaxf(top, top_held<8, top_batch, top_threads>(held, 0));
    }
    top = block_max<top_threads>(top, slots);
    if (threadIdx.x == 0)
        a.tops[blockIdx.x] = top;
}

/* The largest |v|, once the first kernel has ended. */
static __device__ __forceinline__ float top_of(const struct kiln_qkv_e4m3 &a, const plan &p)
{
    __shared__ float slots[part_threads / warp_size];
    float top = KILN_E4M3_FLOOR;
    await_previous();
#pragma unroll
    for (int j = 0; j < (KILN_QKV_TOPS + part_threads - 1) / part_threads; j++)
        if (threadIdx.x + j * part_threads < p.tops)
            top = fmaxf(top, a.tops[threadIdx.x + j * part_threads]);
    return block_max<part_threads>(top, slots);
}

static __device__ __forceinline__ void code_values(const struct kiln_qkv_e4m3 &a, const plan &p,
                                                   unsigned row)
{
    constexpr int batch = 4;
    const int64_t from = static_cast<int64_t>(row) * p.width + p.v;
    float top = 0, inverse = 0;
    /* As many rounds for every thread: the first waits for all. */
    for (unsigned round = 0; round < p.v_width; round += batch * part_threads) {
        chunk<8> held[batch];
#pragma unroll
        for (int j = 0; j < batch; j++)
            if (round + chunk_of<part_threads>(j) < p.v_width)
                held[j] = load_chunk<8>(a.qkv, 0, from + round + chunk_of<part_threads>(j));
        if (round == 0) {
            top = top_of(a, p);
            inverse = KILN_E4M3_MAX / top;
        }
#pragma unroll
        for (int j = 0; j < batch; j++)
            if (round + chunk_of<part_threads>(j) < p.v_width)
                reinterpret_cast<uint2 *>(a.codes)[from + round + chunk_of<part_threads>(j)] =
                    codes_of(held[j], inverse);
    }
    if (threadIdx.x == 0) {
        a.scale[row] = top / a.code_max;
        if (row == 0)
            *a.to_codes = a.code_max / top * (a.code_max / KILN_E4M3_MAX);
    }
}

template <int LANES, bool INTERLEAVED>
static __global__ void __launch_bounds__(part_threads, part_blocks)
    code_parts(const struct kiln_qkv_e4m3 a, const plan p)
{
    const unsigned rows = static_cast<unsigned>(a.rows);
    if (blockIdx.x < rows) {
        code_values(a, p, rows - 1 - blockIdx.x);
        return; /* the whole block */
    }
    const int lane = threadIdx.x % LANES;
    const unsigned row = (blockIdx.x - rows) / 2;
    const bool of_k = (blockIdx.x - rows) % 2;
    const int64_t from = (static_cast<int64_t>(row) * p.width + (of_k ? a.heads * LANES : 0)) * 8;
    const head_run run = {a.qkv, of_k ? a.k_norm : a.q_norm,  a.cos, a.sin, from,
                          row,   of_k ? a.kv_heads : a.heads, a.eps, true};
    turn_heads<LANES, INTERLEAVED>(run, lane, [&](int head, const chunk<8> &turned) {
        reinterpret_cast<uint2 *>(a.codes + from)[head * LANES + lane] = codes_of(turned, 1.0f);
    });
}

/* The same for other heads: a warp takes one of q or k. */
static __global__ void __launch_bounds__(part_threads)
    code_heads(const struct kiln_qkv_e4m3 a, const plan p)
{
    const unsigned rows = static_cast<unsigned>(a.rows), heads = a.heads + a.kv_heads;
    if (blockIdx.x < rows) {
        code_values(a, p, rows - 1 - blockIdx.x);
        return; /* the whole block */
    }
    const unsigned warp = threadIdx.x / warp_size;
    const unsigned task = (blockIdx.x - rows) * (part_threads / warp_size) + warp;
    const unsigned row = task / heads, head = task % heads;
    if (row >= rows)
        return; /* the whole warp */
    const int64_t from = static_cast<int64_t>(row) * p.width * 8 + head * a.head_dim;
    const bool of_k = head >= static_cast<unsigned>(a.heads);
    const head_run run = {a.qkv, of_k ? a.k_norm : a.q_norm, a.cos, a.sin, from, row, 1, a.eps,
                          true};
    turn_values(run, a.head_dim, a.interleaved, [&](int i, float v) {
        a.codes[from + i] = static_cast<uint8_t>(pack_e4m3(v, 0.0f));
    });
}

/* --- launching -------------------------------------------------------------------------------- */

static int check(const struct kiln_qkv_e4m3 *a, const char *name, struct kiln_error *err)
{
    const int64_t heads = (int64_t)a->heads + 2 * (int64_t)a->kv_heads;
    if (a->rows < 0 || a->heads < 1 || a->kv_heads < 1 || a->head_dim < 1 || !a->cos != !a->sin)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: %lld rows, %d + 2*%d heads of %d%s", name,
                         (long long)a->rows, a->heads, a->kv_heads, a->head_dim,
                         !a->cos != !a->sin ? ", one of cos and sin" : "");
    if (!a->qkv || !a->q_norm || !a->k_norm || !a->codes || !a->scale || !a->to_codes || !a->tops)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: an operand or a place for the result is missing",
                         name);
    if (a->head_dim % 8 || a->head_dim > KILN_HEAD_DIM_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: heads of %d, not of 8, 16, ... %d", name,
                         a->head_dim, KILN_HEAD_DIM_MAX);
    if (heads > 65536 || a->rows > INT32_MAX || a->rows * heads * (a->head_dim / 8) > INT32_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld rows of %lld heads of %d", name,
                         (long long)a->rows, (long long)heads, a->head_dim);
    if (!on_bytes(a->qkv, 16) || !on_bytes(a->q_norm, 16) || !on_bytes(a->k_norm, 16) ||
        !on_bytes(a->cos, 16) || !on_bytes(a->sin, 16) || !on_bytes(a->codes, 16))
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: an operand is not on 16 bytes", name);
    return check_quantised(err, name, a->codes, a->scale);
}

extern "C" int kiln_qkv_e4m3_launch(const struct kiln_qkv_e4m3 *args, kiln_stream stream,
                                    struct kiln_error *err)
{
    const char *name = "qkv_e4m3";
    int code = check(args, name, err);
    struct kiln_qkv_e4m3 a = *args;
    code = code ? code : settle_code_max(err, name, &a.code_max);
    if (code || a.rows == 0)
        return code;
    const unsigned lanes = static_cast<unsigned>(a.head_dim) / 8;
    const unsigned q = a.heads * lanes, k = a.kv_heads * lanes;
    const int64_t blocks = (a.rows * k + top_threads - 1) / top_threads;
    const plan p = {q + 2 * k, q + k, k,
                    static_cast<unsigned>(blocks < KILN_QKV_TOPS ? blocks : KILN_QKV_TOPS)};
    code = launch(err, name, top_values, dim3(p.tops), top_threads, stream, a, p);
    if (code)
        return code;
    const unsigned rows = static_cast<unsigned>(a.rows);
    if (a.head_dim == 128)
        return launch_early(err, name, a.interleaved ? code_parts<16, true> : code_parts<16, false>,
                            dim3(rows * 3), part_threads, stream, a, p);
    if (a.head_dim == 64)
        return launch_early(err, name, a.interleaved ? code_parts<8, true> : code_parts<8, false>,
                            dim3(rows * 3), part_threads, stream, a, p);
    const int64_t warps = part_threads / warp_size;
    const int64_t tasks = a.rows * (a.heads + a.kv_heads);
    const dim3 grid(rows + static_cast<unsigned>((tasks + warps - 1) / warps));
    return launch_early(err, name, code_heads, grid, part_threads, stream, a, p);
}
