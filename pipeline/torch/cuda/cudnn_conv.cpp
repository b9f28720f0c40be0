/* cudnn_conv.cpp - see cudnn_conv.hpp.
 *
 * cuDNN's graph interface: tensors are described, operations on them are chained (convolution, add,
 * add), heuristics propose engines for the chain, the first one that builds becomes the plan of
 * that shape and is kept for the life of the process.  Engines that may sum in another order from
 * run to run are passed over: a picture must not depend on when it was drawn.
 */
#include "pipeline/torch/cuda/cudnn_conv.hpp"

#if __has_include(<cudnn.h>)

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/cudnn/Handle.h>
#include <c10/cuda/CUDAStream.h>
#include <cudnn.h>

namespace kiln
{

/* What cuDNN does not take, LibTorch's own convolution does: no failure of the picture's. */
struct refused {
};

static void check(cudnnStatus_t status)
{
    if (status != CUDNN_STATUS_SUCCESS)
        throw refused();
}

/* --- descriptors ------------------------------------------------------------------------------ */

class descriptor
{
  public:
    explicit descriptor(cudnnBackendDescriptorType_t type)
    {
        check(cudnnBackendCreateDescriptor(type, &raw_));
    }
    descriptor(descriptor &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    descriptor &operator=(descriptor &&other) noexcept
    {
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~descriptor()
    {
        if (raw_)
            cudnnBackendDestroyDescriptor(raw_);
    }
    cudnnBackendDescriptor_t raw() const { return raw_; }
    void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
             const void *values)
    {
        check(cudnnBackendSetAttribute(raw_, name, type, count, values));
    }
    void set(cudnnBackendAttributeName_t name, const std::vector<int64_t> &values)
    {
        set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
    }
    void set(cudnnBackendAttributeName_t name, const descriptor &other)
    {
        set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw_);
    }
    void set(cudnnBackendAttributeName_t name, cudnnDataType_t type)
    {
        set(name, CUDNN_TYPE_DATA_TYPE, 1, &type);
    }
    bool try_finalize() { return cudnnBackendFinalize(raw_) == CUDNN_STATUS_SUCCESS; }
    void finalize() { check(cudnnBackendFinalize(raw_)); }

  private:
    cudnnBackendDescriptor_t raw_ = nullptr;
};

/* --- the graph of a shape --------------------------------------------------------------------- */

/* What the data pointers of an execution are called. */
enum slot : int64_t { SLOT_X = 1, SLOT_W, SLOT_BIAS, SLOT_ADD, SLOT_Y, SLOT_SUM, SLOT_BIASED };

struct shape {
    int64_t device, n, c, h, w, k, kernel_h, kernel_w, stride, before, after, dilation = 1;
    bool bias = false, add = false, transposed = false;

    using key_type = std::array<int64_t, 15>;
    key_type key() const
    {
        return {device, n,      c,     h,        w,    k,   kernel_h,  kernel_w,
                stride, before, after, dilation, bias, add, transposed};
    }
    int64_t out(int64_t side, int64_t kernel) const
    {
        const int64_t reach = dilation * (kernel - 1) + 1, zeros = before + after;
        return transposed ? (side - 1) * stride + reach - zeros
                          : (side + zeros - reach) / stride + 1;
    }
};

/* [n][c][h][w], channels last; a virtual tensor exists between two operations alone, in fp32. */
static descriptor picture(slot id, int64_t n, int64_t c, int64_t h, int64_t w, bool is_virtual)
{
    descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_virtual ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{n, c, h, w});
    d.set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{h * w * c, 1, w * c, c});
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::vector<int64_t>{id});
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::vector<int64_t>{16});
    if (is_virtual)
        d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    d.finalize();
    return d;
}

static descriptor convolution(const shape &s)
{
    descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{s.dilation, s.dilation});
    d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{s.stride, s.stride});
    d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::vector<int64_t>{s.before, s.before});
    d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::vector<int64_t>{s.after, s.after});
    d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::vector<int64_t>{2});
    d.finalize();
    return d;
}

static descriptor convolving(const descriptor &conv, const descriptor &x, const descriptor &w,
                             const descriptor &y)
{
    descriptor d(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    const float one = 1, zero = 0;
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    d.finalize();
    return d;
}

/* A transposed convolution is the gradient of a convolution by its operand. */
static descriptor spreading(const descriptor &conv, const descriptor &x, const descriptor &w,
                            const descriptor &y)
{
    descriptor d(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    const float one = 1, zero = 0;
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, conv);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, x);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, y);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    d.finalize();
    return d;
}

