/* latent_ops.cpp - between the latent picture and the transformer's token rows. */
#include "pipeline/torch/internal.hpp"

#include "pipeline/torch/cuda/plugin.hpp"

using kiln::run;
using kiln::run_void;

namespace kiln
{

static at::Tensor patchify(const at::Tensor &latent, int64_t p)
{
    int64_t c = latent.size(0), h = latent.size(1) / p, w = latent.size(2) / p;
    at::Tensor x = latent.reshape({c, h, p, w, p}).permute({1, 3, 2, 4, 0});
    return x.reshape({h * w, p * p * c});
}

/* Token rows back to the shape of the latent, in fp32. */
static at::Tensor unpatchify(const at::Tensor &rows, const at::Tensor &latent, int64_t p)
{
    int64_t c = latent.size(0), h = latent.size(1), w = latent.size(2);
    at::Tensor x = rows.reshape({h / p, w / p, p, p, c}).permute({4, 0, 2, 1, 3});
    return x.reshape({c, h, w}).to(at::kFloat);
}

static void patch_step(const struct kt_patch_step &a)
{
    at::Tensor out = unpatchify(a.with->t, a.latent->t, a.patch);
    if (a.without) {
        at::Tensor without = unpatchify(a.without->t, a.latent->t, a.patch);
        out = at::add(out, at::add(out, without, -1.0), a.guidance);
    }
    if (a.stride->t.is_cpu())
        a.latent->t.add_(out, -static_cast<double>(a.stride->t.item<float>()));
    else
        a.latent->t.sub_(out * a.stride->t);
    if (a.bad)
        a.bad->t.bitwise_or_(at::isfinite(a.latent->t).all().logical_not().to(at::kInt));
}

static void check_patches(const at::Tensor &latent, int64_t p)
{
    TORCH_CHECK(latent.dim() == 3 && latent.scalar_type() == at::kFloat && latent.is_contiguous() &&
                    p > 0 && latent.size(1) % p == 0 && latent.size(2) % p == 0,
                "a latent of shape ", latent.sizes(), " for patches of ", p);
}

static void check_rows(const at::Tensor &rows, const at::Tensor &latent, int64_t p)
{
    TORCH_CHECK(rows.dim() == 2 && rows.size(1) == latent.size(0) * p * p &&
                    rows.numel() == latent.numel(),
                "token rows of shape ", rows.sizes(), " for a latent of ", latent.sizes());
}

} // namespace kiln

kt kt_patchify(kt_scope *s, kt latent, int patch, kt_dtype dtype)
{
    return run(s, "patchify", {latent}, [&] {
        kiln::check_patches(latent->t, patch);
        const kiln::model_kernels *gpu = kiln::gpu_kernels(latent->t, at::kFloat);
        if (gpu && dtype == KT_BF16)
            return gpu->patchify(latent->t, patch);
        return kiln::patchify(latent->t, patch).to(kiln::scalar_of(dtype));
    });
}

void kt_patch_step(kt_scope *s, const struct kt_patch_step *args)
{
    run_void(s, "patch_step", {args->latent, args->with, args->stride}, [&] {
        kiln::check_patches(args->latent->t, args->patch);
        kiln::check_rows(args->with->t, args->latent->t, args->patch);
        if (args->without)
            kiln::check_rows(args->without->t, args->latent->t, args->patch);
        const kiln::model_kernels *gpu = kiln::gpu_kernels(args->with->t);
        if (gpu)
            gpu->patch_step(*args);
        else
            kiln::patch_step(*args);
    });
}
