/* scan_ref.c - see scan.h.  The loops are bound by memory: a row is read once, with no branch.
 *
 * The products are written twice, because compilers know two instructions for them: one takes
 * bytes of both kinds (VNNI), the other 16-bit numbers.  The sums are equal.
 */
#include "kernels/vectors/scan.h"

#include <stddef.h>

#define TALLIES 4 /* side by side: equal distances in a row would wait for each other's count */
#define AHEAD 8   /* rows that are asked for early, where the next ones may be anywhere */
#define BYTES_AHEAD                                                                                \
    8192 /* of sketches in order: farther than the processor would look by itself, which does not  \
            keep its memory busy: 7.3 ms for a million sketches, 4.0 with it */

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    !defined(__clang__)
#define BYTES __attribute__((target("arch=x86-64-v4,avx512vnni,avx512vpopcntdq")))

static int has_bytes(void)
{
    return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512vpopcntdq");
}
#else
#define BYTES

static int has_bytes(void)
{
    return 0;
}
#endif

struct products {
    const uint8_t *rows;
    const uint32_t *picked; /* NULL: all, in order */
    const int8_t *query;
    const int16_t *wide; /* the query again */
    int64_t count, dims, sum;
    int32_t *ret;
};

KILN_INLINE int32_t of_bytes(const uint8_t *row, const int8_t *query, int64_t dims)
{
    int32_t sum = 0;
    for (int64_t d = 0; d < dims; d++)
        sum += row[d] * query[d];
    return sum;
}

KILN_INLINE int32_t of_words(const uint8_t *row, const int16_t *query, int64_t dims)
{
    int32_t sum = 0;
    for (int64_t d = 0; d < dims; d++)
        sum += (int16_t)row[d] * query[d];
    return sum;
}

KILN_INLINE void multiply(const struct products *p, int bytes)
{
    const int64_t dims = p->dims;
    for (int64_t i = 0; i < p->count; i++) {
        const uint8_t *row = p->rows + (p->picked ? (int64_t)p->picked[i] : i) * dims;
        if (p->picked && i + AHEAD < p->count)
            for (int64_t d = 0; d < dims; d += 64)
                __builtin_prefetch(p->rows + (int64_t)p->picked[i + AHEAD] * dims + d);
        int32_t sum = bytes ? of_bytes(row, p->query, dims) : of_words(row, p->wide, dims);
        p->ret[i] = sum - (int32_t)p->sum;
    }
}

BYTES static void multiply_bytes(const struct products *p)
{
    multiply(p, 1);
}

KILN_CLONES static void multiply_words(const struct products *p)
{
    multiply(p, 0);
}

void kiln_scan_picked(const uint8_t *rows, const uint32_t *picked, int64_t count, int64_t dims,
                      const int8_t *query, int32_t *ret)
{
    int16_t wide[KILN_SCAN_DIMS_MAX];
    struct products p = {rows, picked, query, wide, count, dims, 0, ret};
    for (int64_t d = 0; d < dims; d++) {
        wide[d] = query[d];
        p.sum += 128 * query[d];
    }
    if (has_bytes())
        multiply_bytes(&p);
    else
        multiply_words(&p);
}

void kiln_scan_rows(const uint8_t *rows, int64_t count, int64_t dims, const int8_t *query,
                    int32_t *ret)
{
    kiln_scan_picked(rows, NULL, count, dims, query, ret);
}

KILN_INLINE void compare(const uint64_t *sketches, int64_t count, int words, const uint64_t *query,
                         uint16_t *ret)
{
    const int64_t ahead = BYTES_AHEAD / 8 / words;
    for (int64_t i = 0; i < count; i++) {
        int64_t differ = 0;
        if (i + ahead < count)
            __builtin_prefetch(sketches + (i + ahead) * words);
        for (int w = 0; w < words; w++)
            differ += __builtin_popcountll(sketches[i * words + w] ^ query[w]);
        ret[i] = (uint16_t)differ;
    }
}

/* Sketches, and hashes of half their size, have constants as their size: loops without a branch. */
KILN_INLINE void compare_all(const uint64_t *sketches, int64_t count, int words,
                             const uint64_t *query, uint16_t *ret)
{
    if (words == KILN_SKETCH_WORDS)
        compare(sketches, count, KILN_SKETCH_WORDS, query, ret);
    else if (words == KILN_SKETCH_WORDS / 2)
        compare(sketches, count, KILN_SKETCH_WORDS / 2, query, ret);
    else
        compare(sketches, count, words, query, ret);
}

BYTES static void compare_wide(const uint64_t *sketches, int64_t count, int words,
                               const uint64_t *query, uint16_t *ret)
{
    compare_all(sketches, count, words, query, ret);
}

KILN_CLONES static void compare_words(const uint64_t *sketches, int64_t count, int words,
                                      const uint64_t *query, uint16_t *ret)
{
    compare_all(sketches, count, words, query, ret);
}

void kiln_scan_sketches(const uint64_t *sketches, int64_t count, int words, const uint64_t *query,
                        uint16_t *ret)
{
    if (has_bytes())
        compare_wide(sketches, count, words, query, ret);
    else
        compare_words(sketches, count, words, query, ret);
}

void kiln_scan_tally(const uint16_t *distances, const uint64_t *mask, int64_t count, int64_t step,
                     uint32_t *tally)
{
    uint32_t partial[TALLIES][KILN_SKETCH_BITS + 1] = {{0}};
    for (int64_t i = 0, n = 0; i < count; i += step, n++)
        partial[n % TALLIES][distances[i]] += mask ? (uint32_t)(mask[i / 64] >> (i % 64) & 1) : 1;
    for (int t = 0; t < TALLIES; t++)
        for (int d = 0; d <= KILN_SKETCH_BITS; d++)
            tally[d] += partial[t][d];
}

/* Whether any of 64 rows is below.  Most blocks have none, so this has no branch. */
KILN_CLONES static int any_below(const uint16_t *distances, uint16_t below)
{
    uint16_t any = 0;
    for (int i = 0; i < 64; i++)
        any |= distances[i] < below;
    return any;
}

int64_t kiln_scan_below(const uint16_t *distances, const uint64_t *mask, int64_t count,
                        uint16_t below, uint32_t first, uint32_t *ret, int64_t most)
{
    int64_t found = 0;
    for (int64_t begin = 0; begin < count && found < most; begin += 64) {
        const int64_t end = begin + 64 < count ? begin + 64 : count;
        if (end - begin == 64 && !any_below(distances + begin, below))
            continue;
        for (int64_t i = begin; i < end && found < most; i++) {
            ret[found] = first + (uint32_t)i;
            found += distances[i] < below && (!mask || (mask[i / 64] >> (i % 64) & 1));
        }
    }
    return found;
}
