/* fusion.c - see fusion.h. */
#include "scheduler/gallery/meaning/fusion.h"

#include <stdlib.h>

#define RANKS 60 /* the published constant: how little the first ranks differ */

struct scored {
    uint64_t job;
    double score;
};

static int by_job(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return (x->job > y->job) - (x->job < y->job);
}

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return -by_job(a, b);
}

uint32_t kiln_fuse(const struct kiln_fusion_list *lists, uint32_t count, uint64_t *jobs)
{
    uint32_t all = 0, different = 0;
    for (uint32_t i = 0; i < count; i++)
        all += lists[i].count;
    struct scored *scored = malloc((all + 1) * sizeof *scored);
    if (!scored)
        return 0;
    all = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t rank = 1; rank <= lists[i].count; rank++)
            scored[all++] =
                (struct scored){lists[i].jobs[rank - 1], lists[i].weight / (RANKS + rank)};
    qsort(scored, all, sizeof *scored, by_job);
    for (uint32_t i = 0; i < all; i++) {
        if (different > 0 && scored[different - 1].job == scored[i].job)
            scored[different - 1].score += scored[i].score;
        else
            scored[different++] = scored[i];
    }
    qsort(scored, different, sizeof *scored, by_score);
    for (uint32_t i = 0; i < different; i++)
        jobs[i] = scored[i].job;
    free(scored);
    return different;
}
