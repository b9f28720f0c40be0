/* model_kernels.cpp - the launchers of kernels/ over LibTorch's tensors: memory, streams, errors.
 *
 * A launcher neither allocates nor waits; here its results are allocated from LibTorch's cache and
 * it is queued on the device's current stream, which may be one that records a graph.
 */
#include "pipeline/torch/cuda/cudnn_attention.hpp"
#include "pipeline/torch/cuda/plugin.hpp"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/attention/qkv_e4m3.h"
#include "kernels/attention/qkv_rope.h"
#include "kernels/fp8.h"
#include "kernels/pictures/latent_enlarge.h"
#include "kernels/pictures/latent_mix.h"
#include "kernels/pictures/patches.h"
#include "kernels/products/gated_product.h"
#include "kernels/products/low_rank_codes.h"
#include "kernels/products/low_rank_down.h"
#include "kernels/rows/layer_norm.h"
#include "kernels/rows/quantise.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/swiglu.h"

namespace kiln
{

/* Calls launcher(stream, err) on the device and the current stream of x; throws what it says. */
template <class F> static void launch_on(const at::Tensor &x, F &&launcher)
{
    kiln_error err{};
    const c10::cuda::CUDAGuard guard(x.device());
    const int code = launcher(c10::cuda::getCurrentCUDAStream(x.device().index()).stream(), &err);
    TORCH_CHECK(code == KILN_OK, err.text);
}

/* The same for a kernel that does not take every shape: false where it does not. */
template <class F> static bool launch_if_taken(const at::Tensor &x, F &&launcher)
{
    bool taken = true;
    launch_on(x, [&](kiln_stream stream, kiln_error *err) {
        const int code = launcher(stream, err);
        taken = code != KILN_UNSUPPORTED;
        return taken ? code : KILN_OK;
    });
    return taken;
}

/* A vector that every row of n values of x is multiplied with. */
static at::Tensor gain_of(const at::Tensor &x, int64_t n, const at::Tensor &gain)
{
    TORCH_CHECK(gain.numel() == n && gain.scalar_type() == at::kFloat &&
                    gain.device() == x.device(),
                "a gain of shape ", gain.sizes(), " for rows of shape ", x.sizes());
    return gain.contiguous();
}

static void want_rows(const at::Tensor &x)
{
    TORCH_CHECK(x.dim() == 2, "rows have the shape ", x.sizes());
}

/* Memory for a result of rows by n, in the form that is wanted. */
static kt_tensor result_like(const at::Tensor &x, int64_t n, kt_form form)
{
    const at::ScalarType dtype = form.e4m3 ? at::kFloat8_e4m3fn : x.scalar_type();
    const at::Tensor wide = at::empty({x.size(0), n + form.room}, x.options().dtype(dtype));
    at::Tensor scale;
    if (form.e4m3)
        scale = at::empty({x.size(0)}, x.options().dtype(at::kFloat));
    return {wide.narrow(1, 0, n), scale, form.room};
}

/* Where a kernel shall write a result of either form; NULL where it is not wanted. */
static void *rows_of(kt_tensor &out)
{
    return out.scale.defined() ? nullptr : out.t.data_ptr();
}
static uint8_t *codes_of(kt_tensor &out)
{
    return out.scale.defined() ? static_cast<uint8_t *>(out.t.data_ptr()) : nullptr;
}
static float *scales_of(kt_tensor &out)
{
    return out.scale.defined() ? out.scale.data_ptr<float>() : nullptr;
}

/* --- rows ------------------------------------------------------------------------------------- */

static kt_tensor rms_norm(const at::Tensor &x, const at::Tensor &gain, double eps, kt_form form)
{
    want_rows(x);
    const int64_t n = gain.numel();
    const at::Tensor in = dense(x), g = gain_of(x, n, gain);
    kt_tensor out = result_like(in, n, form);
    kiln_rms_norm args{};
    args.x = data_of(in), args.gain = g.const_data_ptr<float>(), args.tails = has_tails(in, n);
    args.y = rows_of(out), args.n = n, args.eps = static_cast<float>(eps);
    args.pitch = out.t.stride(0);
    args.format = KILN_BF16, args.quantised = codes_of(out), args.row_scale = scales_of(out);
    args.code_max = code_max(out);
    launch_on(in, [&](kiln_stream stream, kiln_error *err) {
        return kiln_rms_norm_launch(&args, in.size(0), stream, err);
    });
    return out;
}

static at::Tensor add_rms_norm(const kt_residual_norm &a, kt_tensor *ret_next)
{
    want_rows(a.y->t);
    const at::Tensor in = dense(a.y->t), add = dense(a.x->t);
    const int64_t n = in.size(1);
    TORCH_CHECK(add.size(0) == in.size(0) && add.scalar_type() == in.scalar_type(), "rows of ",
                in.sizes(), " onto a residual of ", add.sizes());
    const at::Tensor gain = gain_of(in, n, a.gain->t);
    at::Tensor next_gain, y = at::empty_like(add);
    kiln_rms_norm args{};
    args.x = data_of(in), args.gain = gain.const_data_ptr<float>();
    args.add = data_of(add), args.tails = has_tails(add, n), args.y = y.data_ptr(), args.n = n;
    args.eps = static_cast<float>(a.eps), args.format = KILN_BF16;
    if (a.next_gain) {
        *ret_next = result_like(in, n, a.next_form);
        next_gain = gain_of(in, n, a.next_gain->t);
        args.next_gain = next_gain.const_data_ptr<float>();
        args.next = rows_of(*ret_next), args.pitch = ret_next->t.stride(0);
        args.quantised = codes_of(*ret_next), args.row_scale = scales_of(*ret_next);
        args.code_max = code_max(*ret_next);
    }
    launch_on(in, [&](kiln_stream stream, kiln_error *err) {
        return kiln_rms_norm_launch(&args, in.size(0), stream, err);
    });
    return y;
}

static at::Tensor layer_norm(const at::Tensor &x, double eps, const at::Tensor &scale)
{
    want_rows(x);
    const int64_t n = scale.numel();
    const at::Tensor in = dense(x), f = gain_of(x, n, scale);
    at::Tensor y = at::empty({in.size(0), n}, in.options());
    kiln_layer_norm args{};
    args.x = data_of(in), args.scale = f.const_data_ptr<float>(), args.y = y.data_ptr();
    args.tails = has_tails(in, n);
    args.n = n, args.eps = static_cast<float>(eps), args.format = KILN_BF16;
    launch_on(in, [&](kiln_stream stream, kiln_error *err) {
        return kiln_layer_norm_launch(&args, in.size(0), stream, err);
    });
    return y;
}

static kt_tensor swiglu(const at::Tensor &gate_up, kt_form form)
{
    want_rows(gate_up);
    const at::Tensor in = dense(gate_up);
    kt_tensor out = result_like(in, in.size(1) / 2, form);
    kiln_swiglu args{};
    args.gate_up = data_of(in), args.y = rows_of(out), args.n = in.size(1) / 2;
    args.pitch = out.t.stride(0);
    args.format = KILN_BF16, args.quantised = codes_of(out), args.row_scale = scales_of(out);
    args.code_max = code_max(out);
    launch_on(in, [&](kiln_stream stream, kiln_error *err) {
        return kiln_swiglu_launch(&args, in.size(0), stream, err);
    });
    return out;
}

/* Whether x is so many rows of n values, each dense, of y's type and beside it. */
static bool rows_beside(const at::Tensor &y, const at::Tensor &x, int64_t rows, int64_t n)
{
    return x.dim() == 2 && x.size(0) == rows && x.size(1) == n && n > 0 && x.stride(1) == 1 &&
           x.stride(0) >= n && x.scalar_type() == y.scalar_type() && x.device() == y.device();
}

/* Of y [rows][n] with room, and of down: where the product puts y down^T, or nothing. */
static at::Tensor lora_place(const kt_tensor &y, kt down)
{
    const int64_t n = y.t.size(1), rank = KILN_GATED_RANK;
    if (!down || down->scale.defined() || !rows_beside(y.t, down->t, rank, n) ||
        !down->t.is_contiguous() || y.room < rank || n % KILN_GATED_COLUMNS)
        return {};
    return y.t.as_strided({y.t.size(0), rank}, y.t.strides(), y.t.storage_offset() + n);
}

static kt_tensor linear_swiglu(const at::Tensor &x, const at::Tensor &weight, kt_form form)
{
    want_rows(x), want_rows(weight);
    const int64_t rows = x.size(0), k = x.size(1), n = weight.size(0) / 2;
    if (!rows_beside(x, x, rows, k) || !rows_beside(x, weight, 2 * n, k))
        return {};
    kt_tensor out = result_like(x, n, {false, form.room, nullptr});
    kiln_gated_product args{};
    args.x = data_of(x), args.x_pitch = x.stride(0);
    args.weight = data_of(weight), args.weight_pitch = weight.stride(0);
    args.y = out.t.data_ptr(), args.pitch = out.t.stride(0);
    args.n = n, args.k = k, args.format = KILN_BF16;
    at::Tensor parts;
    if (const at::Tensor lora = lora_place(out, form.down); lora.defined()) {
        parts = at::empty({KILN_GATED_PARTS(rows, n)}, x.options().dtype(at::kFloat));
        args.rank = lora.size(1), args.lora = lora.data_ptr(), args.lora_pitch = lora.stride(0);
        args.down = data_of(form.down->t), args.parts = parts.data_ptr<float>();
        out.beside = form.down->t;
    }
    const bool taken = launch_if_taken(x, [&](kiln_stream stream, kiln_error *err) {
        return kiln_gated_product_launch(&args, rows, stream, err);
    });
    return taken ? out : kt_tensor();
}

static kt_tensor quantise(const at::Tensor &rows, int64_t room)
{
    const at::Tensor in = dense(rows);
    kt_tensor out = result_like(in, in.size(1), {true, room, nullptr});
    kiln_quantise args{};
    args.x = data_of(in), args.quantised = codes_of(out), args.row_scale = scales_of(out);
    args.n = in.size(1), args.pitch = out.t.stride(0), args.format = KILN_BF16;
    args.code_max = code_max(out);
    launch_on(in, [&](kiln_stream stream, kiln_error *err) {
        return kiln_quantise_launch(&args, in.size(0), stream, err);
    });
    return out;
}

static bool low_rank_down(const kt_tensor &x, const kt_tensor &down, const at::Tensor &lora)
{
    want_rows(x.t), want_rows(down.t);
    const int64_t rows = x.t.size(0), k = x.t.size(1), rank = down.t.size(0);
    if (!rows_beside(x.t, x.t, rows, k) || !rows_beside(x.t, down.t, rank, k) ||
        !down.t.is_contiguous() || !rows_beside(x.t, lora, rows, rank))
        return false;
    kiln_low_rank_down args{};
    args.x = data_of(x.t), args.x_pitch = x.t.stride(0);
    args.down = data_of(down.t), args.factor = static_cast<const float *>(data_of(down.scale));
    args.lora = lora.data_ptr(), args.lora_pitch = lora.stride(0);
    args.k = k, args.rank = rank, args.format = KILN_BF16, args.e4m3 = x.scale.defined();
    return launch_if_taken(x.t, [&](kiln_stream stream, kiln_error *err) {
        return kiln_low_rank_down_launch(&args, rows, stream, err);
    });
}

static void low_rank_codes(const kiln_low_rank_codes &args, const at::Tensor &up)
{
    launch_on(up, [&](kiln_stream stream, kiln_error *err) {
        return kiln_low_rank_codes_launch(&args, stream, err);
    });
}

/* --- heads ------------------------------------------------------------------------------------ */

/* A table of angles for the rows of each item. */
static at::Tensor angles_of(const kt_attention_args &a, kt table, int64_t rows)
{
    if (!table)
        return {};
    TORCH_CHECK(table->t.scalar_type() == at::kFloat && table->t.dim() == 2 &&
                    table->t.size(0) == rows && table->t.size(1) * 2 == a.head_dim,
                "angles of shape ", table->t.sizes(), " for items of ", rows, " rows");
    return table->t.contiguous();
}

/* The norm of each head of q or k. */
static at::Tensor head_norm(const kt_attention_args &a, kt weight, const at::Tensor &qkv)
{
    const at::Tensor norm = dense(maybe(weight));
    TORCH_CHECK(!norm.defined() ||
                    (norm.numel() == a.head_dim && norm.scalar_type() == qkv.scalar_type()),
                "a norm of shape ", norm.sizes(), " for heads of ", a.head_dim);
    return norm;
}

static void turn_heads(const kt_attention_args &a, const at::Tensor &qkv)
{
    const int64_t rows = item_rows(a);
    const at::Tensor cos = angles_of(a, a.cos, rows), sin = angles_of(a, a.sin, rows);
    const at::Tensor q_norm = head_norm(a, a.q_norm, qkv), k_norm = head_norm(a, a.k_norm, qkv);
    char *base = static_cast<char *>(qkv.data_ptr());
    kiln_qkv_rope args{};
    args.qkv = base, args.q_norm = data_of(q_norm), args.k_norm = data_of(k_norm);
    args.cos = static_cast<const float *>(data_of(cos));
    args.sin = static_cast<const float *>(data_of(sin));
    args.q = base, args.k = base + static_cast<int64_t>(a.heads) * a.head_dim * 2;
    args.rows = qkv.size(0), args.tokens = rows, args.heads = a.heads, args.kv_heads = a.kv_heads;
    args.head_dim = a.head_dim, args.interleaved = a.interleaved;
    args.eps = static_cast<float>(a.eps), args.format = KILN_BF16, args.in_place = 1;
    launch_on(qkv, [&](kiln_stream stream, kiln_error *err) {
        return kiln_qkv_rope_launch(&args, stream, err);
    });
}

/* What cuDNN makes: with room where that is the form that is asked for. */
static kt_form attended_form(const kt_attention_args &a, bool e4m3)
{
    return {e4m3, a.form.e4m3 == e4m3 ? a.form.room : 0, nullptr};
}

static attended attended_shape(const kt_attention_args &a, int64_t items, int64_t rows,
                               kt_form form)
{
    const int64_t heads = a.heads, head_dim = a.head_dim;
    return {items, rows, heads, head_dim, heads * head_dim + form.room};
}

static kt_tensor attend(const kt_attention_args &a, const at::Tensor &qkv, int64_t rows_each,
                        bool at_once)
{
    const c10::cuda::CUDAGuard guard(qkv.device());
    const kt_form form = attended_form(a, false);
    const int64_t rows = at_once ? qkv.size(0) : rows_each; /* of a launch */
    const attended shape = attended_shape(a, rows / rows_each, rows_each, form);
    if (a.causal || a.heads != a.kv_heads || !cudnn_attends(qkv.scalar_type(), shape))
        return {};
    kt_tensor out = result_like(qkv, shape.heads * shape.head_dim, form);
    for (int64_t row = 0; row < qkv.size(0); row += rows)
        if (!cudnn_attend(shape, qkv.narrow(0, row, rows), out.t.narrow(0, row, rows)))
            return {};
    return out;
}

/* Item by item: v's factor is that of all of an item's rows, and of no neighbour's. */
static kt_tensor attend_e4m3(const kt_attention_args &a, const at::Tensor &qkv)
{
    const c10::cuda::CUDAGuard guard(qkv.device());
    const int64_t rows = item_rows(a);
    const kt_form form = attended_form(a, true);
    const attended shape = attended_shape(a, 1, rows, form);
    if (!a.q_norm || !a.k_norm || a.heads != a.kv_heads ||
        !cudnn_attends(at::kFloat8_e4m3fn, shape))
        return {};
    const at::Tensor cos = angles_of(a, a.cos, rows), sin = angles_of(a, a.sin, rows);
    const at::Tensor q_norm = head_norm(a, a.q_norm, qkv), k_norm = head_norm(a, a.k_norm, qkv);
    const at::TensorOptions wide = qkv.options().dtype(at::kFloat);
    const at::TensorOptions narrow = qkv.options().dtype(at::kFloat8_e4m3fn);
    const at::Tensor codes = at::empty({rows, qkv.size(1)}, narrow);
    const at::Tensor tops = at::empty({KILN_QKV_TOPS}, wide), to_codes = at::empty({1}, wide);
    const kt_tensor out = result_like(qkv, shape.heads * shape.head_dim, form);
    for (int64_t row = 0; row < qkv.size(0); row += rows) {
        const at::Tensor item = qkv.narrow(0, row, rows);
        const e4m3_heads heads{codes, out.scale.narrow(0, row, rows), to_codes};
        kiln_qkv_e4m3 args{};
        args.qkv = data_of(item), args.q_norm = data_of(q_norm), args.k_norm = data_of(k_norm);
        args.cos = static_cast<const float *>(data_of(cos));
        args.sin = static_cast<const float *>(data_of(sin));
        args.codes = static_cast<uint8_t *>(heads.codes.data_ptr());
        args.scale = heads.scale.data_ptr<float>();
        args.to_codes = heads.to_codes.data_ptr<float>(), args.tops = tops.data_ptr<float>();
        args.rows = rows, args.heads = a.heads, args.kv_heads = a.kv_heads;
        args.head_dim = a.head_dim, args.interleaved = a.interleaved;
        args.eps = static_cast<float>(a.eps), args.code_max = code_max(out);
        if (!launch_if_taken(qkv,
                             [&](kiln_stream stream, kiln_error *err) {
                                 return kiln_qkv_e4m3_launch(&args, stream, err);
                             }) ||
            !cudnn_attend_e4m3(shape, heads, out.t.narrow(0, row, rows)))
            return {};
    }
    return out;
}

/* --- latents ---------------------------------------------------------------------------------- */

/* Of [C,H,W], one item, or [items,C,H,W]. */
static kiln_patches shape_of(const at::Tensor &latent, int patch)
{
    kiln_patches shape{};
    shape.items = latent.dim() == 4 ? latent.size(0) : 1;
    shape.patch = patch, shape.format = KILN_BF16;
    shape.channels = static_cast<int>(latent.size(-3));
    shape.height = static_cast<int>(latent.size(-2));
    shape.width = static_cast<int>(latent.size(-1));
    return shape;
}

static at::Tensor patchify(const at::Tensor &latent, int patch)
{
    const kiln_patches shape = shape_of(latent, patch);
    const int64_t rows = shape.items * (shape.height / patch) * (shape.width / patch);
    at::Tensor tokens =
        at::empty({rows, latent.size(-3) * patch * patch}, latent.options().dtype(at::kBFloat16));
    const kiln_patchify args{shape, latent.const_data_ptr<float>(), tokens.data_ptr()};
    launch_on(latent, [&](kiln_stream stream, kiln_error *err) {
        return kiln_patchify_launch(&args, stream, err);
    });
    return tokens;
}

static void euler_step(const struct kt_euler_step &a)
{
    const at::Tensor with = dense(a.with->t), without = dense(maybe(a.without));
    TORCH_CHECK(a.stride->t.scalar_type() == at::kFloat && a.stride->t.is_cuda() &&
                    (!a.bad || (a.bad->t.scalar_type() == at::kInt && a.bad->t.is_cuda())),
                "an item's stride is fp32 on the device, its mark int32");
    kiln_euler_step args{};
    args.shape = shape_of(a.latent->t, a.patch);
    args.with = data_of(with), args.without = data_of(without);
    args.guidance = static_cast<float>(a.guidance);
    args.stride = a.stride->t.const_data_ptr<float>();
    args.latent = a.latent->t.data_ptr<float>();
    args.bad = a.bad ? static_cast<uint32_t *>(a.bad->t.data_ptr()) : nullptr;
    launch_on(a.latent->t, [&](kiln_stream stream, kiln_error *err) {
        return kiln_euler_step_launch(&args, stream, err);
    });
}

static void latent_enlarge(const kiln_latent_enlarge &args, const at::Tensor &noise)
{
    launch_on(noise, [&](kiln_stream stream, kiln_error *err) {
        return kiln_latent_enlarge_launch(&args, stream, err);
    });
}

static void latent_mix(const kiln_latent_mix &args, const at::Tensor &x)
{
    launch_on(x, [&](kiln_stream stream, kiln_error *err) {
        return kiln_latent_mix_launch(&args, stream, err);
    });
}

static void slerp(const kiln_slerp &args, const at::Tensor &x)
{
    launch_on(x, [&](kiln_stream stream, kiln_error *err) {
        return kiln_slerp_launch(&args, stream, err);
    });
}

const model_kernels cuda_model_kernels = {
    rms_norm,      add_rms_norm,   layer_norm, swiglu, linear_swiglu, quantise,
    low_rank_down, low_rank_codes, turn_heads, attend, attend_e4m3,   patchify,
    euler_step,    latent_enlarge, latent_mix, slerp};

} // namespace kiln
