/* ops_rig.h - operands that are the same numbers on two devices, and verdicts that do not stop.
 *
 * A check prints one line, PASS or FAIL, and the next one runs all the same.  Groups of checks run
 * in a process of their own, which a device's fault may end: the next group gets a new one.
 */
#ifndef KILN_TEST_OPS_RIG_H
#define KILN_TEST_OPS_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pipeline/torch/tensor.h"

#define KT_CODES ((struct kt_form){.e4m3 = true})

/* A scope on the CPU and one on cuda:0, both fresh. */
struct sides {
    struct kt_scope *cpu, *gpu;
};
struct sides sides_open(void);
/* Files an error of either scope as a failure of `what`. */
void sides_close(struct sides *s, const char *what);

/* rows x cols values of about `size`, a power of two, each a bf16: the same for the same seed in
 * every dtype and on every device.  cols 0: a vector of rows. */
kt operand(struct kt_scope *s, enum kt_dtype dtype, uint64_t seed, double size, int64_t rows,
           int64_t cols);
/* [rows, half] in fp32: cosines or sines of angles that differ from row to row. */
kt angles(struct kt_scope *s, bool sine, int64_t rows, int64_t half);

/* The case under way; part() is that and what else is checked of it, until the next call. */
extern char label[160];
#define LABEL(...) (snprintf(label, sizeof label, __VA_ARGS__), label)
const char *part(const char *of);

/* Prints the verdict on `what` with what was measured. */
void verdict(bool good, const char *what, const char *measured);

/* |got - want| as vectors is at most `limit` of |want|. */
void check_relative(struct sides *s, const char *what, kt got, kt want, double limit);
/* Both round at the same places and sum in another order: all values within `stages` bf16 units of
 * |want| + scale, all but 2 % equal. */
void check_rounded(struct sides *s, const char *what, kt got, kt want, int stages, double scale);
/* Bit for bit, as floats; both on the GPU. */
void check_same(struct sides *s, const char *what, kt got, kt want);

struct group {
    const char *name;
    void (*run)(void);
};
/* Runs the groups whose name contains `filter`; returns how many checks failed, 1 where there is no
 * such group. */
int run_groups(const struct group *groups, size_t count, const char *filter);

#endif
