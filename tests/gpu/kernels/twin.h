/* twin.h - data that a kernel and its reference both work on: once on the host, once on the device,
 * there between guard bytes; and the comparisons of what came out.
 *
 * A test makes its twins in a set, fills the host side, pushes, launches the kernel on the device
 * side, runs the reference on the host side, pulls, and compares t->host (wanted) with t->back
 * (what the kernel left).  Pulling finds writes outside of the buffer.
 *
 * Tolerances follow from the types.  Reference and kernel round to bf16 at the same places, but sum
 * in another order; where that moves a value across a rounding border the results differ by one
 * unit, 2^-7 of the value at most.  So every value must lie within `stages` such units (as many as
 * there are roundings one after another), and all but 2 % must be equal to the bit.
 */
#ifndef KILN_TEST_TWIN_H
#define KILN_TEST_TWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "tests/support/random.h"

#define TWINS_MAX 16

struct twin {
    const char *what; /* its name in the contract, for messages */
    size_t bytes;
    unsigned char *host, *back;  /* owned; the reference's side, and the device's after a pull */
    unsigned char *raw, *device; /* raw: the allocation with the guards */
};

struct twins {
    struct twin list[TWINS_MAX];
    int count;
    size_t shift; /* bytes that device pointers are off a 256-byte border: 4 where rows shall be
                   * unaligned, which still suits the floats among them */
};

/* A test that cannot get its memory ends the program. */
struct twin *twins_add(struct twins *set, const char *what, size_t bytes);
void twins_push(struct twins *set);
void twins_pull(struct twins *set);
void twins_free(struct twins *set);

/* The side's memory, or NULL for a twin of NULL. */
static inline void *twin_side(const struct twin *t, bool device)
{
    return !t ? NULL : device ? (void *)t->device : (void *)t->host;
}

/* Of `count` values in bf16; filled where there is a `random`. */
struct twin *twins_add_bf16(struct twins *set, const char *what, int64_t count,
                            struct test_random *random, float size);

/* NaN behind the first n of every `pitch` values in bf16, which every sum over them would show. */
void spoil_gaps(struct twin *t, int64_t n, int64_t pitch);

/* `count` values within -size .. size. */
void fill_bf16(struct twin *t, struct test_random *random, float size);
void fill_f32(struct twin *t, struct test_random *random, float size);

/* got within stages * 2^-7 * (|want| + scale), all but 2 % equal; NaN equals NaN. */
void compare_bf16(const struct twin *t, int stages, float scale);
/* Within share * (|want| + scale). */
void compare_f32(const struct twin *t, double share, double scale);
/* Rows of n codes and their scales: the scale within one bf16 unit, values within one step of e4m3
 * and what compare_bf16 allows to the values before, 9 of 10 the same code. */
void compare_e4m3(const struct twin *codes, const struct twin *scales, int64_t n, int stages,
                  float scale);
/* Bytes that may differ by `step` in at most `stray` of the places. */
void compare_bytes(const struct twin *t, int step, double stray);
/* The device's side is as it was pushed. */
void compare_untouched(const struct twin *t);

/* Launches `count` rows of a case from `from` on, on the device side; false where it complained or
 * there is nothing to compare. */
typedef bool launch_rows(const void *test_case, int64_t from, int64_t count);
/* Some of t's rows launched alone, as many as each of the counts, are what they are among all of
 * them; the others stay as they were pushed. */
void compare_company(struct twins *set, const struct twin *t, int64_t row_bytes,
                     const int64_t *counts, size_t count, launch_rows *launch,
                     const void *test_case);

/* --- running ---------------------------------------------------------------------------------- */

/* Counts a failure of the running test, with a sentence. */
void complain(const char *fmt, ...) KILN_PRINTF(1, 2);
/* Complains unless code is 0; returns whether it is. */
bool launched(int code, const struct kiln_error *err);
/* The same of a kernel for compute capability 9.0 alone; others, and the host, have to refuse it.
 */
bool launched_on_hopper(int code, const struct kiln_error *err);
/* Complains unless the launch was refused with this code. */
void refused(int code, int want, const struct kiln_error *err);
/* What the running case is, put in front of its complaints. */
void describe(const char *fmt, ...) KILN_PRINTF(1, 2);

struct kernel_test {
    const char *name;
    void (*run)(void);
};

/* Runs those whose name contains `filter`, one by one, and prints as cmocka does; returns how many
 * failed.  *ran goes up by one for each. */
int run_tests(const struct kernel_test *tests, const char *filter, int *ran);

/* The tests of one file, ended by a NULL name. */
extern const struct kernel_test norm_tests[], row_tests[], head_tests[], picture_tests[],
    latent_tests[], low_rank_down_tests[], low_rank_codes_tests[], gated_product_tests[],
    code_tests[];

#endif
