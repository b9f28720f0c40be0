/* test_parity_cuda.c - every stage of every golden case on cuda:0, in fp32 and in bf16
 * (KILN_PARITY=fp32 or bf16: that one alone).
 *
 * fp32 sums in another order than the CPU: 1e-3 would show a wrong operator or a product in TF32.
 * The encoder is held to the CPU's own bound, since a picture becomes the start of a run: 1e-4.
 * bf16 keeps 8 bits of each value; on the CPU the same models are off by up to 2.7e-2.
 */
#include "tests/gpu/gpu.h"
#include "tests/support/parity.h"

int main(void)
{
    const struct parity fp32 = {.dtype = DIFFUSIONZ_FP32, .stage = 1e-3, .encoder = 1e-4, .levels = 1};
    const struct parity bf16 = {.dtype = DIFFUSIONZ_BF16, .stage = 5e-2, .encoder = 5e-2, .levels = 16};
    const char *only = getenv("KILN_PARITY");
    int failed = 0;
    need_gpu();
    if (!only || strcmp(only, "fp32") == 0)
        failed += parity_run("cuda_fp32", &fp32);
    if (!only || strcmp(only, "bf16") == 0)
        failed += parity_run("cuda_bf16", &bf16);
    return failed;
}
