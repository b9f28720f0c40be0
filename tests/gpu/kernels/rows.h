/* rows.h - results of the kernels over rows of tokens, in the forms that they take: in codes, apart
 * from one another, off 16 bytes. */
#ifndef KILN_TEST_KERNEL_ROWS_H
#define KILN_TEST_KERNEL_ROWS_H

#include <string.h>

#include "kernels/fp8.h"
#include "tests/gpu/kernels/twin.h"

/* One value up to the longest row; around the borders between one chunk a thread and four, between
 * 16-byte rows and others; the widths of the models. */
static const int64_t widths[] = {1,    3,    8,    17,   64,   192,   193,   1024,
                                 1032, 2560, 3840, 3841, 9728, 10240, 16383, 16384};

/* ROOM: behind each row of the last result, for 16-byte rows; ODD_ROOM: and for no others.  LOW:
 * codes that leave larger ones free.  TAILS: of the residual stream. */
enum {
    TAILS = 1,
    ADD = 2,
    NEXT = 4,
    QUANTISED = 8,
    ALONE = 16,
    IN_PLACE = 32,
    UNALIGNED = 64,
    ROOM = 128,
    ODD_ROOM = 256,
    LOW = 512
};

static inline int64_t pitch_of(int64_t n, int form)
{
    return form & ROOM ? n + 64 : form & ODD_ROOM ? n + 3 : 0;
}

static inline float code_max_of(int form)
{
    return form & LOW ? KILN_E4M3_BESIDE_MAX : 0;
}

/* Values of the last result with what is between its rows. */
static inline int64_t all_of(int64_t rows, int64_t n, int form)
{
    const int64_t pitch = pitch_of(n, form);
    return rows * (pitch ? pitch : n);
}

/* A place for the last result; what nobody writes there is far from every result. */
static inline struct twin *add_last(struct twins *set, const char *what, int64_t rows, int64_t n,
                                    int form)
{
    struct twin *t = twins_add_bf16(set, what, all_of(rows, n, form), NULL, 0);
    memset(t->host, 0x55, t->bytes);
    return t;
}

/* The same for its codes. */
static inline struct twin *add_codes(struct twins *set, int64_t rows, int64_t n, int form)
{
    struct twin *t = twins_add(set, "quantised", (size_t)all_of(rows, n, form));
    memset(t->host, 0x55, t->bytes);
    return t;
}

#endif
