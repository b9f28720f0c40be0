/* cudnn_graph.cpp - see cudnn_graph.hpp. */
#include "pipeline/torch/cuda/cudnn_graph.hpp"

#if KILN_CUDNN

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include <ATen/cudnn/Handle.h>

namespace kiln::cudnn
{

/* Memory that is short is no answer to whether something is taken. */
static bool accepted(cudnnStatus_t status)
{
    TORCH_CHECK_WITH(OutOfMemoryError,
                     status != CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED &&
                         status != CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                     "cuDNN is out of memory: ", cudnnGetErrorString(status));
    return status == CUDNN_STATUS_SUCCESS;
}

static void check(cudnnStatus_t status)
{
    if (!accepted(status))
        throw refused();
}

/* --- descriptors ------------------------------------------------------------------------------ */

descriptor::descriptor(cudnnBackendDescriptorType_t type)
{
    check(cudnnBackendCreateDescriptor(type, &raw_));
}

descriptor::~descriptor()
{
    if (raw_)
        cudnnBackendDestroyDescriptor(raw_);
}

void descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int64_t count, const void *values)
{
    check(cudnnBackendSetAttribute(raw_, name, type, count, values));
}

void descriptor::set(cudnnBackendAttributeName_t name, const std::vector<int64_t> &values)
{
    set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

void descriptor::set(cudnnBackendAttributeName_t name, const descriptor &other)
{
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw_);
}

void descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
    set(name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

bool descriptor::try_finalize()
{
    return accepted(cudnnBackendFinalize(raw_));
}

void descriptor::finalize()
{
    check(cudnnBackendFinalize(raw_));
}

descriptor tensor(int64_t id, const layout &at, cudnnDataType_t type, place where)
{
    descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, at.sizes);
    d.set(CUDNN_ATTR_TENSOR_STRIDES, at.strides);
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::vector<int64_t>{id});
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::vector<int64_t>{16});
    const bool yes = true;
    if (where != ON_DEVICE)
        d.set(where == BETWEEN ? CUDNN_ATTR_TENSOR_IS_VIRTUAL : CUDNN_ATTR_TENSOR_IS_BY_VALUE,
              CUDNN_TYPE_BOOLEAN, 1, &yes);
    d.finalize();
    return d;
}

descriptor pointwise(cudnnPointwiseMode_t mode, const descriptor &x, const descriptor *b,
                     const descriptor &y)
{
    descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    how.finalize();
    descriptor d(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    d.finalize();
    return d;
}

descriptor reduction(cudnnReduceTensorOp_t mode, const descriptor &x, const descriptor &y)
{
    descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    how.finalize();
    descriptor d(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    d.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    d.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    d.finalize();
    return d;
}

descriptor product(const descriptor &a, const descriptor &b, const descriptor &c)
{
    descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.finalize();
    descriptor d(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    d.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    d.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    d.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    d.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    d.finalize();
    return d;
}

/* --- engines ---------------------------------------------------------------------------------- */

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

/* Always the same result, and in no way that is unwanted. */
static bool engine_is_steady(const descriptor &config,
                             const std::vector<cudnnBackendNumericalNote_t> &unwanted)
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
    return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t n) {
        return n == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
               std::find(unwanted.begin(), unwanted.end(), n) != unwanted.end();
    });
}

/* Adds what one kind of heuristics proposes, best first. */
static void propose(const descriptor &graph, cudnnBackendHeurMode_t mode,
                    const std::vector<cudnnBackendNumericalNote_t> &unwanted,
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
        if (engine_is_steady(found[static_cast<size_t>(i)], unwanted))
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

/* Memory beside the pictures that a plan may want: where it is short, pictures go before speed. */
static constexpr int64_t workspace_most = int64_t{256} << 20;

/* The plan of a shape, or NULL if there is none: the first proposal that builds and can do with
 * that memory, or the one that wants least; the same in every process.
 * Timing eight of them found nothing faster (kernels/LAB.md). */
static std::unique_ptr<plan> choose(const request &what)
{
    const descriptor graph = graph_of(what.describe());
    std::vector<descriptor> configs;
    propose(graph, CUDNN_HEUR_MODE_A, what.unwanted, configs);
    propose(graph, CUDNN_HEUR_MODE_FALLBACK, what.unwanted, configs);
    std::unique_ptr<plan> least;
    for (const descriptor &config : configs) {
        auto p = std::make_unique<plan>();
        if (!build(config, *p))
            continue;
        if (p->workspace <= workspace_most)
            return p;
        if (!what.frugal && (!least || p->workspace < least->workspace))
            least = std::move(p);
    }
    return least;
}

static std::unique_ptr<plan> try_choose(const request &what)
{
    try {
        return choose(what);
    } catch (const refused &) {
        return nullptr;
    }
}

/* --- running ---------------------------------------------------------------------------------- */

static bool execute(const plan &p, const request &what, at::Device device)
{
    const at::Tensor workspace =
        at::empty({p.workspace}, at::TensorOptions(device).dtype(at::kByte));
    void *space = workspace.data_ptr();
    descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, what.ids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             static_cast<int64_t>(what.data.size()), what.data.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &space);
    pack.finalize();
    return accepted(cudnnBackendExecute(at::native::getCudnnHandle(), p.built.raw(), pack.raw()));
}

static bool try_execute(const plan &p, const request &what, at::Device device)
{
    try {
        return execute(p, what, device);
    } catch (const refused &) {
        return false;
    }
}

static std::mutex lock;

/* Under the lock: the plan of the key; NULL in there if there is none. */
static std::unique_ptr<plan> &plan_of(const request &what)
{
    /* One of each shape, never freed: a recorded graph may have its kernels, and at exit cuDNN may
     * be gone before a static variable is. */
    static auto &plans = *new std::map<std::vector<int64_t>, std::unique_ptr<plan>>;
    auto found = plans.find(what.key);
    if (found == plans.end())
        found = plans.emplace(what.key, try_choose(what)).first;
    return found->second;
}

bool takes(const request &what)
{
    const std::lock_guard<std::mutex> guard(lock);
    return plan_of(what) != nullptr;
}

bool run(const request &what, at::Device device)
{
    const std::lock_guard<std::mutex> guard(lock);
    std::unique_ptr<plan> &p = plan_of(what);
    if (p && !try_execute(*p, what, device))
        p.reset(); /* for good: a shape's results shall not depend on when */
    return p != nullptr;
}

} // namespace kiln::cudnn

#endif
