/* qkv_rope.cu - see qkv_rope.h; one pass over the packed rows.
 *
 * Heads of 64 and 128: a block takes the heads of q, of k or of v in one row (heads.cuh).  Other
 * sizes: a warp takes a head, value by value.  In place, a value is read by who writes it, or by
 * all before any of its head is written.
 */
#include "kernels/attention/qkv_rope.h"

#include "kernels/attention/heads.cuh"

using namespace kiln;

constexpr int threads = 256;

/* What a launch knows beside its arguments. */
struct plan {
    struct kiln_head_steps q, kv;
    unsigned tokens; /* 32 bits, whose divisions are cheap */
    int heads;       /* that are written: without those of v in place */
};

/* Which of the three a packed head is, and where it goes. */
struct head_place {
    const void *norm;
    void *out;
    int64_t to;
    bool turned; /* q or k */
};

/* Where a row's first q and its first k or v go. */
struct row_place {
    int64_t q, kv;
};

static __device__ __forceinline__ row_place row_of(const plan &p, unsigned row)
{
    const int64_t item = row / p.tokens, token = row % p.tokens;
    return {item * p.q.item + token * p.q.token, item * p.kv.item + token * p.kv.token};
}

static __device__ __forceinline__ head_place place_of(const struct kiln_qkv_rope &a, const plan &p,
                                                      const row_place &row, int head)
{
    if (head < a.heads)
        return {a.q_norm, a.q, row.q + head * p.q.head, true};
    head -= a.heads;
    if (head < a.kv_heads)
        return {a.k_norm, a.k, row.kv + head * p.kv.head, true};
    return {nullptr, a.v, row.kv + (head - a.kv_heads) * p.kv.head, false};
}

/* --- heads of 64 and 128 ---------------------------------------------------------------------- */

/* What a block has of a row: the heads of q, k or v. */
struct part {
    int64_t from;     /* where the first one is in qkv, one behind the other */
    head_place first; /* where it goes */
    int64_t step;     /* from there to the next one's place */
    int heads;
};

static __device__ __forceinline__ part part_of(const struct kiln_qkv_rope &a, const plan &p,
                                               unsigned row, unsigned which)
{
    const int first = which == 0 ? 0 : which == 1 ? a.heads : a.heads + a.kv_heads;
    const int64_t width = static_cast<int64_t>(a.heads + 2 * a.kv_heads) * a.head_dim;
    return {row * width + first * a.head_dim, place_of(a, p, row_of(p, row), first),
            which == 0 ? p.q.head : p.kv.head, which == 0 ? a.heads : a.kv_heads};
}

template <int LANES, bool INTERLEAVED>
static __global__ void __launch_bounds__(part_threads, part_blocks)
    split_parts(const struct kiln_qkv_rope a, const plan p, unsigned parts)
{
    const int lane = threadIdx.x % LANES;
    const unsigned row = blockIdx.x / parts, token = row % p.tokens;
    const part mine = part_of(a, p, row, blockIdx.x % parts);
    const head_place &to = mine.first;
    const head_run run = {a.qkv, to.norm,    a.cos, a.sin,    mine.from,
                          token, mine.heads, a.eps, to.turned};
    turn_heads<LANES, INTERLEAVED>(run, lane, [&](int head, const chunk<8> &turned) {
        store_chunk<8>(to.out, to.to + head * mine.step, lane, turned);
    });
}

/* --- any head size ---------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(threads)
    split_values(const struct kiln_qkv_rope a, const plan p)
{
    const int64_t task =
        static_cast<int64_t>(blockIdx.x) * (threads / warp_size) + threadIdx.x / warp_size;
    const int64_t row = task / p.heads, head = task % p.heads;
    if (row >= a.rows)
        return; /* the whole warp */
    const head_place place =
        place_of(a, p, row_of(p, static_cast<unsigned>(row)), static_cast<int>(head));
    const head_run run = {a.qkv,
                          place.norm,
                          a.cos,
                          a.sin,
                          (row * (a.heads + 2 * a.kv_heads) + head) * a.head_dim,
                          static_cast<unsigned>(row) % p.tokens,
                          1,
                          a.eps,
                          place.turned};
    turn_values(run, a.head_dim, a.interleaved, [&](int i, float v) {
        static_cast<uint16_t *>(place.out)[place.to + i] =
            static_cast<uint16_t>(pack_bf16(v, 0.0f));
    });
}

/* --- launching -------------------------------------------------------------------------------- */

static int check(const struct kiln_qkv_rope *a, struct kiln_error *err)
{
    const int64_t heads = (int64_t)a->heads + 2 * (int64_t)a->kv_heads;
    if (a->rows < 0 || a->heads < 1 || a->kv_heads < 1 || a->head_dim < 1 || a->tokens < 0 ||
        (a->tokens && a->rows % a->tokens) || (a->cos && a->head_dim % 2) || !a->cos != !a->sin)
        return kiln_fail(
            err, KILN_BAD_INPUT, "qkv_rope: %lld rows, %lld tokens an item, %d + 2*%d heads of %d",
            (long long)a->rows, (long long)a->tokens, a->heads, a->kv_heads, a->head_dim);
    if (!a->qkv || !a->q || !a->k || (!a->v && !a->in_place))
        return kiln_fail(err, KILN_BAD_INPUT, "qkv_rope: an operand is missing");
    if (a->format != KILN_BF16)
        return kiln_fail(err, KILN_UNSUPPORTED, "qkv_rope: on the GPU rows are bf16");
    if (heads > 65536 || a->rows * heads > INT32_MAX || a->head_dim > KILN_HEAD_DIM_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "qkv_rope: %lld rows of %lld heads of %d",
                         (long long)a->rows, (long long)heads, a->head_dim);
    return KILN_OK;
}

extern "C" int kiln_qkv_rope_launch(const struct kiln_qkv_rope *args, kiln_stream stream,
                                    struct kiln_error *err)
{
    const char *name = "qkv_rope";
    int code = check(args, err);
    if (code || args->rows == 0)
        return code;
    const plan p = {kiln_head_steps(args, args->heads), kiln_head_steps(args, args->kv_heads),
                    static_cast<unsigned>(args->tokens ? args->tokens : args->rows),
                    args->heads + (args->in_place ? 1 : 2) * args->kv_heads};
    const bool vectors = on_bytes(args->qkv, 16) && on_bytes(args->q, 16) &&
                         on_bytes(args->k, 16) && on_bytes(args->v, 16) &&
                         on_bytes(args->q_norm, 16) && on_bytes(args->k_norm, 16) &&
                         on_bytes(args->cos, 16) && on_bytes(args->sin, 16);
    const unsigned parts = args->in_place ? 2 : 3; /* no more than heads: the grid fits too */
    const dim3 grid(static_cast<unsigned>(args->rows) * parts);
    if (vectors && args->head_dim == 128)
        return launch(err, name, args->interleaved ? split_parts<16, true> : split_parts<16, false>,
                      grid, part_threads, stream, *args, p, parts);
    if (vectors && args->head_dim == 64)
        return launch(err, name, args->interleaved ? split_parts<8, true> : split_parts<8, false>,
                      grid, part_threads, stream, *args, p, parts);
    const int64_t tasks = args->rows * p.heads;
    const int64_t warps = threads / warp_size;
    return launch(err, name, split_values, dim3(static_cast<unsigned>((tasks + warps - 1) / warps)),
                  threads, stream, *args, p);
}
