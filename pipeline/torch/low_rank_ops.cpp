/* low_rank_ops.cpp - see low_rank.h. */
#include "pipeline/torch/low_rank.h"

#include "pipeline/torch/cuda/plugin.hpp"
#include "pipeline/torch/internal.hpp"

using kiln::run;
using kiln::run_void;

/* --- beside ----------------------------------------------------------------------------------- */

void kt_add_product(kt_scope *s, kt y, kt low, kt up, int parts)
{
    run_void(s, "add_product", {y, low, up}, [&] {
        const kiln::model_kernels *gpu = kiln::gpu_kernels(y->t);
        if (!gpu || !gpu->low_rank_up(y->t, low->t, up->t, parts))
            y->t.addmm_(low->t, up->t.t());
    });
}

kt kt_beside(kt_scope *s, kt x, kt down)
{
    return run(s, "beside", {x, down}, [&] {
        TORCH_CHECK(x->t.dim() == 2 && down->t.size(1) == x->t.size(1), "rows ", x->t.sizes(),
                    " beside ", down->t.sizes());
        const int64_t rows = x->t.size(0), n = x->t.size(1), rank = down->t.size(0);
        const bool room = x->room >= rank;
        const at::Tensor both = room ? x->t.as_strided({rows, n + rank}, {x->t.stride(0), 1})
                                     : at::empty({rows, n + rank}, x->t.options());
        at::Tensor low = both.narrow(1, n, rank);
        if (!room)
            kiln::copy_rows(both.narrow(1, 0, n), x->t);
        at::mm_out(low, x->t, down->t.t());
        return both;
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
        *x = {moved, {}, columns};
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
        return x->t.as_strided({x->t.size(0), x->t.size(1) + columns}, {x->t.stride(0), 1});
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
