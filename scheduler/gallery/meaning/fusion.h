/* fusion.h - two ranked lists of pictures become one.
 *
 * Reciprocal rank fusion (Cormack, Clarke, Buettcher, SIGIR 2009): a picture scores the sum of
 * w / (60 + its rank) over the lists that have it, ranks from 1.  Ranks can be added where scores
 * of different kinds cannot.
 */
#ifndef KILN_GALLERY_FUSION_H
#define KILN_GALLERY_FUSION_H

#include <stdint.h>

#define KILN_FUSION_LIST_MAX 1000

struct kiln_fusion_list {
    const uint64_t *jobs; /* best first, each once */
    uint32_t count;       /* at most KILN_FUSION_LIST_MAX */
    double weight;
};

/* Writes the union of the lists, best first; of equals the larger job first.  jobs: room for the
 * sum of the counts.  Returns how many; 0 also without memory. */
uint32_t kiln_fuse(const struct kiln_fusion_list *lists, uint32_t count, uint64_t *jobs);

#endif
