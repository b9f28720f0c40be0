/* staging.cpp - page-locked host memory, and tensors changed in place; see staging.h. */
#include "pipeline/torch/staging.h"

#include <new>

#include "pipeline/torch/internal.hpp"
#include "pipeline/torch/pinned.hpp"

using kiln::run;
using kiln::run_void;

struct kt_staging {
    kiln::pinned bytes;
};

kt_staging *kt_staging_new(int device, size_t size)
{
    try {
        return new kt_staging{
            kiln::pinned({static_cast<int64_t>(size)}, at::kByte, /*locked=*/device >= 0)};
    } catch (...) {
        return nullptr; /* out of memory that can be locked; there is no scope to say more */
    }
}

void kt_staging_free(kt_staging *m)
{
    delete m;
}

void *kt_staging_data(const kt_staging *m)
{
    return m->bytes.host().data_ptr();
}

void kt_staging_copy(kt_scope *s, kt bytes, kt_staging *from)
{
    run_void(s, "staging_copy", {bytes}, [&] {
        if (s->device == KT_CPU)
            bytes->t.copy_(from->bytes.host());
        else
            from->bytes.send(bytes->t);
    });
}

kt kt_view_bytes(kt_scope *s, kt bytes, size_t offset, kt_dtype dtype, int ndim,
                 const int64_t *shape)
{
    return run(s, "view_bytes", {bytes}, [&] {
        const at::ScalarType type = kiln::scalar_of(dtype);
        int64_t size = static_cast<int64_t>(at::elementSize(type));
        for (int i = 0; i < ndim; i++)
            size *= shape[i];
        at::Tensor part = bytes->t.narrow(0, static_cast<int64_t>(offset), size);
        return part.view(type).view(at::IntArrayRef(shape, ndim));
    });
}
