/* recall.h - how much the search by vectors loses against the exact order, and what it saves. */
#ifndef KILN_BENCH_GALLERY_RECALL_H
#define KILN_BENCH_GALLERY_RECALL_H

#include "scheduler/bench/gallery/times.h"
#include "scheduler/bench/gallery/words.h"
#include "schemas/config/config.h"

struct kiln_bench_recall {
    uint32_t prompts, dims;
    double at_10;                        /* of the ten best by exact cosines, the share found */
    struct kiln_bench_times scan, exact; /* of a search; exact: fp32, every row; one thread */
};

/* All prompts of the ledger, embedded here: as the gallery's index and as plain fp32. */
int kiln_bench_recall(const struct kiln_config *config, const char *embedder,
                      const struct kiln_bench_words *words, uint32_t queries,
                      struct kiln_bench_recall *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_bench_recall_release(struct kiln_bench_recall *recall);

#endif
