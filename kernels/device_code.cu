/* device_code.cu - see device_code.h.
 *
 * All .cu files are compiled with the same options, so that what holds for the kernel of this one
 * holds for every other.  It is looked up and never launched: that loads its code or says that
 * there is none, and is allowed while another thread records a graph.
 */
#include "kernels/device_code.h"

#include <cstdio>
#include <cuda_runtime.h>

/* The oldest card whose arithmetic the kernels use (bf16 by pairs), 10 for 1.0. */
constexpr int oldest = 80;

/* What nvcc was asked for: 900 for sm_90a. */
constexpr int built_for[] = {__CUDA_ARCH_LIST__};

static __global__ void found_if_there_is_code() {}

/* "8.0, 9.0"; what does not fit is left out. */
static void list_built_for(char *text, size_t size)
{
    size_t len = 0;
    for (int arch : built_for)
        if (len < size)
            len += static_cast<size_t>(snprintf(text + len, size - len, "%s%d.%d", len ? ", " : "",
                                                arch / 100, arch / 10 % 10));
}

static int no_code(const cudaDeviceProp &card, struct kiln_error *err)
{
    char list[64] = "";
    if (card.major * 10 + card.minor < oldest)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s has compute capability %d.%d, and Kiln's kernels need %d.%d or later",
                         card.name, card.major, card.minor, oldest / 10, oldest % 10);
    list_built_for(list, sizeof list);
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "%s has compute capability %d.%d, and Kiln's kernels were built for %s; build "
                     "them with make CUDA_ARCH=sm_%d%d%s",
                     card.name, card.major, card.minor, list, card.major, card.minor,
                     card.major == 9 && card.minor == 0 ? "a" : ""); /* sm_90 lacks wgmma */
}

int kiln_device_code_check(struct kiln_error *err)
{
    cudaFuncAttributes attributes;
    cudaDeviceProp card;
    int device = 0;
    cudaError_t code =
        cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(found_if_there_is_code));
    if (code == cudaSuccess)
        return KILN_OK;
    (void)cudaGetLastError(); /* it would be taken for the next launch's */
    if ((code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) &&
        cudaGetDevice(&device) == cudaSuccess &&
        cudaGetDeviceProperties(&card, device) == cudaSuccess)
        return no_code(card, err);
    return kiln_fail(err, KILN_DEVICE, "Kiln's kernels cannot be loaded: %s (%s)",
                     cudaGetErrorName(code), cudaGetErrorString(code));
}
