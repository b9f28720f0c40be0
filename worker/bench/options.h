/* options.h - values of options that only the benches have, and the library's last error. */
#ifndef KILN_WORKER_BENCH_OPTIONS_H
#define KILN_WORKER_BENCH_OPTIONS_H

#include <stdint.h>

#include "schemas/error.h"

/* A size of --sizes: WxH, or N for NxN. */
int kiln_bench_size(char *text, int32_t *ret_width, int32_t *ret_height,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Calls take for each part of text between commas, at most max times; text is cut at them. */
typedef int kiln_bench_take(void *arg, char *part, struct kiln_error *err);
int kiln_bench_list(const char *name, char *text, int max, kiln_bench_take *take, void *arg,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Makes diffusionz_last_error() the error.  Returns code. */
int kiln_bench_last_error(int code, struct kiln_error *err);

#endif
