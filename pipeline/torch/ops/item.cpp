/* item.cpp - linear layers over the rows of several items, block by block; see tensor.h. */
#include "pipeline/torch/async.h"
#include "pipeline/torch/cpu/products.hpp"
#include "pipeline/torch/cuda/plugin.hpp"
#include "pipeline/torch/ops/same_bits.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <vector>

using kiln::plain;
using kiln::quantised;
using kiln::run;
using kiln::run_void;

/* Blocks of up to so many rows are faster two at a time, in both streams. */
static constexpr int64_t beside_most = 128;
/* Blocks of at least so many rows may be joined into one product: they fill all multiprocessors.
 * Smaller blocks sometimes change their sums when joined, and then the larger ones beside them
 * could not be joined either.  Equal blocks gain more, so their limit is lower. */
static constexpr int64_t joined_least = 512, joined_alike_least = 256;

/* Uses both streams while it lives: a product of few rows has fewer tiles than a GPU has
 * multiprocessors, and the next product fills the rest.  At the end, also after an exception, the
 * scope's stream waits for both. */
class both_streams
{
    kt_scope *main, *side = nullptr;

  public:
    both_streams(kt_scope *s, bool wanted) : main(s)
    {
        if (!wanted || s->device == KT_CPU || s->side)
            return;
        side = kt_scope_side(s);
        kt_follow(side, s);
    }
    both_streams(const both_streams &) = delete;
    ~both_streams()
    {
        kt_follow(main, side);
        kt_scope_free(side);
    }
    kt_scope *at(size_t i) const { return i % 2 && side ? side : main; }
};

static bool go_beside(const struct kt_block_linear &args)
{
    return args.count > 1 &&
           *std::max_element(args.blocks, args.blocks + args.count) <= beside_most;
}

/* --- plain rows ------------------------------------------------------------------------------- */

/* add: the product is added to out. */
struct operands {
    at::Tensor x, weight, bias, out;
    bool add;
};

static void product(const operands &p, int64_t row, int64_t rows)
{
    const at::Tensor x = p.x.narrow(0, row, rows), weight = p.weight.t();
    at::Tensor out = p.out.narrow(0, row, rows);
    if (p.add) {
        at::addmm_out(out, out, x, weight);
        if (p.bias.defined())
            out.add_(p.bias);
    } else if (p.bias.defined()) {
        at::addmm_out(out, p.bias, x, weight);
    } else {
        at::mm_out(out, x, weight);
    }
}

/* The products of all blocks in new memory, as bytes. */
static at::Tensor bytes_of(operands p, const std::vector<int64_t> &blocks)
{
    p.out = p.out.clone();
    int64_t row = 0;
    for (int64_t rows : blocks) {
        product(p, row, rows);
        row += rows;
    }
    return p.out.view(at::kByte);
}

using product_shapes =
    std::tuple<int, at::ScalarType, int64_t, int64_t, bool, bool, std::vector<int64_t>>;

/* Whether one product over all blocks has the same bits as one for each.  find_out: tries it. */
template <class F>
static bool sums_alike(const operands &p, const std::vector<int64_t> &blocks, F &&find_out)
{
    static kiln::same_bits<product_shapes> known; /* of plain products; of quantised ones another */
    const product_shapes key{p.x.get_device(),
                             p.x.scalar_type(),
                             p.weight.size(0),
                             p.weight.size(1),
                             p.bias.defined(),
                             p.add,
                             blocks};
    return known.ask(key, find_out);
}

/* The blocks in front that are large enough to be joined. */
static std::vector<int64_t> large_in_front(const struct kt_block_linear &args)
{
    const bool alike = std::all_of(args.blocks, args.blocks + args.count,
                                   [&](int64_t rows) { return rows == args.blocks[0]; });
    const int64_t least = alike ? joined_alike_least : joined_least;
    const auto small = [least](int64_t rows) { return rows < least; };
    return {args.blocks, std::find_if(args.blocks, args.blocks + args.count, small)};
}

