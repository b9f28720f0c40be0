/* cudnn_attention.cpp - see cudnn_attention.hpp.
 *
 * cuDNN knows an attention by its operations one by one, in this order; the logarithm of the sums
 * and the largest result are read by nobody here, and belong to it (what may go: kernels/LAB.md).
 */
#include "pipeline/torch/cuda/cudnn_attention.hpp"

#include "pipeline/torch/cuda/cudnn_graph.hpp"

#if KILN_CUDNN

#include <cmath>
#include <map>
#include <mutex>

#include <c10/core/ScalarType.h>
#include <c10/cuda/CUDAFunctions.h>

namespace kiln
{

using cudnn::descriptor;
using cudnn::layout;

/* What the tensors with data are called; those between operations are counted from LAST on. */
enum slot : int64_t {
    SLOT_Q = 1,
    SLOT_K,
    SLOT_V,
    SLOT_OUT,
    SLOT_ROOT,    /* 1 / sqrt(head_dim), by value */
    SLOT_Q_SCALE, /* from here on of e4m3 alone */
    SLOT_K_SCALE,
    SLOT_P_SCALE, /* what probabilities P are multiplied with */
    SLOT_P_INVERSE,
    SLOT_V_SCALE,
    SLOT_TO_CODES,
    SLOT_OUT_TOP, /* the largest result, which cuDNN insists on */
    SLOT_LAST
};

constexpr float probability_scale = 256.0f;

/* The operations on one shape, as they are chained. */
class chain
{
    const cudnnDataType_t type_;
    const int64_t b_, s_, h_, d_, pitch_;
    int64_t next_ = SLOT_LAST;
    std::vector<descriptor> ops_;

    layout scores() const { return {{b_, h_, s_, s_}, {h_ * s_ * s_, s_ * s_, s_, 1}}; }
    layout by_row() const { return {{b_, h_, s_, 1}, {h_ * s_, s_, 1, 1}}; }
    layout sums() const { return {{b_, h_, s_, d_}, {h_ * s_ * d_, s_ * d_, d_, 1}}; }
    descriptor between(const layout &at, cudnnDataType_t type = CUDNN_DATA_FLOAT)
    {
        return cudnn::tensor(next_++, at, type, cudnn::BETWEEN);
    }
    static descriptor one(slot id)
    {
        return cudnn::tensor(id, {{1, 1, 1, 1}, {1, 1, 1, 1}}, CUDNN_DATA_FLOAT,
                             id == SLOT_ROOT ? cudnn::ON_HOST : cudnn::ON_DEVICE);
    }
    descriptor then(descriptor y, cudnnPointwiseMode_t mode, const descriptor &x,
                    const descriptor *b = nullptr)
    {
        ops_.push_back(cudnn::pointwise(mode, x, b, y));
        return y;
    }
    descriptor reduced(descriptor y, cudnnReduceTensorOp_t mode, const descriptor &x)
    {
        ops_.push_back(cudnn::reduction(mode, x, y));
        return y;
    }
    descriptor times(const layout &at, const descriptor &x, slot factor)
    {
        const descriptor b = one(factor);
        return then(between(at), CUDNN_POINTWISE_MUL, x, &b);
    }
    /* q, k or v of the packed rows. */
    descriptor packed(slot id, bool transposed) const
    {
        const int64_t width = 3 * h_ * d_;
        const layout at = transposed ? layout{{b_, h_, d_, s_}, {s_ * width, d_, 1, width}}
                                     : layout{{b_, h_, s_, d_}, {s_ * width, d_, width, 1}};
        return cudnn::tensor(id, at, type_, cudnn::ON_DEVICE);
    }
    descriptor result() const
    {
        return cudnn::tensor(SLOT_OUT, {{b_, h_, s_, d_}, {s_ * pitch_, d_, pitch_, 1}}, type_,
                             cudnn::ON_DEVICE);
    }
    /* q k^T / sqrt(head_dim) */
    descriptor scored()
    {
        descriptor s = between(scores());
        ops_.push_back(cudnn::product(packed(SLOT_Q, false), packed(SLOT_K, true), s));
        return times(scores(), s, SLOT_ROOT);
    }
    descriptor summed(const descriptor &p, descriptor o)
    {
        ops_.push_back(cudnn::product(p, packed(SLOT_V, false), o));
        return o;
    }
    descriptor softmax(const descriptor &x, cudnnDataType_t type)
    {
        const descriptor top = reduced(between(by_row()), CUDNN_REDUCE_TENSOR_MAX, x);
        const descriptor below = then(between(scores()), CUDNN_POINTWISE_SUB, x, &top);
        const descriptor power = then(between(scores()), CUDNN_POINTWISE_EXP, below);
        const descriptor sum = reduced(between(by_row()), CUDNN_REDUCE_TENSOR_ADD, power);
        const descriptor log = then(between(by_row()), CUDNN_POINTWISE_LOG, sum);
        (void)then(between(by_row()), CUDNN_POINTWISE_ADD, top, &log);
        return then(between(scores(), type), CUDNN_POINTWISE_DIV, power, &sum);
    }
    void plain() { (void)summed(softmax(scored(), type_), result()); }
    /* What codes stand for is multiplied in around both products. */
    void scaled()
    {
        descriptor s = times(scores(), scored(), SLOT_Q_SCALE);
        s = times(scores(), s, SLOT_K_SCALE);
        const descriptor p = softmax(s, CUDNN_DATA_FLOAT);
        const descriptor scale = one(SLOT_P_SCALE), to_codes = one(SLOT_TO_CODES);
        const descriptor codes = then(between(scores(), type_), CUDNN_POINTWISE_MUL, p, &scale);
        descriptor o = times(sums(), summed(codes, between(sums())), SLOT_P_INVERSE);
        o = times(sums(), o, SLOT_V_SCALE);
        (void)then(result(), CUDNN_POINTWISE_MUL, o, &to_codes);
        (void)reduced(one(SLOT_OUT_TOP), CUDNN_REDUCE_TENSOR_AMAX, o);
    }

