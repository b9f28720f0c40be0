/* basic.cpp - tensors in and out of host memory, layout, plain arithmetic. */
#include "pipeline/torch/internal.hpp"
#include "pipeline/torch/pinned.hpp"

#include <cstring>

#include <ATen/CPUGeneratorImpl.h>

using kiln::run;
using kiln::run_void;

/* Bytes up to which contents are copied to pinned memory, whence a GPU fetches them while the host
 * goes on.  That memory is kept for the next ones, so larger contents make the host wait. */
static constexpr size_t travels_pinned = 4 << 20;

kt kt_from_host(kt_scope *s, const void *data, kt_dtype from, kt_dtype dtype, int ndim,
                const int64_t *shape)
{
    return run(s, "from_host", {}, [&] {
        /* The blob is only read: the copy below is the tensor. */
        at::Tensor view = at::from_blob(const_cast<void *>(data), at::IntArrayRef(shape, ndim),
                                        at::TensorOptions(kiln::scalar_of(from)));
        if (s->device == KT_CPU || view.nbytes() > travels_pinned)
            return view.to(s->place(), kiln::scalar_of(dtype), /*non_blocking=*/false,
                           /*copy=*/true);
        kiln::pinned host(view.sizes(), kiln::scalar_of(dtype));
        host.host().copy_(view);
        return host.sent(s->place());
    });
}

void kt_to_host_f32(kt_scope *s, kt x, float *out, size_t count)
{
    run_void(s, "to_host", {x}, [&] {
        TORCH_CHECK(static_cast<size_t>(x->t.numel()) == count, "expected ", count, " values, got ",
                    x->t.numel());
        at::Tensor host = kiln::plain(*x, at::kFloat).to(at::kCPU).contiguous();
        memcpy(out, host.const_data_ptr<float>(), count * sizeof *out);
    });
}

kt kt_randn(kt_scope *s, uint64_t seed, int ndim, const int64_t *shape)
{
    return run(s, "randn", {}, [&] {
        at::Generator generator = at::detail::createCPUGenerator(seed);
        /* Pinned, a GPU fetches it when its turn comes, and the host need not wait for that. */
        kiln::pinned noise(at::IntArrayRef(shape, ndim), at::kFloat, s->device != KT_CPU);
        noise.host().normal_(0, 1, generator);
        return noise.sent(s->place());
    });
}

bool kt_all_finite(kt_scope *s, kt x)
{
    bool finite = true;
    run_void(s, "all_finite", {x}, [&] {
        /* Infinities and NaN survive a sum, and a sum reads each value once. */
        finite = at::isfinite(x->t.sum(at::kDouble)).item<bool>();
    });
    return finite;
}

kt kt_to(kt_scope *s, kt x, kt_dtype dtype)
{
    return run(s, "to", {x},
               [&] { return kiln::plain(*x, kiln::scalar_of(dtype)).to(s->place()); });
}

kt kt_copy(kt_scope *s, kt x)
{
    return run(s, "copy", {x}, [&] {
        auto own = [](const at::Tensor &t) { return t.defined() ? t.clone() : t; };
        if (x->room == 0)
            return kt_tensor{own(x->t), own(x->scale)};
        const at::Tensor dense = at::empty(x->t.sizes(), x->t.options());
        kiln::copy_rows(dense, x->t);
        return kt_tensor{dense, own(x->scale)};
    });
}

kt kt_unshare(kt_scope *s, kt x)
{
    if (!x)
        return nullptr;
    if (x->t.use_count() == 1 && x->t.storage().use_count() == 1)
        return x;
    kt copy = kt_copy(s, x);
    kt_drop(s, x);
    return copy;
}

kt kt_zeros(kt_scope *s, kt_dtype dtype, int ndim, const int64_t *shape)
{
    return run(s, "zeros", {}, [&] {
        at::TensorOptions options(s->place());
        return at::zeros(at::IntArrayRef(shape, ndim), options.dtype(kiln::scalar_of(dtype)));
    });
}

void kt_copy_into(kt_scope *s, kt target, kt x)
{
    run_void(s, "copy_into", {target, x}, [&] {
        TORCH_CHECK(target->t.sizes() == x->t.sizes(), "from ", x->t.sizes(), " into ",
                    target->t.sizes());
        kiln::assign(*target, kiln::plain(*x));
    });
}

