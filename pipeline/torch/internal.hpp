/* internal.hpp - what the files of this folder share: the two structs behind the handles, and the
 * wrapper that turns exceptions into a scope's sticky error. */
#ifndef KILN_TORCH_INTERNAL_HPP
#define KILN_TORCH_INTERNAL_HPP

#include <chrono>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>

#include "kernels/fp8.h"
#include "kernels/tails.h"
#include "pipeline/torch/tensor.h"

/* Quantised rows have codes in t and a factor for each row in scale; other tensors are t alone.
 * room: columns behind each row of t that belong to it (low_rank.h).  beside: the LoRA factor whose
 * product t down^T is in those columns already. */
struct kt_tensor {
    at::Tensor t, scale;
    int64_t room = 0;
    at::Tensor beside = {};
};

struct kt_scope {
    int device = KT_CPU;
    bool side = false;                 /* which stream of the GPU; see async.h */
    bool recorded = false;             /* its operations go into a graph */
    std::optional<c10::Stream> stream; /* set by the first operation */
    kt_scope *parent = nullptr;
    kiln_error error{};
    std::vector<std::unique_ptr<kt_tensor>> tensors;

    at::Device place() const
    {
        return device == KT_CPU ? at::Device(at::kCPU)
                                : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device));
    }
    kt own(kt_tensor t)
    {
        tensors.push_back(std::make_unique<kt_tensor>(std::move(t)));
        return tensors.back().get();
    }
    kt own(at::Tensor t) { return own(kt_tensor{std::move(t), {}}); }
};

namespace kiln
{

/* Files the exception in flight as the scope's error, named after the operation. */
void file_exception(kt_scope *s, const char *op) noexcept;
void file_null(kt_scope *s, const char *op) noexcept;
/* Whether an error text of LibTorch, CUDA or the system means that memory is short. */
bool means_no_memory(const char *what) noexcept;

/* The CUDA stream of a scope, and a device's main or side stream; GPUs only. */
c10::Stream stream_of(const kt_scope &s);
c10::Stream device_stream(int device, bool side);

/* Polls until `answers` is true; throws after kt_wait_limit seconds.  wait_pause is shorter than
 * the shortest step and leaves the processor to other threads; no_pause is for measurements and for
 * waits on an idle device. */
constexpr std::chrono::microseconds wait_pause{50}, no_pause{0};
void wait_for(std::chrono::microseconds pause, const std::function<bool()> &answers);

/* A lock that keeps graphs from being recorded meanwhile.  Owns nothing if this thread is
 * recording, or if another thread has been for more than a minute. */
std::unique_lock<std::timed_mutex> between_recordings();
/* From begin_recording, which takes over the lock, to end_recording this thread records a graph. */
void begin_recording(std::unique_lock<std::timed_mutex> lock);
void end_recording();
bool is_recording(); /* this thread */

/* While it lives, this thread's operations go to the scope's device and stream. */
class on_stream
{
    c10::OptionalStreamGuard guard;

  public:
    explicit on_stream(kt_scope *s)
    {
        if (s->device != KT_CPU)
            guard.reset_stream(s->stream ? *s->stream : s->stream.emplace(stream_of(*s)));
    }
};

/* Runs f, which returns a tensor, unless the scope has failed or an operand is NULL; files what f
 * throws. */
template <class F>
kt run(kt_scope *s, const char *op, std::initializer_list<kt> operands, F &&f) noexcept
{
    if (!s || s->error.code)
        return nullptr;
    for (kt x : operands)
        if (!x)
            return file_null(s, op), nullptr;
    try {
        c10::InferenceMode guard;
        on_stream current(s);
        return s->own(f());
    } catch (...) {
        file_exception(s, op);
    }
    return nullptr;
}

/* The same for an f that returns nothing. */
template <class F>
void run_void(kt_scope *s, const char *op, std::initializer_list<kt> operands, F &&f) noexcept
{
    if (!s || s->error.code)
        return;
    for (kt x : operands)
        if (!x)
            return file_null(s, op);
    try {
        c10::InferenceMode guard;
        on_stream current(s);
        f();
    } catch (...) {
        file_exception(s, op);
    }
}

/* n, or the next multiple above it. */
template <class T> constexpr T up_to(T n, std::common_type_t<T> multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

at::ScalarType scalar_of(kt_dtype dtype);
/* x as plain numbers, dequantised if need be, in x's own or the given dtype. */
at::Tensor plain(const kt_tensor &x);
at::Tensor plain(const kt_tensor &x, at::ScalarType dtype);
/* room: columns behind each row, with part of the code range reserved for them (kernels/fp8.h), if
 * one of Kiln's kernels does it. */
kt_tensor quantised(const at::Tensor &rows, int64_t room = 0);
/* The code of a row's largest value: smaller if columns in the room need larger codes. */
inline float code_max(const kt_tensor &out)
{
    return out.room > 0 ? KILN_E4M3_BESIDE_MAX : KILN_E4M3_MAX;
}
/* Rows in the given form: as they are, or quantised. */
kt_tensor formed(const kt_tensor &rows, const kt_form &form);
/* Copies x into target, of the same shape; fast also for rows with room behind them. */
void copy_rows(const at::Tensor &target, const at::Tensor &x);
/* The same with conversion to target's dtype, quantised if target is. */
void assign(const kt_tensor &target, const at::Tensor &x);
/* x weight^T + bias for a quantised weight. */
at::Tensor linear_e4m3(const kt_tensor &x, const kt_tensor &weight, const at::Tensor &bias);
/* x channels last; the bias may be undefined. */
at::Tensor convolve(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias,
                    int64_t stride, int64_t pad, int64_t dilation = 1);
/* x weight^T + bias; the bias may be undefined. */
at::Tensor linear(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias);
/* How many rows each item of attention has. */
inline int64_t item_rows(const kt_attention_args &args)
{
    const int64_t rows = args.qkv->t.size(0), items = args.items ? args.items : 1;
    TORCH_CHECK(items > 0 && rows % items == 0, rows, " rows of ", items, " items");
    return rows / items;
}
/* Whether rows of n values can have tails (kernels/tails.h). */
inline bool takes_tails(const at::Tensor &rows, int64_t n)
{
    return rows.scalar_type() == at::kBFloat16 && n % KILN_TAILS_MULTIPLE == 0 && n <= KILN_ROW_MAX;
}
/* Whether rows that are to have n values have tails behind them. */
inline bool has_tails(const at::Tensor &rows, int64_t n)
{
    const int64_t columns = rows.size(-1);
    TORCH_CHECK(rows.dim() == 2 &&
                    (columns == n || (takes_tails(rows, n) && columns == KILN_TAILED(n))),
                "rows of shape ", rows.sizes(), " where they have ", n, " values");
    return columns != n;
}
inline at::Tensor maybe(kt x)
{
    return x ? x->t : at::Tensor();
}
/* These accept an undefined tensor, too. */
inline at::Tensor dense(const at::Tensor &x)
{
    return x.defined() ? x.contiguous() : x;
}
inline at::Tensor channels_last(const at::Tensor &x)
{
    return x.defined() ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
}
inline const void *data_of(const at::Tensor &x)
{
    return x.defined() ? x.const_data_ptr() : nullptr;
}

} // namespace kiln

#endif
