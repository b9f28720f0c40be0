/* one_context.h - for programs whose tests draw with one context each: the golden model in ctx. */
#ifndef KILN_TEST_ONE_CONTEXT_H
#define KILN_TEST_ONE_CONTEXT_H

#include "tests/pipeline/abi.h"

static DiffusionZContext *ctx;

static inline int open_context(void **state)
{
    (void)state;
    ctx = open_plain();
    return 0;
}

static inline int close_context(void **state)
{
    (void)state;
    diffusionz_free(ctx);
    return 0;
}

#endif