/* How many blocks in front are joined: all large ones, if that changes no bit. */
static size_t joined(const operands &p, const struct kt_block_linear &args)
{
    const std::vector<int64_t> blocks = large_in_front(args);
    if (blocks.size() < 2)
        return 0;
    const int64_t rows = std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
    operands front = p;
    front.x = p.x.narrow(0, 0, rows);
    front.out = p.out.narrow(0, 0, rows);
    const auto find_out = [&] {
        return at::equal(bytes_of(front, blocks), bytes_of(front, {rows}));
    };
    return sums_alike(front, blocks, find_out) ? blocks.size() : 0;
}

static at::Tensor linear_plain(kt_scope *s, const struct kt_block_linear &args)
{
    const at::Tensor x = plain(*args.x), weight = args.weight->t, into = kiln::maybe(args.into);
    const bool add = into.defined();
    const operands p{x, weight, kiln::maybe(args.bias),
                     add ? into : at::empty({x.size(0), weight.size(0)}, x.options()), add};
    const size_t front = joined(p, args);
    int64_t row = 0;
    for (size_t i = 0; i < front; i++)
        row += args.blocks[i];
    if (front > 0)
        product(p, 0, row);
    const both_streams streams(s, go_beside(args));
    for (size_t i = front; i < args.count; i++) {
        const kiln::on_stream current(streams.at(i));
        product(p, row, args.blocks[i]);
        row += args.blocks[i];
    }
    return p.out;
}

/* --- quantised rows --------------------------------------------------------------------------- */

static kt_tensor some_rows(const kt_tensor &x, int64_t row, int64_t rows)
{
    return {x.t.narrow(0, row, rows), x.scale.narrow(0, row, rows)};
}

/* Whether all blocks can be joined without changing a bit. */
static bool all_at_once(const kt_tensor &x, const kt_tensor &weight, const at::Tensor &bias,
                        const struct kt_block_linear &args)
{
    if (args.count == 1)
        return true;
    const std::vector<int64_t> blocks = large_in_front(args);
    return blocks.size() == args.count && sums_alike({x.t, weight.t, bias, {}, false}, blocks, [&] {
               const at::Tensor all = kiln::linear_e4m3(x, weight, bias);
               bool alike = true;
               int64_t row = 0;
               for (const int64_t rows : blocks) {
                   const at::Tensor one = kiln::linear_e4m3(some_rows(x, row, rows), weight, bias);
                   alike = alike &&
                           at::equal(one.view(at::kByte), all.narrow(0, row, rows).view(at::kByte));
                   row += rows;
               }
               return alike;
           });
}

static at::Tensor linear_quantised(kt_scope *s, const struct kt_block_linear &args)
{
    const kt_tensor x = args.x->scale.defined() ? *args.x : quantised(args.x->t);
    const kt_tensor &weight = *args.weight;
    const at::Tensor bias = kiln::maybe(args.bias), into = kiln::maybe(args.into);
    if (!into.defined() && all_at_once(x, weight, bias, args))
        return kiln::linear_e4m3(x, weight, bias); /* which is not copied then */
    const at::Tensor out = into.defined() ? into
                                          : at::empty({x.t.size(0), weight.t.size(0)},
                                                      x.t.options().dtype(at::kBFloat16));
    const both_streams streams(s, go_beside(args));
    int64_t row = 0;
    for (size_t i = 0; i < args.count; i++) {
        const kiln::on_stream current(streams.at(i));
        const int64_t rows = args.blocks[i];
        const at::Tensor y = kiln::linear_e4m3(some_rows(x, row, rows), weight, bias);
        if (into.defined())
            out.narrow(0, row, rows).add_(y);
        else
            out.narrow(0, row, rows).copy_(y);
        row += rows;
    }
    return out;
}

