/* parts.h - inside of an index: segments of rows.  index.c changes them, search.c reads them. */
#ifndef KILN_VECTOR_INDEX_PARTS_H
#define KILN_VECTOR_INDEX_PARTS_H

#include <stdatomic.h>
#include <stdint.h>

#include "kernels/vectors/scan.h"
#include "pipeline/embed/index/index.h"
#include "pipeline/embed/index/sketch.h"

#define KILN_SEGMENT_ROWS 65536u
#define KILN_SEGMENT_WORDS (KILN_SEGMENT_ROWS / 64)
#define KILN_SEGMENTS_MAX (KILN_INDEX_ROWS_MAX / KILN_SEGMENT_ROWS)

/* Never moves.  A row's bytes are written before the index' count says that it is there. */
struct kiln_segment {
    uint8_t *rows;      /* [KILN_SEGMENT_ROWS][dims]; start of the mapping that holds all below */
    uint64_t *sketches; /* [KILN_SEGMENT_ROWS / KILN_SKETCH_BLOCK][words][KILN_SKETCH_BLOCK] */
    float *scales;      /* [KILN_SEGMENT_ROWS] */
    _Atomic uint64_t *alive; /* [KILN_SEGMENT_WORDS]: the bit of a row that may be found */
};

struct kiln_vector_index {
    int64_t dims;
    struct kiln_sketcher *sketcher;
    _Atomic uint32_t count;
    struct kiln_segment segments[KILN_SEGMENTS_MAX];
};

#endif