  public:
    chain(cudnnDataType_t type, const attended &of)
        : type_(type), b_(of.items), s_(of.rows), h_(of.heads), d_(of.head_dim), pitch_(of.pitch)
    {
    }

    std::vector<descriptor> operations()
    {
        type_ == CUDNN_DATA_FP8_E4M3 ? scaled() : plain();
        return std::move(ops_);
    }
};

/* The factors that are the same in every call, on the device for the life of the process: recorded
 * graphs read them.  Rows of 16 bytes, as cuDNN is told: 1 for q and k, then those of P. */
static const at::Tensor &factors(at::Device device)
{
    static std::mutex lock;
    static auto &kept = *new std::map<int64_t, at::Tensor>;
    const std::lock_guard<std::mutex> guard(lock);
    at::Tensor &rows = kept[device.index()];
    if (!rows.defined()) {
        const std::vector<float> first{1, probability_scale, 1 / probability_scale};
        rows = at::tensor(first, at::kFloat).unsqueeze(1).repeat({1, 4}).to(device);
    }
    return rows;
}

static cudnn::request request_for(at::ScalarType type, const attended &of)
{
    const auto describe = [=] {
        return chain(type == at::kBFloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FP8_E4M3, of)
            .operations();
    };
    const int64_t device = c10::cuda::current_device(), as = static_cast<int64_t>(type);
    return {{device, cudnn::ATTENTION, as, of.items, of.rows, of.heads, of.head_dim, of.pitch},
            describe,
            {},
            /*frugal=*/true, /* LibTorch has others */
            {},
            {}};
}

/* The same with the rows; the root is to live until it has run. */
static cudnn::request request_of(const attended &of, const at::Tensor &packed,
                                 const at::Tensor &out, float *root)
{
    const int64_t width = of.heads * of.head_dim;
    cudnn::request what = request_for(packed.scalar_type(), of);
    *root = 1 / std::sqrt(static_cast<float>(of.head_dim));
    what.bind(SLOT_Q, packed);
    what.bind(SLOT_K, packed.narrow(1, width, width));
    what.bind(SLOT_V, packed.narrow(1, 2 * width, width));
    what.bind(SLOT_OUT, out);
    what.bind(SLOT_ROOT, root);
    return what;
}

bool cudnn_attends(at::ScalarType type, const attended &of)
{
    constexpr int64_t widest = 128; /* head, that there are kernels for on every card */
    const int64_t word = 16 / static_cast<int64_t>(c10::elementSize(type));
    /* k, v and every row of the result begin where 16 bytes do */
    return of.head_dim <= widest && of.head_dim % word == 0 && of.pitch % word == 0 &&
           cudnn::takes(request_for(type, of));
}

bool cudnn_attend(const attended &shape, const at::Tensor &qkv, const at::Tensor &out)
{
    float root;
    return cudnn::run(request_of(shape, qkv, out, &root), qkv.device());
}

bool cudnn_attend_e4m3(const attended &shape, const e4m3_heads &in, const at::Tensor &out)
{
    const at::Device device = in.codes.device();
    const at::Tensor top = at::empty({1}, in.to_codes.options());
    const at::Tensor &fixed = factors(device);
    float root;
    cudnn::request what = request_of(shape, in.codes, out, &root);
    what.bind(SLOT_Q_SCALE, fixed[0]);
    what.bind(SLOT_K_SCALE, fixed[0]);
    what.bind(SLOT_P_SCALE, fixed[1]);
    what.bind(SLOT_P_INVERSE, fixed[2]);
    what.bind(SLOT_V_SCALE, in.scale);
    what.bind(SLOT_TO_CODES, in.to_codes);
    what.bind(SLOT_OUT_TOP, top);
    return cudnn::run(what, device);
}

} // namespace kiln

#else

namespace kiln
{

bool cudnn_attends(at::ScalarType, const attended &)
{
    return false;
}

bool cudnn_attend(const attended &, const at::Tensor &, const at::Tensor &)
{
    return false;
}

bool cudnn_attend_e4m3(const attended &, const e4m3_heads &, const at::Tensor &)
{
    return false;
}

} // namespace kiln

#endif