static descriptor adding(const descriptor &x, const descriptor &b, const descriptor &y)
{
    descriptor mode(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const cudnnPointwiseMode_t add = CUDNN_POINTWISE_ADD;
    mode.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &add);
    mode.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    mode.finalize();
    descriptor d(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    d.finalize();
    return d;
}

/* The descriptors are copied into the graph when it is finalized. */
static descriptor graph_of(const std::vector<descriptor> &ops)
{
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const descriptor &op : ops)
        raw.push_back(op.raw());
    descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    const cudnnHandle_t handle = at::native::getCudnnHandle();
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<int64_t>(raw.size()), raw.data());
    graph.finalize();
    return graph;
}

/* y = x * w [+ bias] [+ add]; transposed it stands alone. */
static descriptor graph_of(const shape &s)
{
    const int64_t oh = s.out(s.h, s.kernel_h), ow = s.out(s.w, s.kernel_w);
    const bool last_is_bias = s.bias && !s.add;
    const descriptor x = picture(SLOT_X, s.n, s.c, s.h, s.w, false);
    const descriptor w = picture(SLOT_W, s.transposed ? s.c : s.k, s.transposed ? s.k : s.c,
                                 s.kernel_h, s.kernel_w, false);
    const descriptor y = picture(SLOT_Y, s.n, s.k, oh, ow, false);
    const descriptor sum = picture(SLOT_SUM, s.n, s.k, oh, ow, true);
    const descriptor biased = picture(SLOT_BIASED, s.n, s.k, oh, ow, true);
    std::vector<descriptor> ops;
    if (s.transposed) {
        ops.push_back(spreading(convolution(s), x, w, y));
        return graph_of(ops);
    }
    ops.push_back(convolving(convolution(s), x, w, s.bias || s.add ? sum : y));
    if (s.bias)
        ops.push_back(
            adding(sum, picture(SLOT_BIAS, 1, s.k, 1, 1, false), last_is_bias ? y : biased));
    if (s.add)
        ops.push_back(adding(s.bias ? biased : sum, picture(SLOT_ADD, s.n, s.k, oh, ow, false), y));
    return graph_of(ops);
}

/* --- engines ---------------------------------------------------------------------------------- */

/* Always the same sum, at full precision. */
static bool engine_is_steady(const descriptor &config)
{
    descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = engine.raw();
    int64_t count = 0;
    if (cudnnBackendGetAttribute(config.raw(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw))
        return false;
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
    count = 0;
    if (cudnnBackendGetAttribute(engine.raw(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &count, notes.data()))
        return false;
    return std::none_of(notes.begin(), notes.begin() + count, [](cudnnBackendNumericalNote_t n) {
        return n == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
               n == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
               n == CUDNN_NUMERICAL_NOTE_WINOGRAD || n == CUDNN_NUMERICAL_NOTE_FFT;
    });
}

/* Adds what one kind of heuristics proposes, best first. */
static void propose(const descriptor &graph, cudnnBackendHeurMode_t mode,
                    std::vector<descriptor> &configs)
{
    constexpr int64_t most = 24;
    descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!heuristics.try_finalize())
        return;
    std::vector<descriptor> found;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < most; i++) {
        found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        raw.push_back(found.back().raw());
    }
    int64_t count = 0;
    if (cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, raw.data()))
        return;
    for (int64_t i = 0; i < std::min(count, most); i++)
        if (engine_is_steady(found[static_cast<size_t>(i)]))
            configs.push_back(std::move(found[static_cast<size_t>(i)]));
}

struct plan {
    descriptor built{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
    int64_t workspace = 0;
};

static bool build(const descriptor &config, plan &p)
{
    const cudnnHandle_t handle = at::native::getCudnnHandle();
    int64_t count = 0;
    p.built.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    p.built.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return p.built.try_finalize() &&
           !cudnnBackendGetAttribute(p.built.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &count, &p.workspace);
}

/* --- running ---------------------------------------------------------------------------------- */

struct operands {
    const at::Tensor &x, &weight, &bias, &add, &y;
};

static bool execute(const plan &p, const operands &o)
{
    std::vector<int64_t> ids{SLOT_X, SLOT_W, SLOT_Y};
    std::vector<void *> data{o.x.data_ptr(), o.weight.data_ptr(), o.y.data_ptr()};
    if (o.bias.defined()) {
        ids.push_back(SLOT_BIAS);
        data.push_back(o.bias.data_ptr());
    }
    if (o.add.defined()) {
        ids.push_back(SLOT_ADD);
        data.push_back(o.add.data_ptr());
    }
    const at::Tensor workspace = at::empty({p.workspace}, o.x.options().dtype(at::kByte));
    void *space = workspace.data_ptr();
    descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             static_cast<int64_t>(data.size()), data.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &space);
    pack.finalize();
    return cudnnBackendExecute(at::native::getCudnnHandle(), p.built.raw(), pack.raw()) ==
           CUDNN_STATUS_SUCCESS;
}

