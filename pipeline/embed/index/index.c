/* index.c - rows are added and removed; see index.h. */
#include "pipeline/embed/index/index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pipeline/embed/index/parts.h"

static size_t bytes_of(const struct kiln_vector_index *index)
{
    const size_t sketch = (size_t)kiln_sketch_words(index->sketcher) * sizeof(uint64_t);
    const size_t row = (size_t)index->dims + sketch + sizeof(float);
    return KILN_SEGMENT_ROWS * row + KILN_SEGMENT_WORDS * sizeof(uint64_t);
}

int kiln_vector_index_new(int64_t dims, struct kiln_vector_index **ret, struct kiln_error *err)
{
    struct kiln_vector_index *index = calloc(1, sizeof *index);
    if (!index)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an index of vectors");
    index->dims = dims;
    int rc = kiln_sketcher_new(dims, &index->sketcher, err);
    if (rc)
        free(index);
    else
        *ret = index;
    return rc;
}

void kiln_vector_index_free(struct kiln_vector_index *index)
{
    if (!index)
        return;
    for (uint32_t i = 0; i < KILN_SEGMENTS_MAX && index->segments[i].rows; i++)
        munmap(index->segments[i].rows, bytes_of(index));
    kiln_sketcher_free(index->sketcher);
    free(index);
}

/* Memory comes zeroed, and in huge pages where the kernel has them: a scan touches all of it. */
static int open_segment(struct kiln_vector_index *index, struct kiln_segment *segment,
                        struct kiln_error *err)
{
    const size_t bytes = bytes_of(index);
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %u more vectors", KILN_SEGMENT_ROWS);
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    segment->rows = at;
    at += KILN_SEGMENT_ROWS * (size_t)index->dims;
    segment->sketches = (uint64_t *)(void *)at;
    at += KILN_SEGMENT_ROWS * (size_t)kiln_sketch_words(index->sketcher) * sizeof(uint64_t);
    segment->alive = (_Atomic uint64_t *)(void *)at;
    at += KILN_SEGMENT_WORDS * sizeof(uint64_t);
    segment->scales = (float *)(void *)at;
    return 0;
}

static void put_sketch(const struct kiln_vector_index *index, struct kiln_segment *segment,
                       uint32_t at, const uint8_t *row)
{
    const int words = kiln_sketch_words(index->sketcher);
    uint64_t sketch[KILN_SKETCH_WORDS_MAX];
    kiln_sketch_row(index->sketcher, row, sketch);
    uint64_t *block =
        segment->sketches + at / KILN_SKETCH_BLOCK * (size_t)words * KILN_SKETCH_BLOCK;
    for (int word = 0; word < words; word++)
        block[word * KILN_SKETCH_BLOCK + (int)(at % KILN_SKETCH_BLOCK)] = sketch[word];
}

int kiln_vector_index_add(struct kiln_vector_index *index, const uint8_t *row, float scale,
                          uint32_t *ret, struct kiln_error *err)
{
    const uint32_t number = atomic_load_explicit(&index->count, memory_order_relaxed);
    if (number >= KILN_INDEX_ROWS_MAX)
        return kiln_fail(err, KILN_FULL, "an index holds at most %u vectors", KILN_INDEX_ROWS_MAX);
    struct kiln_segment *segment = &index->segments[number / KILN_SEGMENT_ROWS];
    const uint32_t at = number % KILN_SEGMENT_ROWS;
    if (!segment->rows && open_segment(index, segment, err) != 0)
        return KILN_NO_MEMORY;
    memcpy(segment->rows + at * (size_t)index->dims, row, (size_t)index->dims);
    put_sketch(index, segment, at, row);
    segment->scales[at] = scale;
    if (scale > 0 && scale <= 1) /* without evidence, or damaged, it is never found */
        atomic_fetch_or_explicit(&segment->alive[at / 64], UINT64_C(1) << (at % 64),
                                 memory_order_relaxed);
    atomic_store_explicit(&index->count, number + 1, memory_order_release);
    *ret = number;
    return 0;
}

void kiln_vector_index_remove(struct kiln_vector_index *index, uint32_t number)
{
    if (number >= kiln_vector_index_count(index))
        return;
    const uint32_t at = number % KILN_SEGMENT_ROWS;
    atomic_fetch_and_explicit(&index->segments[number / KILN_SEGMENT_ROWS].alive[at / 64],
                              ~(UINT64_C(1) << (at % 64)), memory_order_relaxed);
}

bool kiln_vector_index_query(const struct kiln_vector_index *index, uint32_t number, int8_t *query,
                             float *scale)
{
    if (number >= kiln_vector_index_count(index))
        return false;
    const struct kiln_segment *segment = &index->segments[number / KILN_SEGMENT_ROWS];
    const uint32_t at = number % KILN_SEGMENT_ROWS;
    const uint8_t *row = segment->rows + at * (size_t)index->dims;
    if (!(atomic_load_explicit(&segment->alive[at / 64], memory_order_relaxed) >> (at % 64) & 1))
        return false;
    for (int64_t d = 0; d < index->dims; d++)
        query[d] = (int8_t)(row[d] - 128);
    *scale = segment->scales[at];
    return true;
}

uint32_t kiln_vector_index_count(const struct kiln_vector_index *index)
{
    return atomic_load_explicit(&index->count, memory_order_acquire);
}
