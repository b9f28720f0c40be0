/* portion.c - see portion.h. */
#include "worker/state/portion.h"

#include <assert.h>
#include <stdlib.h>

#include "schemas/reuse/class.h"

const char *kiln_fallback_name(enum kiln_fallback fallback)
{
    static const char *const names[] = {
        NULL,   "missing",    "damaged",         "unfit",           "odd",
        "away", "unmeasured", KILN_REUSE_UNLIKE, KILN_REUSE_SLOWER,
    };
    return names[fallback];
}

void kiln_start_release(struct kiln_start *start)
{
    free(start->latent);
    for (uint32_t i = 0; i < start->more_count; i++)
        free(start->more[i]);
    free(start->rgb);
    free(start->prompt);
    free(start->mask);
    *start = (struct kiln_start){0};
}

struct kiln_portion *kiln_portion_new(struct kiln_flight *flight)
{
    struct kiln_portion *portion = calloc(1, sizeof *portion);
    if (portion)
        portion->flight = flight;
    return portion;
}

void kiln_portion_free(struct kiln_portion *portion)
{
    if (!portion)
        return;
    for (uint32_t i = 0; i < portion->start_count; i++)
        kiln_start_release(&portion->starts[i]);
    free(portion);
}

struct kiln_portion_job *kiln_portion_add(struct kiln_portion *portion, uint32_t index,
                                          int32_t start)
{
    assert(portion->job_count < KILN_ASSIGN_MAX);
    struct kiln_portion_job *job = &portion->jobs[portion->job_count++];
    *job = (struct kiln_portion_job){.index = index, .start = start};
    return job;
}
