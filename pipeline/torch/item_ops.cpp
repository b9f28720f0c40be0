/* item_ops.cpp - several items behind one another in the same rows: products by blocks of rows, and
 * attention within items.  See tensor.h. */
#include "pipeline/torch/cuda/plugin.hpp"
#include "pipeline/torch/internal.hpp"
#include "pipeline/torch/lanes.h"
#include "pipeline/torch/same_bits.hpp"

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

/* Rows of a block up to which two at a time are faster; larger ones get in each other's way. */
static constexpr int64_t beside_most = 128;
/* Rows of a block from which several may be one product: whole tiles for all multiprocessors.
 * Blocks of fewer rows have other sums now and then, for which larger ones beside them are not to
 * pay; as many of one size gain more than that. */
static constexpr int64_t joined_least = 512, joined_alike_least = 256;

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

/* The same in memory of its own, as bytes. */
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

/* Whether one product over all blocks has the bits of one for each, as it does where the library
 * sums a row of either in the same order.  find_out: tries it. */
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

/* Blocks in front that are large enough to go through one product. */
static std::vector<int64_t> large_in_front(const struct kt_block_linear &args)
{
    const bool alike = std::all_of(args.blocks, args.blocks + args.count,
                                   [&](int64_t rows) { return rows == args.blocks[0]; });
    const int64_t least = alike ? joined_alike_least : joined_least;
    const auto small = [least](int64_t rows) { return rows < least; };
    return {args.blocks, std::find_if(args.blocks, args.blocks + args.count, small)};
}

/* How many blocks in front go through one product: all large ones, if that changes nothing. */
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
    const both_lanes lanes(s, go_beside(args));
    for (size_t i = front; i < args.count; i++) {
        const kiln::in_lane in(lanes.lane(i));
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

/* Whether all blocks go through one product, which changes nothing then. */
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
    const both_lanes lanes(s, go_beside(args));
    int64_t row = 0;
    for (size_t i = 0; i < args.count; i++) {
        const kiln::in_lane in(lanes.lane(i));
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

/* From here on it is the faster way.  It saves writing and reading the products, and multiplies
 * somewhat slower than a library.  Of 3,840 values to 2 x 10,240 on an H200 it takes 3 % longer
 * than product and pass for 1,152 rows, 2 to 3 % less for 4,224, 4.6 % less for 9,216. */
static constexpr int64_t gated_least = 2048;

/* Whether an item has the bits that it has alone, which is not gated within its product. */
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

/* One pass for both, or nothing. */
static kt_tensor gated_product(const kt_tensor &x, const kt_tensor &weight, int items, kt_form form)
{
    const kiln::model_kernels *gpu = kiln::gpu_kernels(x.t);
    TORCH_CHECK(items > 0 && x.t.size(0) % items == 0, x.t.size(0), " rows of ", items, " items");
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
