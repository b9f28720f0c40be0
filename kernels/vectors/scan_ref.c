/* scan_ref.c - see scan.h.  The loops are bound by memory: a row is read once, with no branch.
 *
 * The products are written twice, because compilers know two instructions for them: one takes
 * bytes of both kinds (VNNI), the other 16-bit numbers.  The sums are equal.
 */
#include "kernels/vectors/scan.h"

#include <stddef.h>

#define AHEAD 8 /* rows that are asked for early, where the next ones may be anywhere */
/* Of sketches and hashes in order: farther than the processor would look by itself, which does not
 * keep its memory busy: a million of 64 bytes took 7.3 ms, 4.0 with it. */
#define BYTES_AHEAD 8192
#define LINE 64

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
    for (int64_t d = 0; d < dims; d++)
        p.sum += 128 * query[d];
    if (has_bytes()) {
        multiply_bytes(&p);
        return;
    }
    for (int64_t d = 0; d < dims; d++)
        wide[d] = query[d];
    multiply_words(&p);
}

void kiln_scan_rows(const uint8_t *rows, int64_t count, int64_t dims, const int8_t *query,
                    int32_t *ret)
{
    kiln_scan_picked(rows, NULL, count, dims, query, ret);
}

/* Defines a scan of bits for the instructions that this processor has.  Its loops are in
 * NAME_any, which both compilations take in. */
#define FOR_PROCESSORS(NAME)                                                                       \
    BYTES static void NAME##_wide(const uint64_t *bits, int64_t count, int words,                  \
                                  const uint64_t *query, uint16_t *ret)                            \
    {                                                                                              \
        NAME##_any(bits, count, words, query, ret);                                                \
    }                                                                                              \
    KILN_CLONES static void NAME##_words(const uint64_t *bits, int64_t count, int words,           \
                                         const uint64_t *query, uint16_t *ret)                     \
    {                                                                                              \
        NAME##_any(bits, count, words, query, ret);                                                \
    }                                                                                              \
    void NAME(const uint64_t *bits, int64_t count, int words, const uint64_t *query,               \
              uint16_t *ret)                                                                       \
    {                                                                                              \
        if (has_bytes())                                                                           \
            NAME##_wide(bits, count, words, query, ret);                                           \
        else                                                                                       \
            NAME##_words(bits, count, words, query, ret);                                          \
    }

/* The first `lanes` sketches of a block, word by word, so that each has a lane of its own. */
KILN_INLINE void compare_block(const uint64_t *block, int lanes, int words, const uint64_t *planes,
                               uint16_t *ret)
{
    uint64_t differ[KILN_SKETCH_BLOCK] = {0};
    for (int w = 0; w < words; w++)
        for (int p = 0; p < KILN_SKETCH_PLANES; p++)
            for (int i = 0; i < lanes; i++)
                differ[i] += (uint64_t)__builtin_popcountll(block[w * KILN_SKETCH_BLOCK + i] ^
                                                            planes[p * words + w])
                             << p;
    for (int i = 0; i < lanes; i++)
        ret[i] = (uint16_t)differ[i];
}

/* Of the last block only what is asked for is read: another thread may be adding the rest. */
KILN_INLINE void compare_blocks(const uint64_t *sketches, int64_t count, int words,
                                const uint64_t *planes, uint16_t *ret)
{
    const int64_t size = (int64_t)words * KILN_SKETCH_BLOCK;
    int64_t begin = 0;
    for (; begin + KILN_SKETCH_BLOCK <= count; begin += KILN_SKETCH_BLOCK, sketches += size) {
        if ((count - begin) * words > size + BYTES_AHEAD / 8)
            for (int64_t at = 0; at < size; at += LINE / 8)
                __builtin_prefetch(sketches + BYTES_AHEAD / 8 + at);
        compare_block(sketches, KILN_SKETCH_BLOCK, words, planes, ret + begin);
    }
    compare_block(sketches, (int)(count - begin), words, planes, ret + begin);
}

/* The numbers of words that embedders of 192, 256 and 384 values have, and the most, are constants:
 * loops without a branch. */
KILN_INLINE void kiln_scan_sketches_any(const uint64_t *sketches, int64_t count, int words,
                                        const uint64_t *planes, uint16_t *ret)
{
    if (words == 3)
        compare_blocks(sketches, count, 3, planes, ret);
    else if (words == 4)
        compare_blocks(sketches, count, 4, planes, ret);
    else if (words == 6)
        compare_blocks(sketches, count, 6, planes, ret);
    else if (words == KILN_SKETCH_WORDS_MAX)
        compare_blocks(sketches, count, KILN_SKETCH_WORDS_MAX, planes, ret);
    else
        compare_blocks(sketches, count, words, planes, ret);
}

FOR_PROCESSORS(kiln_scan_sketches)

KILN_INLINE void count_bits(const uint64_t *hashes, int64_t count, int words, const uint64_t *query,
                            uint16_t *ret)
{
    const int64_t ahead = BYTES_AHEAD / 8 / words;
    for (int64_t i = 0; i < count; i++) {
        int64_t differ = 0;
        if (i + ahead < count)
            __builtin_prefetch(hashes + (i + ahead) * words);
        for (int w = 0; w < words; w++)
            differ += __builtin_popcountll(hashes[i * words + w] ^ query[w]);
        ret[i] = (uint16_t)differ;
    }
}

/* The words of a PDQ hash are a constant: a loop without a branch. */
KILN_INLINE void kiln_scan_hashes_any(const uint64_t *hashes, int64_t count, int words,
                                      const uint64_t *query, uint16_t *ret)
{
    if (words == 4)
        count_bits(hashes, count, 4, query, ret);
    else
        count_bits(hashes, count, words, query, ret);
}

FOR_PROCESSORS(kiln_scan_hashes)

void kiln_scan_tally(const uint16_t *distances, const uint64_t *mask, int64_t count, int64_t step,
                     uint32_t *tally)
{
    for (int64_t i = 0; i < count; i += step)
        tally[distances[i]] += mask ? (uint32_t)(mask[i / 64] >> (i % 64) & 1) : 1;
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
