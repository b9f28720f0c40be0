/* text_ops.cpp - several items behind one another in the same rows: products by blocks of rows, and
 * attention within items.  See tensor.h. */
#include "pipeline/torch/cuda/plugin.hpp"
#include "pipeline/torch/internal.hpp"
#include "pipeline/torch/lanes.h"

#include <algorithm>
#include <cmath>

using kiln::plain;
using kiln::quantised;
using kiln::run;

/* What fused attention over items of several lengths takes. */
static constexpr int widest_head = 256;
/* Rows of a block up to which two at a time are faster; larger ones get in each other's way. */
static constexpr int64_t beside_most = 128;

bool kt_packs(const kt_scope *s, int head_dim)
{
    return s && s->device != KT_CPU && head_dim % 8 == 0 && head_dim <= widest_head;
}

/* Both lanes for a while: a product of few rows has fewer tiles than a GPU has multiprocessors, and
 * the next one fills them.  What comes behind in the scope's lane waits for both, even where an
 * exception cuts it short. */
class both_lanes
{
    kt_scope *main, *side = nullptr;

  public:
    both_lanes(kt_scope *s, bool wanted) : main(s)
    {
        if (!wanted || s->device == KT_CPU || s->side)
            return;
        side = kt_scope_side(s);
        kt_follow(side, s);
    }
    both_lanes(const both_lanes &) = delete;
    ~both_lanes()
    {
        kt_follow(main, side);
        kt_scope_free(side);
    }
    kt_scope *lane(size_t i) const { return i % 2 && side ? side : main; }
};

static bool go_beside(const struct kt_block_linear &args)
{
    return args.count > 1 &&
           *std::max_element(args.blocks, args.blocks + args.count) <= beside_most;
}

/* One block of quantised rows. */
static void product_e4m3(const kt_tensor &x, const kt_tensor &weight, const at::Tensor &bias,
                         const at::Tensor &into, const at::Tensor &out)
{
    const at::Tensor y = kiln::linear_e4m3(x, weight, bias);
    if (into.defined())
        into.add_(y);
    else
        out.copy_(y);
}

static kt_tensor rows_of(const kt_tensor &x, int64_t row, int64_t rows)
{
    return {x.t.narrow(0, row, rows), x.scale.narrow(0, row, rows), {}};
}

/* One block; into is undefined, or changed and returned. */
static at::Tensor product(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias,
                          at::Tensor into, at::Tensor out)
{
    if (into.defined()) {
        at::addmm_out(into, into, x, weight.t());
        return bias.defined() ? into.add_(bias) : into;
    }
    if (bias.defined())
        return at::addmm_out(out, bias, x, weight.t());
    return at::mm_out(out, x, weight.t());
}

kt kt_linear_blocks(kt_scope *s, const struct kt_block_linear *args)
{
    return run(s, "linear_blocks", {args->x, args->weight}, [&] {
        const bool e4m3 = args->weight->scale.defined();
        const kt_tensor rows_in = !e4m3                      ? kt_tensor{plain(*args->x), {}, {}}
                                  : args->x->scale.defined() ? *args->x
                                                             : quantised(args->x->t, KT_E4M3_ONLY);
        const at::Tensor x = rows_in.t, weight = args->weight->t, bias = kiln::maybe(args->bias);
        at::Tensor into = kiln::maybe(args->into);
        if (e4m3 && args->count == 1 && !into.defined() && args->blocks[0] == x.size(0))
            return kiln::linear_e4m3(rows_in, *args->weight, bias); /* which is not copied then */
        at::Tensor out = into.defined()
                             ? into
                             : at::empty({x.size(0), weight.size(0)},
                                         x.options().dtype(e4m3 ? at::kBFloat16 : x.scalar_type()));
        const both_lanes lanes(s, go_beside(*args));
        int64_t row = 0;
        for (size_t i = 0; i < args->count; i++) {
            const kiln::in_lane in(lanes.lane(i));
            const int64_t rows = args->blocks[i];
            const at::Tensor onto = into.defined() ? into.narrow(0, row, rows) : into;
            if (e4m3)
                product_e4m3(rows_of(rows_in, row, rows), *args->weight, bias, onto,
                             out.narrow(0, row, rows));
            else
                product(x.narrow(0, row, rows), weight, bias, onto, out.narrow(0, row, rows));
            row += rows;
        }
        TORCH_CHECK(row == x.size(0), "blocks of ", row, " rows for ", x.size(0));
        return out;
    });
}

/* The kernel's work is shared out by heads and rows of one item: what it makes of an item does not
 * depend on the others. */
at::Tensor kiln::item_attention(const kt_attention_args &a)
{
    const model_kernels *gpu = gpu_kernels(a.qkv->t);
    TORCH_CHECK(gpu && a.head_dim % 8 == 0 && a.head_dim <= widest_head,
                "attention within items is for bf16 on a GPU, heads of up to ", widest_head);
    const at::Tensor qkv = a.qkv->t.contiguous();
    const int64_t rows = qkv.size(0), h = a.heads, g = a.kv_heads, d = a.head_dim;
    gpu->turn_heads(a, qkv);
    auto heads = [&](int64_t from, int64_t count) {
        return qkv.narrow(1, from * d, count * d).view({rows, count, d});
    };
    const at::Tensor out = std::get<0>(at::_flash_attention_forward(
        heads(0, h), heads(h, g), heads(h + g, g), a.starts->t, a.starts->t, a.longest, a.longest,
        /*dropout_p=*/0.0, a.causal, /*return_debug_mask=*/false));
    return out.reshape({rows, h * d});
}
