/* test_parity.c - the CPU in fp32 against diffusers on the CPU in fp32: at most 1e-4 a stage and
 * for the final latent, the picture off by at most one level in 99.9 % of values. */
#include "pipeline/torch/tensor.h"
#include "tests/support/parity.h"

int main(void)
{
    const struct parity limits = {
        .device = KT_CPU, .dtype = DIFFUSIONZ_FP32, .stage = 1e-4, .encoder = 1e-4, .levels = 1};
    return parity_run("parity", &limits);
}
