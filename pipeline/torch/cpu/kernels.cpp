/* kernels.cpp - see kernels.hpp. */
#include "pipeline/torch/cpu/kernels.hpp"

#include <algorithm>

#include <ATen/Parallel.h>

#include "kernels/fp8.h"
#include "kernels/pictures/group_norm_silu.h"
#include "kernels/pictures/patches.h"
#include "kernels/rows/layer_norm.h"
#include "kernels/rows/quantise.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/swiglu.h"
#include "pipeline/torch/cpu/products.hpp"

namespace kiln::cpu
{

/* Values of a thread at least: fewer are not worth another thread. */
static constexpr int64_t grain_values = 16384;

static int64_t grain(int64_t row_values)
{
    return std::max<int64_t>(1, grain_values / std::max<int64_t>(1, row_values));
}

bool takes(const at::Tensor &x)
{
    return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

at::Tensor rms_norm(const at::Tensor &x, const at::Tensor &gain, double eps, const at::Tensor &add)
{
    const int64_t n = gain.numel();
    const at::Tensor in = dense(x), g = gain.contiguous(), a = dense(add);
    const at::Tensor &stream = a.defined() ? a : in;
    TORCH_CHECK(g.scalar_type() == at::kFloat && in.dim() == 2, "a gain of shape ", gain.sizes(),
                " for rows of shape ", x.sizes());
    TORCH_CHECK(!a.defined() || (in.size(1) == n && a.size(0) == in.size(0) &&
                                 a.scalar_type() == in.scalar_type()),
                "rows of shape ", x.sizes(), " onto a residual of ", stream.sizes());
    at::Tensor y = a.defined() ? at::empty_like(a) : at::empty({in.size(0), n}, in.options());
    kiln_rms_norm args{};
    args.x = data_of(in), args.gain = g.const_data_ptr<float>();
    args.add = data_of(a), args.y = y.data_ptr(), args.tails = has_tails(stream, n);
    args.n = n, args.eps = static_cast<float>(eps), args.format = format_of(in);
    at::parallel_for(0, in.size(0), grain(n),
                     [&](int64_t begin, int64_t end) { kiln_rms_norm_ref(&args, begin, end); });
    return y;
}

at::Tensor layer_norm(const at::Tensor &x, double eps, const at::Tensor &scale)
{
    const int64_t n = scale.numel();
    const at::Tensor in = dense(x), f = scale.contiguous();
    TORCH_CHECK(f.scalar_type() == at::kFloat, "a scale of ", scale.toString());
    at::Tensor y = at::empty({in.size(0), n}, in.options());
    kiln_layer_norm args{};
    args.x = data_of(in), args.scale = f.const_data_ptr<float>(), args.y = y.data_ptr();
    args.tails = has_tails(in, n);
    args.n = n, args.eps = static_cast<float>(eps), args.format = format_of(in);
    at::parallel_for(0, in.size(0), grain(n),
                     [&](int64_t begin, int64_t end) { kiln_layer_norm_ref(&args, begin, end); });
    return y;
}

at::Tensor swiglu(const at::Tensor &gate_up)
{
    at::Tensor in = dense(gate_up);
    int64_t rows = in.size(0), n = in.size(1) / 2;
    at::Tensor y = at::empty({rows, n}, in.options());
    kiln_swiglu args{};
    args.gate_up = data_of(in), args.y = y.data_ptr(), args.n = n, args.format = format_of(in);
    at::parallel_for(0, rows, grain(2 * n),
                     [&](int64_t begin, int64_t end) { kiln_swiglu_ref(&args, begin, end); });
    return y;
}

kt_tensor quantise(const at::Tensor &rows, int64_t room)
{
    at::Tensor in = dense(rows);
    at::Tensor wide = at::empty({in.size(0), in.size(1) + room}, at::kFloat8_e4m3fn);
    kt_tensor out{wide.narrow(1, 0, in.size(1)), at::empty({in.size(0)}, at::kFloat), room};
    kiln_quantise args{};
    args.pitch = wide.size(1), args.code_max = code_max(out);
    args.x = data_of(in), args.n = in.size(1), args.format = format_of(in);
    args.quantised = static_cast<uint8_t *>(out.t.data_ptr());
    args.row_scale = out.scale.data_ptr<float>();
    at::parallel_for(0, in.size(0), grain(args.n),
                     [&](int64_t begin, int64_t end) { kiln_quantise_ref(&args, begin, end); });
    return out;
}

/* --- pictures --------------------------------------------------------------------------------- */

/* Sums over so many pixels of x, in a fixed number of parts, whatever the number of threads. */
static std::vector<double> norm_sums(const kiln_group_norm &args, int64_t pixels)
{
    constexpr int64_t parts = 64;
    std::vector<double> sums(static_cast<size_t>(parts * 2 * args.channels), 0.0);
    const int64_t stride = 2 * args.channels, each = (pixels + parts - 1) / parts;
    at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; part++)
            kiln_group_norm_sums_ref(&args, std::min(pixels, part * each),
                                     std::min(pixels, (part + 1) * each),
                                     sums.data() + part * stride);
    });
    for (int64_t part = 1; part < parts; part++)
        for (int64_t i = 0; i < stride; i++)
            sums[static_cast<size_t>(i)] += sums[static_cast<size_t>(part * stride + i)];
    sums.resize(static_cast<size_t>(stride));
    return sums;
}