/* What only plain numbers can be asked for: codes without their factors would be others. */
static const at::Tensor &numbers(kt x)
{
    TORCH_CHECK(!x->scale.defined(), "quantised rows are codes, and no plain numbers");
    return x->t;
}

kt kt_reshape(kt_scope *s, kt x, int ndim, const int64_t *shape)
{
    return run(s, "reshape", {x}, [&] { return numbers(x).reshape(at::IntArrayRef(shape, ndim)); });
}

kt kt_permute(kt_scope *s, kt x, int ndim, const int *order)
{
    return run(s, "permute", {x}, [&] {
        std::vector<int64_t> dims(order, order + ndim);
        return numbers(x).permute(dims).contiguous();
    });
}

kt kt_narrow(kt_scope *s, kt x, int dim, int64_t start, int64_t length)
{
    return run(s, "narrow", {x}, [&] {
        TORCH_CHECK(dim == 0 || !x->scale.defined(), "quantised rows can only be cut between rows");
        auto part = [&](const at::Tensor &t) {
            return t.defined() ? t.narrow(dim, start, length) : t;
        };
        return kt_tensor{part(x->t), part(x->scale)};
    });
}

kt kt_cat(kt_scope *s, const kt *xs, size_t count, int dim)
{
    for (size_t i = 0; i < count; i++)
        if (!xs[i])
            return run(s, "cat", {nullptr}, [] { return at::Tensor(); });
    return run(s, "cat", {}, [&] {
        std::vector<at::Tensor> parts;
        for (size_t i = 0; i < count; i++)
            parts.push_back(numbers(xs[i]));
        return at::cat(parts, dim);
    });
}

kt kt_repeat_rows(kt_scope *s, kt row, int64_t rows)
{
    return run(s, "repeat_rows", {row}, [&] {
        return numbers(row).expand({rows, row->t.size(-1)});
    });
}

kt kt_add(kt_scope *s, kt x, kt y)
{
    return run(s, "add", {x, y}, [&] { return numbers(x) + numbers(y); });
}

kt kt_multiply(kt_scope *s, kt x, kt y)
{
    return run(s, "multiply", {x, y}, [&] { return numbers(x) * numbers(y); });
}

kt kt_affine(kt_scope *s, kt x, double scale, double shift)
{
    return run(s, "affine", {x}, [&] { return numbers(x) * scale + shift; });
}

kt kt_column_deviation(kt_scope *s, kt x)
{
    return run(s, "column_deviation", {x}, [&] {
        return at::std(numbers(x).to(at::kFloat), at::IntArrayRef{0}, /*correction=*/0,
                       /*keepdim=*/true);
    });
}

kt kt_silu(kt_scope *s, kt x)
{
    return run(s, "silu", {x}, [&] { return at::silu(numbers(x)); });
}

kt kt_relu(kt_scope *s, kt x)
{
    return run(s, "relu", {x}, [&] { return at::relu(numbers(x)); });
}

kt kt_tanh(kt_scope *s, kt x)
{
    return run(s, "tanh", {x}, [&] { return at::tanh(numbers(x)); });
}

kt kt_gelu(kt_scope *s, kt x)
{
    return run(s, "gelu", {x}, [&] { return at::gelu(numbers(x)); });
}

kt kt_linear(kt_scope *s, kt x, kt weight, kt bias)
{
    return run(s, "linear", {x, weight}, [&] {
        if (weight->scale.defined())
            return kiln::linear_e4m3(*x, *weight, kiln::maybe(bias));
        return kiln::linear(kiln::plain(*x), weight->t, kiln::maybe(bias));
    });
}

kt kt_embedding(kt_scope *s, kt table, const int32_t *ids, size_t count)
{
    return run(s, "embedding", {table}, [&] {
        at::Tensor index = at::empty({static_cast<int64_t>(count)}, at::kLong);
        for (size_t i = 0; i < count; i++) {
            TORCH_CHECK(ids[i] >= 0 && ids[i] < table->t.size(0), "token id ", ids[i],
                        " is outside of the vocabulary of ", table->t.size(0));
            index.data_ptr<int64_t>()[i] = ids[i];
        }
        if (!table->t.is_cpu() || s->device == KT_CPU)
            return table->t.index_select(0, index.to(s->place()));
        kiln::pinned rows({index.size(0), table->t.size(1)}, table->t.scalar_type());
        at::Tensor chosen = rows.host();
        at::index_select_out(chosen, table->t, 0, index);
        return rows.sent(s->place());
    });
}
