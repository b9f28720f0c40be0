/* pictures.c */
#include "tests/gpu/kernels/twin.h"
const struct kernel_test picture_tests[] = {{NULL, NULL}};
