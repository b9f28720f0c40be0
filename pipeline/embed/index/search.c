/* search.c - one search: which rows pass, which of them are compared, which are best.
 *
 * All memory is the searching thread's own and grows with the index.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/index/index.h"
#include "pipeline/embed/index/parts.h"

/* Up to so many rows that pass, and up to that share of all, every one is compared: a row at a
 * random place costs five times as much as its sketch in a row of sketches. */
#define FEW 20000
#define SHARE 0.2
#define STEP 11 /* of so many rows one is counted: a prime, since templates repeat themselves */

struct kiln_vector_search {
    size_t rows;                         /* that there is memory for: whole segments */
    uint64_t *mask;                      /* [rows / 64]: may be found, and let through */
    uint16_t *distances;                 /* [rows] */
    uint32_t picked[KILN_SEGMENT_ROWS];  /* rows of one segment that are compared */
    int32_t products[KILN_SEGMENT_ROWS]; /* of these */
    struct kiln_vector_hit *hits;        /* the caller's, as a heap: the worst is first */
    uint32_t hit_count, hit_most;
};

int kiln_vector_search_new(struct kiln_vector_search **ret, struct kiln_error *err)
{
    *ret = calloc(1, sizeof **ret);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a search of vectors");
}

void kiln_vector_search_free(struct kiln_vector_search *search)
{
    if (!search)
        return;
    free(search->mask), free(search->distances);
    free(search);
}

static uint32_t segments_of(uint32_t rows)
{
    return (rows + KILN_SEGMENT_ROWS - 1) / KILN_SEGMENT_ROWS;
}

static int reserve(struct kiln_vector_search *s, uint32_t rows, struct kiln_error *err)
{
    const size_t needed = (size_t)segments_of(rows) * KILN_SEGMENT_ROWS;
    if (needed <= s->rows)
        return 0;
    uint64_t *mask = malloc(needed / 8);
    uint16_t *distances = malloc(needed * sizeof *distances);
    if (!mask || !distances) {
        free(mask), free(distances);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to search %u vectors", rows);
    }
    free(s->mask), free(s->distances);
    s->mask = mask, s->distances = distances;
    s->rows = needed;
    return 0;
}

/* Which rows pass, as bits; returns how many. */
static uint32_t fill_mask(const struct kiln_vector_index *index, struct kiln_vector_search *s,
                          const struct kiln_vector_query *q, uint32_t rows)
{
    uint32_t passing = 0;
    for (uint32_t word = 0; word * 64 < rows; word++) {
        const struct kiln_segment *segment = &index->segments[word / KILN_SEGMENT_WORDS];
        uint64_t bits =
            atomic_load_explicit(&segment->alive[word % KILN_SEGMENT_WORDS], memory_order_relaxed);
        uint32_t covered = q->mask && q->mask_rows < rows ? q->mask_rows : rows;
        uint32_t left = covered > word * 64 ? covered - word * 64 : 0;
        if (left < 64)
            bits &= (UINT64_C(1) << left) - 1;
        if (q->mask && left > 0)
            bits &= q->mask[word];
        s->mask[word] = bits;
        passing += (uint32_t)__builtin_popcountll(bits);
    }
    return passing;
}

/* Equal scores: the later row is better. */
static bool worse(const struct kiln_vector_hit *a, const struct kiln_vector_hit *b)
{
    return a->score < b->score || (a->score == b->score && a->number < b->number);
}

static void sift_down(struct kiln_vector_hit *heap, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count)
            return;
        child += child + 1 < count && worse(&heap[child + 1], &heap[child]);
        if (!worse(&heap[child], &heap[at]))
            return;
        struct kiln_vector_hit above = heap[at];
        heap[at] = heap[child];
        heap[child] = above;
        at = child;
    }
}

static void offer(struct kiln_vector_search *s, struct kiln_vector_hit hit)
{
    if (s->hit_count == s->hit_most) {
        if (!worse(&s->hits[0], &hit))
            return;
        s->hits[0] = hit;
        sift_down(s->hits, s->hit_count, 0);
        return;
    }
    uint32_t at = s->hit_count++;
    for (; at > 0 && worse(&hit, &s->hits[(at - 1) / 2]); at = (at - 1) / 2)
        s->hits[at] = s->hits[(at - 1) / 2];
    s->hits[at] = hit;
}

/* Compares the `count` picked rows of a segment. */
static void compare(const struct kiln_vector_index *index, struct kiln_vector_search *s,
                    const struct kiln_vector_query *q, uint32_t number, uint32_t count)
{
    const struct kiln_segment *segment = &index->segments[number];
    kiln_scan_picked(segment->rows, s->picked, count, index->dims, q->query, s->products);
    for (uint32_t i = 0; i < count; i++) {
        float score = (float)s->products[i] * (segment->scales[s->picked[i]] * q->scale);
        offer(s, (struct kiln_vector_hit){number * KILN_SEGMENT_ROWS + s->picked[i], score});
    }
}

static uint32_t rows_in(uint32_t segment, uint32_t rows)
{
    uint32_t left = rows - segment * KILN_SEGMENT_ROWS;
    return left < KILN_SEGMENT_ROWS ? left : KILN_SEGMENT_ROWS;
}

static void compare_all(const struct kiln_vector_index *index, struct kiln_vector_search *s,
                        const struct kiln_vector_query *q, uint32_t rows)
{
    for (uint32_t number = 0; number < segments_of(rows); number++) {
        const uint64_t *mask = s->mask + number * KILN_SEGMENT_WORDS;
        uint32_t count = 0, words = (rows_in(number, rows) + 63) / 64;
        for (uint32_t word = 0; word < words; word++)
            for (uint64_t bits = mask[word]; bits; bits &= bits - 1)
                s->picked[count++] = word * 64 + (uint32_t)__builtin_ctzll(bits);
        compare(index, s, q, number, count);
    }
}

