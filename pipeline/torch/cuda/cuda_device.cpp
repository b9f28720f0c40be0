/* cuda_device.cpp - libkiln_cuda.so: the part of Kiln that is linked to LibTorch's CUDA half.
 *
 * Loading it registers the CUDA operators, after which the pipeline runs on cuda:N through the
 * same tensor.h.  It is opened on demand, so that machines without a GPU need none of it.
 */
#include <cstdio>
#include <exception>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

/* How many devices are usable; 0 with the reason, if LibTorch gives one. */
extern "C" __attribute__((visibility("default"))) int kiln_cuda_count(char *reason, size_t size)
{
    try {
        if (!at::globalContext().hasCUDA())
            return 0;
        return static_cast<int>(at::detail::getCUDAHooks().deviceCount());
    } catch (const std::exception &e) {
        snprintf(reason, size, "%.200s", e.what());
    } catch (...) {
        snprintf(reason, size, "an exception of unknown type");
    }
    return 0;
}
