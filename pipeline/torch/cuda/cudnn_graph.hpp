/* cudnn_graph.hpp - cuDNN's graph interface: tensors are described, operations on them are chained,
 * heuristics propose engines for the chain, and the first one that builds becomes the plan of that
 * shape, for the life of the process.
 *
 * Engines that may sum in another order from run to run are passed over: a picture must not depend
 * on when it was drawn.  Where a build finds no <cudnn.h>, KILN_CUDNN is 0 and nothing of this
 * exists.
 */
#ifndef KILN_TORCH_CUDNN_GRAPH_HPP
#define KILN_TORCH_CUDNN_GRAPH_HPP

#if __has_include(<cudnn.h>)
#define KILN_CUDNN 1
#else
#define KILN_CUDNN 0
#endif

#if KILN_CUDNN

#include <functional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <cudnn.h>

namespace kiln::cudnn
{

/* Thrown where cuDNN does not take something; never leaves takes() and run(). */
struct refused {
};

/* One of cuDNN's descriptors; others that it is made of are copied when it is finalized. */
class descriptor
{
  public:
    explicit descriptor(cudnnBackendDescriptorType_t type);
    descriptor(descriptor &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    descriptor &operator=(descriptor &&other) noexcept
    {
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~descriptor();
    cudnnBackendDescriptor_t raw() const { return raw_; }
    void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
             const void *values);
    void set(cudnnBackendAttributeName_t name, const std::vector<int64_t> &values);
    void set(cudnnBackendAttributeName_t name, const descriptor &other);
    void set(cudnnBackendAttributeName_t name, cudnnDataType_t type);
    bool try_finalize();
    void finalize();

  private:
    cudnnBackendDescriptor_t raw_ = nullptr;
};

/* A tensor of a graph: in the device's memory, or a value in the host's, or existing between two
 * operations alone.  The id is what its data is given under; every tensor of a graph has its own.
 */
struct layout {
    std::vector<int64_t> sizes, strides;
};
enum place { ON_DEVICE, ON_HOST, BETWEEN };
descriptor tensor(int64_t id, const layout &at, cudnnDataType_t type, place where);

/* Operations, in fp32.  y = f(x), f(x, b); y is as large as x, or the dimension that it reduces
 * has the size 1. */
descriptor pointwise(cudnnPointwiseMode_t mode, const descriptor &x, const descriptor *b,
                     const descriptor &y);
descriptor reduction(cudnnReduceTensorOp_t mode, const descriptor &x, const descriptor &y);
descriptor product(const descriptor &a, const descriptor &b, const descriptor &c);

enum kind : int64_t { CONVOLUTION, ATTENTION };

/* What is run: a kind of graph in one shape. */
struct request {
    std::vector<int64_t> key; /* device, kind, shape: all that the graph depends on */
    std::function<std::vector<descriptor>()> describe; /* its operations; called once for a key */
    std::vector<cudnnBackendNumericalNote_t> unwanted; /* of engines, beside those that vary */
    bool frugal;              /* rather no plan than one that wants much memory for itself */
    std::vector<int64_t> ids; /* of tensors with data */
    std::vector<void *> data; /* of each */

    void bind(int64_t id, void *at)
    {
        ids.push_back(id);
        data.push_back(at);
    }
    void bind(int64_t id, const at::Tensor &t) { bind(id, t.data_ptr()); }
};

/* Whether there is a plan for that key, which is built if it was not asked for before. */
bool takes(const request &what);
/* Queues it on the current stream of the device, which is the current one.  False where cuDNN has
 * no plan for it or does not run it: then there is no result, in this and every later call for that
 * key.  Memory that is short is thrown on: whoever asked makes room and asks again. */
bool run(const request &what, at::Device device);

} // namespace kiln::cudnn

#endif

#endif
