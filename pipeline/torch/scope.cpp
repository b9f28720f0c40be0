/* scope.cpp - scopes, the sticky error and threads. */
#include "pipeline/torch/internal.hpp"

#include <cstring>
#include <new>

#include <ATen/Parallel.h>

namespace kiln
{

bool means_no_memory(const char *what) noexcept
{
    return strstr(what, "out of memory") || strstr(what, "not enough memory") ||
           strstr(what, "can't allocate memory") || strstr(what, "bad_alloc") ||
           strstr(what, "ALLOC_FAILED") || strstr(what, "ALLOCATION_FAILED");
}

/* LibTorch's messages carry a C++ backtrace from the second line on; people get the first. */
static void fail_with(kt_scope *s, const char *op, const char *what) noexcept
{
    const char *end = strchr(what, '\n');
    int len = end ? static_cast<int>(end - what) : static_cast<int>(strlen(what));
    kiln_fail(&s->error, means_no_memory(what) ? KILN_NO_MEMORY : KILN_DEVICE,
              "tensor operation %s: %.*s", op, len < 600 ? len : 600, what);
}

void file_exception(kt_scope *s, const char *op) noexcept
{
    try {
        throw;
    } catch (const c10::Error &e) {
        fail_with(s, op, e.what_without_backtrace());
    } catch (const std::exception &e) {
        fail_with(s, op, e.what());
    } catch (...) {
        fail_with(s, op, "an exception of unknown type");
    }
}

void file_null(kt_scope *s, const char *op) noexcept
{
    kiln_fail(&s->error, KILN_INTERNAL, "tensor operation %s: an operand is missing", op);
}

at::ScalarType scalar_of(kt_dtype dtype)
{
    switch (dtype) {
    case KT_BF16:
        return at::kBFloat16;
    case KT_F16:
        return at::kHalf;
    case KT_U8:
        return at::kByte;
    case KT_I64:
        return at::kLong;
    case KT_I32:
        return at::kInt;
    case KT_E4M3:
        return at::kFloat8_e4m3fn;
    case KT_F32:
        break;
    }
    return at::kFloat;
}

} // namespace kiln

void kt_threads_set(int threads)
{
    static const int all = at::get_num_threads();
    at::set_num_threads(threads > 0 && threads < all ? threads : all);
}

kt_scope *kt_scope_new(int device)
{
    kt_scope *s = new (std::nothrow) kt_scope;
    if (s)
        s->device = device;
    return s;
}

kt_scope *kt_scope_child(kt_scope *parent)
{
    if (!parent)
        return nullptr;
    kt_scope *s = kt_scope_new(parent->device);
    if (!s) {
        kiln_error err;
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for a tensor scope");
        kt_scope_fail(parent, &err);
        return nullptr;
    }
    s->parent = parent;
    s->error = parent->error;
    s->side = parent->side;
    s->recorded = parent->recorded;
    s->stream = parent->stream;
    return s;
}

void kt_scope_free(kt_scope *s)
{
    if (s && s->parent && s->error.code)
        kt_scope_fail(s->parent, &s->error);
    delete s;
}

int kt_scope_check(const kt_scope *s, kiln_error *err)
{
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a tensor scope");
    if (s->error.code && err)
        *err = s->error;
    return s->error.code;
}

void kt_scope_fail(kt_scope *s, const kiln_error *err)
{
    if (s && !s->error.code)
        s->error = *err;
}

kt kt_keep(kt_scope *to, kt x)
{
    /* Of one memory with two handles neither knows for sure what is behind its rows. */
    const auto same = [&] { return kt_tensor{x->t, x->scale, x->room}; };
    /* A missing x says that its own scope has failed: that error comes along when it is freed. */
    return x ? kiln::run(to, "keep", {x}, same) : nullptr;
}

void kt_drop(kt_scope *s, kt x)
{
    if (!s || !x)
        return;
    for (size_t i = s->tensors.size(); i-- > 0;)
        if (s->tensors[i].get() == x) {
            s->tensors.erase(s->tensors.begin() + static_cast<std::ptrdiff_t>(i));
            return;
        }
}

int64_t kt_size(kt x, int dim)
{
    if (!x)
        return 0;
    int64_t ndim = x->t.dim(), at = dim < 0 ? ndim + dim : dim;
    return at >= 0 && at < ndim ? x->t.size(at) : 0;
}

kt_dtype kt_dtype_of(kt x)
{
    if (!x)
        return KT_F32;
    switch (x->t.scalar_type()) {
    case at::kBFloat16:
        return KT_BF16;
    case at::kHalf:
        return KT_F16;
    case at::kByte:
        return KT_U8;
    case at::kLong:
        return KT_I64;
    case at::kInt:
        return KT_I32;
    case at::kFloat8_e4m3fn:
        return KT_E4M3;
    default:
        return KT_F32;
    }
}
