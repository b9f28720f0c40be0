/* low_rank.cpp - see low_rank.h. */
#include "pipeline/torch/low_rank.h"

#include <ATen/Parallel.h>

#include "kernels/fp8.h"
#include "kernels/products/low_rank_codes.h"
#include "pipeline/torch/cpu/kernels.hpp"
#include "pipeline/torch/cuda/plugin.hpp"

using kiln::run;
using kiln::run_void;

/* --- beside ----------------------------------------------------------------------------------- */

void kt_add_product(kt_scope *s, kt y, kt lora, kt up)
{
    run_void(s, "add_product", {y, lora, up}, [&] { y->t.addmm_(lora->t, up->t.t()); });
}

/* x down^T by LibTorch.  In codes: of rows whose own factors are left out. */
static void lora_by_torch(const kt_tensor &x, const kt_tensor &down, at::Tensor lora)
{
    if (!x.scale.defined()) {
        at::mm_out(lora, x.t, down.t.t());
        return;
    }
    const at::Tensor sums = kiln::linear_e4m3({x.t, at::ones_like(x.scale)}, down, {});
    lora.copy_(at::clamp(sums, -KILN_E4M3_MAX, KILN_E4M3_MAX));
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
        if (x->beside.defined() && x->beside.is_same(down->t))
            return kt_tensor{both, x->scale};
        const at::Tensor lora = both.narrow(1, x->t.size(1), down->t.size(0));
        const kiln::model_kernels *gpu =
            kiln::gpu_kernels(x->t, x->scale.defined() ? at::kFloat8_e4m3fn : at::kBFloat16);
        if (!gpu || !gpu->low_rank_down(*x, *down, lora))
            lora_by_torch(*x, *down, lora);
        x->beside.reset(); /* another set's has been there */
        return kt_tensor{both, x->scale};
    });
}

/* A pair in codes: up into columns behind those of a weight whose rows have these factors. */
static void make_codes(const at::Tensor &up, const at::Tensor &down, const at::Tensor &factors,
                       const at::Tensor &up_codes, const kt_tensor &down_codes)
{
    const at::Tensor columns = up.contiguous(), rows = down.contiguous();
    const at::Tensor factor = factors.contiguous();
    const kiln::model_kernels *gpu = kiln::gpu_kernels(columns);
    TORCH_CHECK((gpu || kiln::cpu::takes(columns)) && rows.options().type_equal(up.options()),
                "codes of a pair in ", up.options(), " and ", down.options());
    TORCH_CHECK(down_codes.t.sizes() == rows.sizes() && down_codes.t.is_contiguous() &&
                    down_codes.scale.numel() == rows.size(0) && factor.numel() == up.size(0) &&
                    up_codes.stride(1) == 1,
                "codes ", up_codes.sizes(), " and ", down_codes.t.sizes(), " for ", up.sizes(),
                " and ", rows.sizes());
    kiln_low_rank_codes args{};
    args.up = columns.const_data_ptr(), args.down = rows.const_data_ptr();
    args.factor = factor.const_data_ptr<float>();
    args.up_codes = static_cast<uint8_t *>(up_codes.data_ptr()), args.pitch = up_codes.stride(0);
    args.down_codes = static_cast<uint8_t *>(down_codes.t.data_ptr());
    args.down_scale = down_codes.scale.data_ptr<float>();
    args.n = up.size(0), args.k = rows.size(1), args.rank = rows.size(0);
    args.format = up.scalar_type() == at::kBFloat16 ? KILN_BF16 : KILN_F32;
    if (gpu)
        gpu->low_rank_codes(args, columns);
    else
        at::parallel_for(0, args.rank, 1, [&](int64_t begin, int64_t end) {
            kiln_low_rank_codes_ref(&args, begin, end);
        });
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
        if (codes)
            make_codes(up->t, down->t, both->scale, behind, *codes);
        else
            behind.copy_(up->t);
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

/* --- merged ----------------------------------------------------------------------------------- */

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
            kiln::assign(*target, sum);
    });
}
