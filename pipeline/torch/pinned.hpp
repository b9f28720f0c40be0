/* pinned.hpp - page-locked host memory, which a GPU reads and writes by itself.
 *
 * LibTorch's own copies record an event when such memory is freed, in a destructor.  On a lost
 * device that call fails and would end the process.  So Kiln makes these copies itself: each one
 * has an event, and memory whose owner frees it early is kept until its event has come, or for
 * ever.
 */
#ifndef KILN_TORCH_PINNED_HPP
#define KILN_TORCH_PINNED_HPP

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace kiln
{

/* Queues a copy between pinned memory and a GPU's on the current stream.  The caller keeps the
 * memory until the copy is done. */
void copy_pinned(void *to, const void *from, size_t bytes);

class pinned
{
    at::Tensor host_;
    std::optional<c10::Event> used_; /* behind the last copy */

    void mark(const at::Device &device);

  public:
    /* Dense, values unknown; plain memory unless locked. */
    pinned(at::IntArrayRef sizes, at::ScalarType type, bool locked = true);
    explicit pinned(at::Tensor plain) : host_(std::move(plain)) {}
    pinned(const pinned &) = delete;
    ~pinned();

    const at::Tensor &host() const { return host_; }
    /* A copy on the device; the memory itself if that is the CPU. */
    at::Tensor sent(const at::Device &device);
    /* Copies to and from a dense tensor, on a GPU's current stream: send fills the target from the
     * first bytes; receive fills all of this memory. */
    void send(const at::Tensor &target);
    void receive(const at::Tensor &source);
    /* Whether the last copy is done; throws if the device was lost before. */
    bool arrived() const { return !used_ || used_->query(); }
};

} // namespace kiln

#endif
