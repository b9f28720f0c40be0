/* test_kernels.c - every CUDA kernel against its plain C reference.
 *
 *     test_kernels [NAME]
 *
 * Runs on the current GPU, over odd and even sizes, aligned and unaligned pointers and every form
 * that a kernel has; finds writes outside of the buffers; says on what it ran.  NAME: only the
 * tests whose name contains it.  Exit 0: all agree; 1: some do not, or there is no such test; 69:
 * there is no usable GPU.  Linked with tests/doubles/host_cuda instead of CUDA it runs the same
 * kernels on the host.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <sysexits.h>

#include "tests/gpu/kernels/twin.h"

int main(int argc, char **argv)
{
    static const struct kernel_test *const files[] = {
        norm_tests,           row_tests,           head_tests,
        picture_tests,        latent_tests,        low_rank_down_tests,
        low_rank_codes_tests, gated_product_tests, code_tests};
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
    const char *filter = argc > 1 ? argv[1] : "";
    int failed = 0, ran = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        failed += run_tests(files[i], filter, &ran);
    if (ran == 0) {
        fprintf(stderr, "no test's name contains \"%s\"\n", filter);
        return 1;
    }
    printf("[  %s  ] %d of %d test(s) failed.\n", failed ? "FAILED" : "PASSED", failed, ran);
    return failed > 0;
}
