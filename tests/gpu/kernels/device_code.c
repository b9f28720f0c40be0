/* device_code.c - that a card is asked whether there is code for it, and what is said if not.
 *
 * On a device only the good answer can be had; the stand-in for CUDA can be any card.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "kernels/device_code.h"
#include "tests/gpu/kernels/twin.h"

static void this_device_has_code(void)
{
    struct kiln_error err;
    describe("this device");
    (void)launched(kiln_device_code_check(&err), &err);
}

#ifdef KILN_HOST_CUDA_RUNTIME_API_H

static void expect_reason(struct cudaDeviceProp card, cudaError_t lookup, int code,
                          const char *sentence)
{
    const struct cudaDeviceProp before = host_cuda_card;
    struct kiln_error err = {0};
    host_cuda_card = card, host_cuda_lookup = lookup;
    refused(kiln_device_code_check(&err), code, &err);
    host_cuda_card = before, host_cuda_lookup = cudaSuccess;
    if (strcmp(err.text, sentence) != 0)
        complain("\"%s\" instead of \"%s\"", err.text, sentence);
    if (cudaGetLastError() != cudaSuccess)
        complain("the next launch would be blamed for it");
}

static void another_card_is_named(void)
{
    const struct cudaDeviceProp a100 = {"NVIDIA A100", 8, 0}, t4 = {"Tesla T4", 7, 5};
    describe("a card that the build is not for");
    expect_reason(a100, cudaErrorNoKernelImageForDevice, KILN_UNSUPPORTED,
                  "NVIDIA A100 has compute capability 8.0, and Kiln's kernels were built for 9.0; "
                  "build them with make CUDA_ARCH=sm_80");
    expect_reason(t4, cudaErrorInvalidDeviceFunction, KILN_UNSUPPORTED,
                  "Tesla T4 has compute capability 7.5, and Kiln's kernels need 8.0 or later");
    describe("a card that cannot be asked");
    expect_reason(a100, cudaErrorMemoryAllocation, KILN_DEVICE,
                  "Kiln's kernels cannot be loaded: cudaErrorMemoryAllocation (refused by the "
                  "host's stand-in for CUDA)");
}

#endif

const struct kernel_test code_tests[] = {
    {"this_device_has_code", this_device_has_code},
#ifdef KILN_HOST_CUDA_RUNTIME_API_H
    {"another_card_is_named", another_card_is_named},
#endif
    {NULL, NULL},
};
