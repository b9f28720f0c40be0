/* latent.cpp - the latent picture: its start, the transformer's token rows, the sampler's step. */
#include "kernels/pictures/latent_enlarge.h"
#include "kernels/pictures/latent_mix.h"
#include "pipeline/torch/cpu/kernels.hpp"

#include "pipeline/torch/cuda/plugin.hpp"

using kiln::run;
using kiln::run_void;

namespace kiln
{

/* Below, latents are [items,C,H,W]. */
static at::Tensor of_items(const at::Tensor &latent)
{
    return latent.dim() == 3 ? latent.unsqueeze(0) : latent;
}

static at::Tensor patchify(const at::Tensor &latent, int64_t p)
{
    const int64_t items = latent.size(0), c = latent.size(1);
    const int64_t h = latent.size(2) / p, w = latent.size(3) / p;
    at::Tensor x = latent.reshape({items, c, h, p, w, p}).permute({0, 2, 4, 3, 5, 1});
    return x.reshape({items * h * w, p * p * c});
}

/* Token rows back to the shape of the latents, in fp32. */
static at::Tensor unpatchify(const at::Tensor &rows, const at::Tensor &latent, int64_t p)
{
    const int64_t items = latent.size(0), c = latent.size(1);
    const int64_t h = latent.size(2), w = latent.size(3);
    at::Tensor x = rows.reshape({items, h / p, w / p, p, p, c}).permute({0, 5, 1, 3, 2, 4});
    return x.reshape({items, c, h, w}).to(at::kFloat);
}

static void euler_step(const struct kt_euler_step &a)
{
    const at::Tensor latent = of_items(a.latent->t), &stride = a.stride->t;
    at::Tensor out = unpatchify(a.with->t, latent, a.patch);
    if (a.without) {
        at::Tensor without = unpatchify(a.without->t, latent, a.patch);
        out = at::add(out, at::add(out, without, -1.0), a.guidance);
    }
    latent.sub_(out * stride.view({-1, 1, 1, 1}));
    if (a.bad)
        a.bad->t.bitwise_or_(at::isfinite(latent).flatten(1).all(1).logical_not().to(at::kInt));
}

static at::Tensor noised(const at::Tensor &clean, const at::Tensor &noise, double sigma)
{
    const at::Tensor from = clean.contiguous(), with = noise.contiguous(), x = at::empty_like(with);
    const kiln_latent_enlarge args{from.const_data_ptr<float>(),
                                   with.const_data_ptr<float>(),
                                   x.data_ptr<float>(),
                                   static_cast<int>(from.size(0)),
                                   static_cast<int>(from.size(1)),
                                   static_cast<int>(from.size(2)),
                                   static_cast<int>(with.size(1)),
                                   static_cast<int>(with.size(2)),
                                   static_cast<float>(sigma)};
    const model_kernels *gpu = gpu_kernels(with, at::kFloat);
    if (gpu)
        gpu->latent_enlarge(args, with);
    else
        kiln_latent_enlarge_ref(&args);
    return x;
}

static void check_start(const at::Tensor &clean, const at::Tensor &noise, double sigma)
{
    TORCH_CHECK(clean.dim() == 3 && noise.dim() == 3 && clean.size(0) == noise.size(0) &&
                    clean.numel() > 0 && noise.numel() > 0 && clean.scalar_type() == at::kFloat &&
                    noise.scalar_type() == at::kFloat && sigma >= 0 && sigma <= 1,
                "a start of shape ", clean.sizes(), " for noise of ", noise.sizes(), ", sigma ",
                sigma);
}

static void check_clean(const at::Tensor &x, const at::Tensor &as)
{
    TORCH_CHECK(x.scalar_type() == at::kFloat && x.sizes() == as.sizes() && x.numel() > 0,
                "a latent of shape ", x.sizes(), " and one of ", as.sizes());
}

static at::Tensor mixed(const kt *clean, const double *weights, int count)
{
    TORCH_CHECK(count >= 1 && count <= KILN_MIX_MAX, count, " latents of one start");
    kiln_latent_mix args{};
    at::Tensor from[KILN_MIX_MAX];
    for (int i = 0; i < count; i++) {
        check_clean(clean[i]->t, clean[0]->t);
        from[i] = clean[i]->t.contiguous();
        args.clean[i] = from[i].const_data_ptr<float>();
        args.clean_weight[i] = static_cast<float>(weights[i]);
    }
    const at::Tensor x = at::empty_like(from[0]);
    args.clean_count = count, args.n = x.numel(), args.x = x.data_ptr<float>();
    const model_kernels *gpu = gpu_kernels(x, at::kFloat);
    if (gpu)
        gpu->latent_mix(args, x);
    else
        kiln_latent_mix_ref(&args);
    return x;
}

static at::Tensor slerp(const at::Tensor &a, const at::Tensor &b, double t)
{
    check_clean(a, b);
    const at::Tensor from = a.contiguous(), to = b.contiguous(), x = at::empty_like(from);
    const at::Tensor workspace = at::empty({KILN_SLERP_WORKSPACE}, x.options().dtype(at::kDouble));
    const kiln_slerp args{from.const_data_ptr<float>(), to.const_data_ptr<float>(),
                          x.data_ptr<float>(),          x.numel(),
                          static_cast<float>(t),        workspace.data_ptr<double>()};
    const model_kernels *gpu = gpu_kernels(x, at::kFloat);
    if (gpu)
        gpu->slerp(args, x);
    else
        kiln_slerp_ref(&args);
    return x;
}

static void check_patches(const at::Tensor &latent, int64_t p)
{
    TORCH_CHECK((latent.dim() == 3 || latent.dim() == 4) && latent.scalar_type() == at::kFloat &&
                    latent.is_contiguous() && p > 0 && latent.size(-2) % p == 0 &&
                    latent.size(-1) % p == 0,
                "a latent of shape ", latent.sizes(), " for patches of ", p);
}

static void check_rows(const at::Tensor &rows, const at::Tensor &latent, int64_t p)
{
    TORCH_CHECK(rows.dim() == 2 && rows.size(1) == latent.size(-3) * p * p &&
                    rows.numel() == latent.numel(),
                "token rows of shape ", rows.sizes(), " for a latent of ", latent.sizes());
}

/* One value an item. */
static void check_item_values(const at::Tensor &values, const at::Tensor &latent)
{
    TORCH_CHECK(values.dim() == 1 && values.size(0) == of_items(latent).size(0) &&
                    values.is_contiguous(),
                "values of shape ", values.sizes(), " for a latent of ", latent.sizes());
}

} // namespace kiln