/* Memory beside the pictures that a plan may want: where it is short, pictures go before speed. */
static constexpr int64_t workspace_most = int64_t{256} << 20;

/* The plan of a shape, or NULL if there is none: the first proposal that builds and can do with
 * that memory, or the one that wants least; the same in every process.  Timing eight of them found
 * nothing faster (kernels/LAB.md). */
static std::unique_ptr<plan> choose(const shape &s)
{
    const descriptor graph = graph_of(s);
    std::vector<descriptor> configs;
    propose(graph, CUDNN_HEUR_MODE_A, configs);
    propose(graph, CUDNN_HEUR_MODE_FALLBACK, configs);
    std::unique_ptr<plan> least;
    for (const descriptor &config : configs) {
        auto p = std::make_unique<plan>();
        if (!build(config, *p))
            continue;
        if (p->workspace <= workspace_most)
            return p;
        if (!least || p->workspace < least->workspace)
            least = std::move(p);
    }
    return least;
}

static std::unique_ptr<plan> try_choose(const shape &s)
{
    try {
        return choose(s);
    } catch (const refused &) {
        return nullptr;
    }
}

/* Memory that is short is thrown on: whoever asked makes room and asks again. */
static bool try_execute(const plan &p, const operands &o)
{
    try {
        return execute(p, o);
    } catch (const refused &) {
        return false;
    }
}

/* Without the number of results, of which a plain weight has its first dimension. */
static shape shape_of(const at::Tensor &x, const at::Tensor &weight, int64_t stride,
                      conv_padding pad)
{
    shape s;
    s.device = x.device().index();
    s.n = x.size(0), s.c = x.size(1), s.h = x.size(2), s.w = x.size(3);
    s.kernel_h = weight.size(2), s.kernel_w = weight.size(3);
    s.stride = stride, s.before = pad.before, s.after = pad.after;
    return s;
}

/* Into y's memory if there is some that is dense and fits, or new. */
static bool run(const shape &s, const at::Tensor &x, const at::Tensor &weight,
                const at::Tensor &bias, const at::Tensor &add, at::Tensor &y)
{
    static std::mutex lock;
    /* Never freed: at exit cuDNN may be gone before a static variable is. */
    static auto &plans = *new std::map<shape::key_type, std::unique_ptr<plan>>;
    if (s.c % 8 || s.k % 8)
        return false;
    const std::vector<int64_t> sizes{s.n, s.k, s.out(s.h, s.kernel_h), s.out(s.w, s.kernel_w)};
    const bool fits =
        y.defined() && y.sizes() == sizes && y.is_contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor out =
        fits ? y : at::empty(sizes, x.options().memory_format(at::MemoryFormat::ChannelsLast));
    const operands o{x, weight, bias, add, out};
    const std::lock_guard<std::mutex> guard(lock);
    auto found = plans.find(s.key());
    if (found == plans.end())
        found = plans.emplace(s.key(), try_choose(s)).first;
    if (!found->second)
        return false;
    if (!try_execute(*found->second, o)) {
        found->second.reset(); /* for good: a shape's pictures shall not depend on when */
        return false;
    }
    y = out;
    return true;
}

bool cudnn_convolve(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias,
                    const at::Tensor &add, int64_t stride, conv_padding pad, int64_t dilation,
                    at::Tensor &y)
{
    shape s = shape_of(x, weight, stride, pad);
    s.k = weight.size(0), s.dilation = dilation;
    s.bias = bias.defined(), s.add = add.defined();
    return run(s, x, weight, bias, add, y);
}

bool cudnn_convolve_transposed(const at::Tensor &x, const at::Tensor &weight, int64_t stride,
                               conv_padding pad, at::Tensor &y)
{
    shape s = shape_of(x, weight, stride, pad);
    s.k = weight.size(1), s.transposed = true;
    return run(s, x, weight, {}, {}, y);
}

} // namespace kiln

#else

#pragma message(                                                                                   \
    "cudnn.h was not found: convolutions go through LibTorch, with passes of their own for what is added")

namespace kiln
{

bool cudnn_convolve(const at::Tensor &, const at::Tensor &, const at::Tensor &, const at::Tensor &,
                    int64_t, conv_padding, int64_t, at::Tensor &)
{
    return false;
}

bool cudnn_convolve_transposed(const at::Tensor &, const at::Tensor &, int64_t, conv_padding,
                               at::Tensor &)
{
    return false;
}

} // namespace kiln

#endif