kt kt_linear_blocks(kt_scope *s, const struct kt_block_linear *args)
{
    return run(s, "linear_blocks", {args->x, args->weight}, [&] {
        const int64_t rows = args->x->t.size(0), count = static_cast<int64_t>(args->count);
        struct kt_block_linear told = *args;
        TORCH_CHECK(count > 0, "no blocks for ", rows, " rows");
        const std::vector<int64_t> even(args->blocks ? 0 : args->count, rows / count);
        told.blocks = args->blocks ? args->blocks : even.data();
        const int64_t sum = std::accumulate(told.blocks, told.blocks + count, int64_t{0});
        TORCH_CHECK(sum == rows, count, " blocks of together ", sum, " rows for ", rows);
        return args->weight->scale.defined() ? linear_quantised(s, told) : linear_plain(s, told);
    });
}

kt kt_linear_items(kt_scope *s, kt x, kt weight, kt bias, int items)
{
    if (items == 1)
        return kt_linear(s, x, weight, bias);
    const struct kt_block_linear args = {
        x, weight, bias, nullptr, nullptr, static_cast<size_t>(items > 0 ? items : 0)};
    return kt_linear_blocks(s, &args);
}

/* --- the gate within its product -------------------------------------------------------------- */

/* From so many rows on, the gated product is faster than a library's product and a pass: it saves
 * writing and reading the products, but multiplies somewhat slower.  For 3,840 values to 2 x 10,240
 * on an H200 it takes 3 % longer at 1,152 rows, 2 to 3 % less at 4,224, and 4.6 % less at 9,216. */
static constexpr int64_t gated_least = 2048;

/* Whether an item gets the bits that it gets alone, from a product and a pass. */
static bool gates_alike(const kiln::model_kernels &gpu, const at::Tensor &x,
                        const at::Tensor &weight, int items)
{
    using shapes = std::tuple<int, int64_t, int, int64_t, int64_t>;
    static kiln::same_bits<shapes> known;
    const int64_t rows = x.size(0) / items;
    return known.ask({x.get_device(), rows, items, weight.size(0), weight.size(1)}, [&] {
        const at::Tensor all = gpu.linear_swiglu(x, weight, kt_form{}).t;
        const at::Tensor product = kiln::linear(x.narrow(0, 0, rows), weight, {});
        return all.defined() && at::equal(all.narrow(0, 0, rows).view(at::kShort),
                                          gpu.swiglu(product, kt_form{}).t.view(at::kShort));
    });
}

/* Product and gate in one pass; undefined if there is no kernel or no gain. */
static kt_tensor gated_product(const kt_tensor &x, const kt_tensor &weight, int items, kt_form form)
{
    const kiln::model_kernels *gpu = kiln::gpu_kernels(x.t);
    TORCH_CHECK(items > 0 && x.t.size(0) % items == 0, x.t.size(0), " rows of ", items, " items");
    if (!x.scale.defined() && !weight.scale.defined() && kiln::cpu::takes_product(x.t, weight.t))
        return kiln::formed({kiln::cpu::gated_product(x.t, weight.t), {}}, form);
    if (!gpu || form.e4m3 || x.scale.defined() || weight.scale.defined() ||
        x.t.size(0) < gated_least ||
        (x.t.size(0) / items < gated_least && !gates_alike(*gpu, x.t, weight.t, items)))
        return {};
    return gpu->linear_swiglu(x.t, weight.t, form);
}

kt kt_linear_swiglu(kt_scope *s, kt x, kt weight, int items, kt_form form)
{
    kt y = nullptr;
    run_void(s, "linear_swiglu", {x, weight}, [&] {
        kt_tensor both = gated_product(*x, *weight, items, form);
        y = both.t.defined() ? s->own(std::move(both)) : nullptr;
    });
    kt gate_up = y ? nullptr : kt_linear_items(s, x, weight, nullptr, items);
    kt_drop(s, x);
    if (gate_up)
        y = kt_swiglu(s, gate_up, form);
    kt_drop(s, gate_up);
    return y;
}
