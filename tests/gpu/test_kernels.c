/* test_kernels.c - every CUDA kernel against its plain C reference.
 *
 *     test_kernels
 *
 * Runs on the current GPU, over odd and even sizes, aligned and unaligned pointers and every form
 * that a kernel has; finds writes outside of the buffers; says on what it ran.  Exit 0: all agree;
 * 1: some do not; 69: there is no usable GPU.  Linked with tests/doubles/host_cuda instead of CUDA
 * it runs the same kernels on the host.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <sysexits.h>

#include "tests/gpu/kernels/twin.h"

int main(void)
{
    int count = 0, major = 0, minor = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0)
        code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    if (code == cudaSuccess && count > 0)
        code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    if (code != cudaSuccess || count == 0) {
        fprintf(stderr, "these tests need a GPU: %s\n", cudaGetErrorString(code));
        return EX_UNAVAILABLE;
    }
    printf("kernels on a device of compute capability %d.%d\n", major, minor);
    const int failed = run_tests(norm_tests) + run_tests(row_tests) + run_tests(head_tests) +
                       run_tests(picture_tests) + run_tests(latent_tests) +
                       run_tests(low_rank_down_tests) + run_tests(low_rank_codes_tests) +
                       run_tests(gated_product_tests) + run_tests(code_tests);
    printf(failed ? "[  FAILED  ] %d test(s).\n" : "[  PASSED  ] all, %d failed.\n", failed);
    return failed > 0;
}
