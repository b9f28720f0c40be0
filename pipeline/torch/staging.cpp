/* staging.cpp - page-locked host memory, and tensors changed in place; see staging.h. */
#include "pipeline/torch/staging.h"

#include <new>

#include <ATen/ops/empty.h>

#include "pipeline/torch/internal.hpp"

using kiln::run;
using kiln::run_void;

struct kt_staging {
    int device;
    at::Tensor t;
};

kt_staging *kt_staging_new(int device, size_t size)
{
    try {
        const at::TensorOptions options = at::TensorOptions(at::kByte).pinned_memory(device >= 0);
        return new kt_staging{device, at::empty({static_cast<int64_t>(size)}, options)};
    } catch (...) {
        return nullptr; /* out of memory that can be locked; there is no scope to say more */
    }
}

void kt_staging_free(kt_staging *m)
{
    if (m)
        kiln::let_go(m->t, m->device);
    delete m;
}

void *kt_staging_data(const kt_staging *m)
{
    return m->t.data_ptr();
}

void kt_staging_copy(kt_scope *s, kt bytes, const kt_staging *from)
{
    run_void(s, "staging_copy", {bytes}, [&] { bytes->t.copy_(from->t, /*non_blocking=*/true); });
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

void kt_merge_low_rank(kt_scope *s, kt target, kt base, kt up, kt down)
{
    run_void(s, "merge_low_rank", {target, base, up, down}, [&] {
        if (!target->scale.defined()) {
            at::addmm_out(target->t, base->t, up->t, down->t);
            return;
        }
        const at::Tensor sum = at::addmm(base->t, up->t, down->t);
        const kt_tensor rows = kiln::quantised(sum, KT_E4M3_ONLY);
        target->t.copy_(rows.t);
        target->scale.copy_(rows.scale);
    });
}
