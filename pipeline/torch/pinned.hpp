/* pinned.hpp - page-locked host memory, which a GPU reads and writes by itself.
 *
 * LibTorch's own copies leave a note at such memory of the stream that uses it, and giving the
 * memory back then asks the device to mark that stream: in a destructor, where the answer of a
 * device that is lost would end the process.  Here the copies are Kiln's own.  An event goes with
 * each, and memory whose owner lets it go before the event has come is kept until it has; if it
 * never comes, for ever.
 */
#ifndef KILN_TORCH_PINNED_HPP
#define KILN_TORCH_PINNED_HPP

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace kiln
{

/* Queues a copy of so many bytes between pinned memory and a GPU's on the current stream.  Whoever
 * asks for it keeps the memory until it is done. */
void copy_pinned(void *to, const void *from, size_t bytes);

class pinned
{
    at::Tensor host_;
    std::optional<c10::Event> used_; /* behind the last copy */

    void mark(const at::Device &device);

  public:
    /* Dense and not filled; on the CPU alone it is plain memory. */
    pinned(at::IntArrayRef sizes, at::ScalarType type, bool locked = true);
    explicit pinned(at::Tensor plain) : host_(std::move(plain)) {}
    pinned(const pinned &) = delete;
    ~pinned();

    const at::Tensor &host() const { return host_; }
    /* A copy on the device, or the memory itself where that is the CPU. */
    at::Tensor sent(const at::Device &device);
    /* Copies to and from a dense tensor, on the current stream of a GPU: the first bytes, as many
     * as the target has; all, which the source must have. */
    void send(const at::Tensor &target);
    void receive(const at::Tensor &source);
    /* Whether the last copy is done; throws where the device died before. */
    bool arrived() const { return !used_ || used_->query(); }
};

} // namespace kiln

#endif
