/* e4m3.cpp - rows of FP8: quantised, multiplied, dequantised.
 *
 * Each row has a factor of its own, so that a large activation of one token does not cost another
 * token precision; rows from FP8 attention share one factor.  An element of a product is the
 * product of codes times both rows' factors.  Tensor cores compute it that way; on other devices
 * the codes are dequantised first, which gives the same up to the order of sums.
 */
#include "pipeline/torch/cpu/kernels.hpp"

#include "kernels/fp8.h"
#include "pipeline/torch/cuda/plugin.hpp"
#include "pipeline/torch/load.h"

using kiln::run;
using kiln::run_void;

namespace kiln
{

at::Tensor plain(const kt_tensor &x, at::ScalarType dtype)
{
    if (!x.scale.defined())
        return x.t.to(dtype);
    if (dtype == at::kBFloat16) /* holds codes exactly: one rounding, half the memory */
        return x.t.to(dtype).mul_(x.scale.unsqueeze(-1));
    return x.t.to(at::kFloat).mul_(x.scale.unsqueeze(-1)).to(dtype);
}

at::Tensor plain(const kt_tensor &x)
{
    return x.scale.defined() ? plain(x, at::kBFloat16) : x.t;
}

/* By LibTorch's operators; kernels/fp8.h is the definition. */
static kt_tensor quantised_by_torch(const at::Tensor &rows)
{
    at::Tensor wide = rows.to(at::kFloat);
    at::Tensor top = wide.abs().amax({-1}, true).clamp_min_(KILN_E4M3_FLOOR);
    at::Tensor codes = (wide * (KILN_E4M3_MAX / top)).clamp_(-KILN_E4M3_MAX, KILN_E4M3_MAX);
    return {codes.to(at::kFloat8_e4m3fn), (top / KILN_E4M3_MAX).squeeze(-1)};
}

kt_tensor quantised(const at::Tensor &rows, int64_t room)
{
    TORCH_CHECK(rows.dim() == 2, "rows to be quantised have the shape ", rows.sizes());
    const model_kernels *gpu = gpu_kernels(rows);
    return gpu                ? gpu->quantise(rows, room)
           : cpu::takes(rows) ? cpu::quantise(rows, room)
                              : quantised_by_torch(rows);
}

/* Whether rows and steps from row to row are whole words of 16 bytes. */
static bool is_words(const at::Tensor &x)
{
    const int64_t values = 16 / x.element_size();
    return x.dim() == 2 && x.stride(1) == 1 && x.size(1) % values == 0 &&
           x.stride(0) % values == 0 && x.storage_offset() % values == 0;
}

/* Rows with room are copied in words of 16 bytes: LibTorch would copy value by value, three times
 * slower. */
void copy_rows(const at::Tensor &target, const at::Tensor &x)
{
    if (target.scalar_type() == x.scalar_type() && is_words(target) && is_words(x))
        target.view(at::kComplexDouble).copy_(x.view(at::kComplexDouble));
    else
        target.copy_(x);
}

void assign(const kt_tensor &target, const at::Tensor &x)
{
    if (!target.scale.defined()) {
        copy_rows(target.t, x);
        return;
    }
    const kt_tensor rows = quantised(x);
    copy_rows(target.t, rows.t);
    target.scale.copy_(rows.scale);
}

kt_tensor formed(const kt_tensor &rows, const kt_form &form)
{
    return form.e4m3 ? quantised(rows.t, form.room) : rows;
}

/* A copy unless tensor cores can read the rows: each must begin on 16 bytes. */
static at::Tensor readable(const at::Tensor &codes)
{
    return codes.stride(1) == 1 && codes.stride(0) % 16 == 0 ? codes : codes.contiguous();
}

/* The tensor cores take rows in multiples of 16 bytes on both sides. */
static bool multiplies(const at::Tensor &x, const at::Tensor &weight)
{
    return x.is_cuda() && likes_e4m3(x.device().index()) && weight.size(0) % 16 == 0 &&
           weight.size(1) % 16 == 0;
}

at::Tensor linear_e4m3(const kt_tensor &x, const kt_tensor &weight, const at::Tensor &bias)
{
    const kt_tensor rows = x.scale.defined() ? x : quantised(x.t);
    const at::ScalarType dtype = x.scale.defined() ? at::kBFloat16 : x.t.scalar_type();
    if (!multiplies(rows.t, weight.t))
        return linear(plain(rows, dtype), plain(weight, dtype), bias);
    const std::optional<at::Tensor> add = bias.defined() ? std::make_optional(bias) : std::nullopt;
    return at::_scaled_mm(readable(rows.t), readable(weight.t).t(), rows.scale.unsqueeze(1),
                          weight.scale.unsqueeze(0), add, std::nullopt, at::kBFloat16,
                          /*use_fast_accum=*/true)
        .to(dtype);
}

} // namespace kiln

kt kt_quantise_rows(kt_scope *s, kt x)
{
    return run(s, "quantise_rows", {x}, [&] { return kiln::quantised(x->t); });
}

/* --- taken apart ------------------------------------------------------------------------------ */

kt kt_rows_of(kt_scope *s, kt codes, kt factors)
{
    return run(s, "rows_of", {codes, factors}, [&] {
        TORCH_CHECK(codes->t.dim() == 2 && factors->t.dim() == 1 &&
                        codes->t.size(0) == factors->t.size(0),
                    codes->t.sizes(), " codes, ", factors->t.sizes(), " factors");
        return kt_tensor{codes->t.view(at::kFloat8_e4m3fn), factors->t};
    });
}

void kt_rows_parts(kt_scope *s, kt rows, kt *ret_codes, kt *ret_factors)
{
    *ret_codes = run(s, "rows_parts", {rows}, [&] {
        TORCH_CHECK(rows->scale.defined(), "rows that are not quantised");
        return rows->t.view(at::kByte);
    });
    *ret_factors = run(s, "rows_parts", {rows, *ret_codes}, [&] { return rows->scale; });
}

/* The sum of all 64-bit words, and of the bytes after the last of them. */
static uint64_t sum_of(const at::Tensor &t)
{
    const at::Tensor bytes = t.contiguous().view(at::kByte).flatten();
    const int64_t whole = bytes.numel() / 8 * 8;
    const at::Tensor words = bytes.narrow(0, 0, whole).view(at::kLong);
    const at::Tensor rest = bytes.narrow(0, whole, bytes.numel() - whole);
    return static_cast<uint64_t>(words.sum().item<int64_t>()) +
           static_cast<uint64_t>(rest.sum(at::kLong).item<int64_t>());
}

bool kt_rows_sums(kt_scope *s, kt rows, uint64_t ret[2])
{
    bool done = false;
    run_void(s, "rows_sums", {rows}, [&] {
        TORCH_CHECK(rows->scale.defined(), "rows that are not quantised");
        ret[0] = sum_of(rows->t), ret[1] = sum_of(rows->scale);
        done = true;
    });
    return done;
}