/* The distance below which there are about KILN_INDEX_CANDIDATES rows, or all: of `step` rows one
 * is counted. */
static uint16_t find_cut(const struct kiln_vector_search *s, uint32_t rows, uint32_t step)
{
    uint32_t tally[KILN_DISTANCE_MAX + 1] = {0}, below = 0;
    for (uint32_t number = 0; number < segments_of(rows); number++)
        kiln_scan_tally(s->distances + number * KILN_SEGMENT_ROWS,
                        s->mask + number * KILN_SEGMENT_WORDS, rows_in(number, rows), step, tally);
    for (uint16_t distance = 0; distance <= KILN_DISTANCE_MAX; distance++) {
        below += tally[distance];
        if (below * step >= KILN_INDEX_CANDIDATES)
            return (uint16_t)(distance + 1);
    }
    return KILN_DISTANCE_MAX + 1;
}

/* The rows below the cut; returns how many. */
static uint32_t compare_below(const struct kiln_vector_index *index, struct kiln_vector_search *s,
                              const struct kiln_vector_query *q, uint32_t rows, uint16_t cut)
{
    uint32_t compared = 0;
    for (uint32_t number = 0; number < segments_of(rows); number++) {
        uint32_t count = (uint32_t)kiln_scan_below(
            s->distances + number * KILN_SEGMENT_ROWS, s->mask + number * KILN_SEGMENT_WORDS,
            rows_in(number, rows), cut, 0, s->picked, KILN_SEGMENT_ROWS);
        compare(index, s, q, number, count);
        compared += count;
    }
    return compared;
}

/* The rows nearest by their sketches; returns how many. */
static uint32_t compare_nearest(const struct kiln_vector_index *index, struct kiln_vector_search *s,
                                const struct kiln_vector_query *q, uint32_t rows)
{
    uint64_t planes[KILN_SKETCH_PLANES * KILN_SKETCH_WORDS_MAX];
    kiln_sketch_query(index->sketcher, q->query, planes);
    for (uint32_t number = 0; number < segments_of(rows); number++)
        kiln_scan_sketches(index->segments[number].sketches, rows_in(number, rows),
                           kiln_sketch_words(index->sketcher), planes,
                           s->distances + number * KILN_SEGMENT_ROWS);
    const uint32_t compared = compare_below(index, s, q, rows, find_cut(s, rows, STEP));
    if (s->hit_count == s->hit_most)
        return compared;
    s->hit_count = 0; /* the rows that were counted are nearer than most: count all */
    return compare_below(index, s, q, rows, find_cut(s, rows, 1));
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median_of(float *values, uint32_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

/* On rows spread evenly over the index, passing or not. */
static void measure_background(const struct kiln_vector_index *index,
                               const struct kiln_vector_query *q, uint32_t rows,
                               struct kiln_vector_found *ret)
{
    const uint32_t samples = rows < KILN_INDEX_BACKGROUND ? rows : KILN_INDEX_BACKGROUND;
    float scores[KILN_INDEX_BACKGROUND];
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t number = (uint32_t)((uint64_t)i * rows / samples);
        const struct kiln_segment *segment = &index->segments[number / KILN_SEGMENT_ROWS];
        const uint32_t at = number % KILN_SEGMENT_ROWS;
        int32_t product;
        kiln_scan_picked(segment->rows, &at, 1, index->dims, q->query, &product);
        scores[i] = (float)product * (segment->scales[at] * q->scale);
    }
    ret->usual = median_of(scores, samples);
    for (uint32_t i = 0; i < samples; i++)
        scores[i] = fabsf(scores[i] - ret->usual);
    ret->spread = 1.4826f * median_of(scores, samples);
}

/* The heap, best first. */
static void sort_hits(struct kiln_vector_search *s)
{
    for (uint32_t count = s->hit_count; count > 1; count--) {
        struct kiln_vector_hit worst = s->hits[0];
        s->hits[0] = s->hits[count - 1];
        s->hits[count - 1] = worst;
        sift_down(s->hits, count - 1, 0);
    }
}

int kiln_vector_index_search(const struct kiln_vector_index *index,
                             struct kiln_vector_search *search,
                             const struct kiln_vector_query *query, struct kiln_vector_hit *hits,
                             struct kiln_vector_found *ret, struct kiln_error *err)
{
    const uint32_t rows = kiln_vector_index_count(index);
    *ret = (struct kiln_vector_found){0};
    if (query->count < 1 || query->count > KILN_INDEX_COUNT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a search for %u vectors; it finds 1 to %d",
                         query->count, KILN_INDEX_COUNT_MAX);
    if (rows == 0 || !(query->scale > 0))
        return 0;
    if (reserve(search, rows, err) != 0)
        return KILN_NO_MEMORY;
    search->hits = hits, search->hit_count = 0, search->hit_most = query->count;

    ret->compared = fill_mask(index, search, query, rows);
    if (query->exact || ret->compared <= FEW || ret->compared < SHARE * rows)
        compare_all(index, search, query, rows);
    else
        ret->compared = compare_nearest(index, search, query, rows);
    sort_hits(search);
    ret->count = search->hit_count;
    if (!query->hits_only)
        measure_background(index, query, rows, ret);
    return 0;
}
