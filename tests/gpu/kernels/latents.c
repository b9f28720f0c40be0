/* latents.c */
#include "tests/gpu/kernels/twin.h"
const struct kernel_test latent_tests[] = {{NULL, NULL}};