static void apply_norm(const kiln_group_norm &args, int64_t pixels, const double *sums)
{
    at::parallel_for(0, pixels, grain(args.channels), [&](int64_t begin, int64_t end) {
        kiln_group_norm_apply_ref(&args, sums, begin, end);
    });
}

/* A norm's operands as the kernels want them, and what they point to. */
struct norm_operands {
    at::Tensor weight, bias, x_bias;
    kiln_group_norm args{};

    norm_operands(const struct kt_norm &n, const at::Tensor &x, const at::Tensor &y)
        : weight(dense(n.weight->t)), bias(dense(n.bias->t)),
          x_bias(n.x_bias ? dense(n.x_bias->t) : at::Tensor())
    {
        args.x = data_of(x), args.y = y.data_ptr();
        args.weight = data_of(weight), args.bias = data_of(bias);
        args.x_bias = n.x_bias ? data_of(x_bias) : nullptr;
        args.pixels = x.size(2) * x.size(3), args.channels = static_cast<int>(x.size(1));
        args.groups = n.groups, args.eps = static_cast<float>(n.eps), args.silu = n.silu;
        args.format = format_of(x);
    }
};

void group_norm(const at::Tensor &x, const at::Tensor &y, const struct kt_norm &n)
{
    at::Tensor origin = x.select(0, 0).select(1, 0).select(1, 0).clone(); /* y may be x */
    norm_operands o(n, x, y);
    o.args.origin = data_of(origin);
    apply_norm(o.args, o.args.pixels, norm_sums(o.args, o.args.pixels).data());
}

void strip_norm_add(const struct kt_strip_norm &n, const at::Tensor &strip)
{
    norm_operands o(n.norm, strip, strip);
    o.args.origin = data_of(n.origin->t);
    const std::vector<double> sums = norm_sums(o.args, o.args.pixels);
    double *all = n.sums->t.data_ptr<double>();
    for (size_t i = 0; i < sums.size(); i++)
        all[i] += sums[i];
}

at::Tensor strip_norm(const struct kt_strip_norm &n, const at::Tensor &strip)
{
    at::Tensor y = at::empty_like(strip, at::MemoryFormat::ChannelsLast);
    norm_operands o(n.norm, strip, y);
    const int64_t pixels = o.args.pixels;
    o.args.origin = data_of(n.origin->t), o.args.pixels = n.pixels;
    apply_norm(o.args, pixels, n.sums->t.const_data_ptr<double>());
    return y;
}

/* --- latents ---------------------------------------------------------------------------------- */

static kiln_patches shape_of(const at::Tensor &latent, int patch, kiln_float format)
{
    kiln_patches shape{};
    shape.items = latent.dim() == 4 ? latent.size(0) : 1;
    shape.channels = static_cast<int>(latent.size(-3));
    shape.height = static_cast<int>(latent.size(-2));
    shape.width = static_cast<int>(latent.size(-1));
    shape.patch = patch, shape.format = format;
    return shape;
}

/* Calls f(begin, end) for the lines of patches. */
template <class F> static void each_line(const kiln_patches &s, F f)
{
    const int64_t values = int64_t{s.channels} * s.patch * s.width;
    at::parallel_for(0, s.items * s.height / s.patch, grain(values), f);
}

at::Tensor patchify(const at::Tensor &latent, int patch, at::ScalarType dtype)
{
    const int64_t width = latent.size(-3) * patch * patch;
    at::Tensor tokens = at::empty({latent.numel() / width, width}, latent.options().dtype(dtype));
    const kiln_patchify args{shape_of(latent, patch, format_of(tokens)),
                             latent.const_data_ptr<float>(), tokens.data_ptr()};
    each_line(args.shape, [&](int64_t begin, int64_t end) {
        kiln_patchify_ref(&args, begin, end);
    });
    return tokens;
}

void euler_step(const struct kt_euler_step &step)
{
    const at::Tensor with = dense(step.with->t), without = dense(maybe(step.without));
    TORCH_CHECK(!without.defined() || without.scalar_type() == with.scalar_type(), "rows of ",
                with.toString(), " and ", without.toString());
    kiln_euler_step args{};
    args.shape = shape_of(step.latent->t, step.patch, format_of(with));
    args.with = data_of(with), args.without = data_of(without);
    args.guidance = static_cast<float>(step.guidance);
    args.stride = step.stride->t.const_data_ptr<float>();
    args.latent = step.latent->t.data_ptr<float>();
    args.bad = step.bad ? reinterpret_cast<uint32_t *>(step.bad->t.data_ptr<int32_t>()) : nullptr;
    each_line(args.shape, [&](int64_t begin, int64_t end) {
        kiln_euler_step_ref(&args, begin, end);
    });
}

} // namespace kiln::cpu
