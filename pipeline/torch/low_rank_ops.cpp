/* low_rank_ops.cpp - see low_rank.h. */
#include "pipeline/torch/low_rank.h"

#include "kernels/fp8.h"
#include "pipeline/torch/cuda/plugin.hpp"
#include "pipeline/torch/internal.hpp"

using kiln::run;
using kiln::run_void;

/* --- beside ----------------------------------------------------------------------------------- */

void kt_add_product(kt_scope *s, kt y, kt low, kt up)
{
    run_void(s, "add_product", {y, low, up}, [&] { y->t.addmm_(low->t, up->t.t()); });
}

/* x down^T by LibTorch.  In codes: of rows whose own factors are left out. */
static void low_by_torch(const kt_tensor &x, const kt_tensor &down, at::Tensor low)
{
    if (!x.scale.defined()) {
        at::mm_out(low, x.t, down.t.t());
        return;
    }
    const at::Tensor sums = kiln::linear_e4m3({x.t, at::ones_like(x.scale)}, down, {});
    low.copy_(at::clamp(sums, -KILN_E4M3_MAX, KILN_E4M3_MAX));
}

/* x with so many columns behind its rows: where there is room for them, a view. */
static at::Tensor widened(const kt_tensor &x, int64_t columns)
{
    const int64_t rows = x.t.size(0), n = x.t.size(1);
    if (x.room >= columns)
        return x.t.as_strided({rows, n + columns}, {x.t.stride(0), 1});
    const at::Tensor both = at::empty({rows, n + columns}, x.t.options());
    kiln::copy_rows(both.narrow(1, 0, n), x.t);
    return both;
}

kt kt_beside(kt_scope *s, kt x, kt down)
{
    return run(s, "beside", {x, down}, [&] {
        TORCH_CHECK(x->t.dim() == 2 && down->t.size(1) == x->t.size(1) &&
                        x->scale.defined() == down->scale.defined(),
                    "rows ", x->t.sizes(), " beside ", down->t.sizes());
        const at::Tensor both = widened(*x, down->t.size(0));
        const at::Tensor low = both.narrow(1, x->t.size(1), down->t.size(0));
        const kiln::model_kernels *gpu =
            kiln::gpu_kernels(x->t, x->scale.defined() ? at::kFloat8_e4m3fn : at::kBFloat16);
        if (!gpu || !gpu->low_rank_down(*x, *down, low))
            low_by_torch(*x, *down, low);
        return kt_tensor{both, x->scale};
    });
}

/* What the columns of shares can be multiplied by, for codes up to the largest. */
static at::Tensor most_of(const at::Tensor &shares)
{
    return KILN_E4M3_MAX / shares.abs().amax({0}).clamp_min(KILN_E4M3_FLOOR);
}

/* What they are multiplied by, up being shares of the factors of its rows: that.  Where x down^T,
 * divided by it, would not fit into codes then, it is more, and rows of the weight that are far
 * smaller than the others, with factors to match, have no say; what those get is cut instead.
 * Codes of x are about 8 in the mean (KILN_E4M3_BESIDE_MAX is the largest), and those of x down^T
 * get to be 100, of which 448 is four times as much. */
static at::Tensor reach_of(const at::Tensor &shares, const at::Tensor &factors,
                           const at::Tensor &down)
{
    constexpr double sizes = 12; /* of a row of down, in x down^T: 100 / 8 */
    const at::Tensor say = (factors / (factors.mean() / 2)).clamp_max_(1);
    const at::Tensor fitting = at::linalg_vector_norm(down, 2, {1}, false, at::kFloat) / sizes;
    return at::maximum(most_of(shares), at::minimum(fitting, most_of(shares * say)));
}

void kt_put_beside(kt_scope *s, kt both, kt codes, kt up, kt down)
{
    run_void(s, "put_beside", {both, up, down}, [&] {
        const int64_t rank = up->t.size(1), n = both->t.size(1) - rank;
        TORCH_CHECK(up->t.size(0) == both->t.size(0) && down->t.size(0) == rank &&
                        down->t.size(1) == n,
                    up->t.sizes(), " and ", down->t.sizes(), " beside a weight with room of ",
                    both->t.sizes());
        TORCH_CHECK(both->scale.defined() == (codes != nullptr),
                    "down in codes goes with a weight in codes");
        const at::Tensor behind = both->t.narrow(1, n, rank);
        if (!codes) {
            behind.copy_(up->t);
            return;
        }
        const at::Tensor factors = both->scale.unsqueeze(1), shares = up->t / factors;
        const at::Tensor reach = reach_of(shares, factors, down->t);
        behind.copy_((shares * reach).clamp_(-KILN_E4M3_MAX, KILN_E4M3_MAX));
        kiln::take_over(*codes, (down->t / reach.unsqueeze(1)).to(down->t.scalar_type()));
    });
}

/* --- room ------------------------------------------------------------------------------------- */

void kt_make_room(kt_scope *s, kt x, int64_t columns)
{
    run_void(s, "make_room", {x}, [&] {
        const int64_t n = x->t.size(1);
        const at::Tensor moved =
            at::empty({x->t.size(0), n + columns}, x->t.options()).narrow(1, 0, n);
        kiln::copy_rows(moved, x->t);
        *x = {moved, x->scale, columns};
    });
}

int64_t kt_room(kt x)
{
    return x ? x->room : 0;
}

kt kt_widened(kt_scope *s, kt x, int64_t columns)
{
    return run(s, "widened", {x}, [&] {
        TORCH_CHECK(columns <= x->room, columns, " columns of ", x->room, " behind rows");
        return kt_tensor{widened(*x, columns), x->scale};
    });
}

/* --- in it ------------------------------------------------------------------------------------ */

void kt_add_low_rank(kt_scope *s, kt target, int64_t row, kt up, kt down, double scale)
{
    run_void(s, "add_low_rank", {target, up, down}, [&] {
        at::Tensor rows = target->t.narrow(0, row, up->t.size(0));
        at::Tensor delta = at::matmul(up->t.to(at::kFloat), down->t.to(at::kFloat));
        rows.copy_(rows.to(at::kFloat).add_(delta, scale));
    });
}

void kt_merge_low_rank(kt_scope *s, kt target, kt base, kt up, kt down)
{
    run_void(s, "merge_low_rank", {target, base, up, down}, [&] {
        const bool plain = !target->scale.defined();
        at::Tensor sum = plain ? target->t : at::empty(base->t.sizes(), base->t.options());
        kiln::copy_rows(sum, base->t);
        sum.addmm_(up->t, down->t);
        if (!plain)
            kiln::take_over(*target, sum);
    });
}