kt kt_patchify(kt_scope *s, kt latent, int patch, kt_dtype dtype)
{
    return run(s, "patchify", {latent}, [&] {
        kiln::check_patches(latent->t, patch);
        const kiln::model_kernels *gpu = kiln::gpu_kernels(latent->t, at::kFloat);
        if (gpu && dtype == KT_BF16)
            return gpu->patchify(latent->t, patch);
        if (kiln::cpu::takes(latent->t))
            return kiln::cpu::patchify(latent->t, patch, kiln::scalar_of(dtype));
        return kiln::patchify(kiln::of_items(latent->t), patch).to(kiln::scalar_of(dtype));
    });
}

kt kt_noised(kt_scope *s, kt clean, kt noise, double sigma)
{
    return run(s, "noised", {clean, noise}, [&] {
        kiln::check_start(clean->t, noise->t, sigma);
        return kiln::noised(clean->t, noise->t, sigma);
    });
}

kt kt_mixed(kt_scope *s, const kt *clean, const double *weights, int count)
{
    kt all[KILN_MIX_MAX] = {};
    for (int i = 0; i < KILN_MIX_MAX; i++) /* a missing one is an error of its own */
        all[i] = i < count ? clean[i] : clean[0];
    return run(s, "mixed", {all[0], all[1], all[2], all[3], all[4]},
               [&] { return kiln::mixed(clean, weights, count); });
}

kt kt_slerp(kt_scope *s, kt a, kt b, double t)
{
    return run(s, "slerp", {a, b}, [&] { return kiln::slerp(a->t, b->t, t); });
}

kt kt_relative_difference(kt_scope *s, kt x, kt y)
{
    return run(s, "relative_difference", {x, y}, [&] {
        kiln::check_clean(x->t, y->t);
        const at::Tensor off = at::sub(x->t, y->t).square().sum(), of = y->t.square().sum();
        return at::div(off, of).sqrt().reshape({1});
    });
}

void kt_euler_step(kt_scope *s, const struct kt_euler_step *args)
{
    run_void(s, "euler_step", {args->latent, args->with, args->stride}, [&] {
        kiln::check_patches(args->latent->t, args->patch);
        kiln::check_rows(args->with->t, args->latent->t, args->patch);
        if (args->without)
            kiln::check_rows(args->without->t, args->latent->t, args->patch);
        kiln::check_item_values(args->stride->t, args->latent->t);
        if (args->bad)
            kiln::check_item_values(args->bad->t, args->latent->t);
        const kiln::model_kernels *gpu = kiln::gpu_kernels(args->with->t);
        if (gpu)
            gpu->euler_step(*args);
        else if (kiln::cpu::takes(args->with->t))
            kiln::cpu::euler_step(*args);
        else
            kiln::euler_step(*args);
    });
}
