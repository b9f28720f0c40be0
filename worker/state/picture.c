/* picture.c - making, weighing and ending the record of one job in the worker.
 *
 * Weights are computed from sizes, not measured: the allocator's overhead is small beside megabytes
 * of pixels, and a weight must be equal when the item enters and leaves a queue.
 */
#include "worker/state/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/text/utf8.h"

struct kiln_picture *kiln_picture_new(struct kiln_flight *flight, uint32_t index)
{
    struct kiln_picture *picture = calloc(1, sizeof *picture);
    if (!picture)
        return NULL;
    picture->flight = flight;
    picture->index = index;
    picture->job = &flight->assignment.jobs[index];
    picture->steps = picture->job->steps; /* until a call says otherwise */
    return picture;
}

void kiln_picture_free(struct kiln_picture *picture)
{
    if (!picture)
        return;
    for (uint32_t i = 0; i < picture->object_count; i++)
        free(picture->objects[i].data);
    free(picture);
}

size_t kiln_picture_weight(const struct kiln_picture *picture)
{
    const struct kiln_job *job = picture->job;
    size_t pixels = (size_t)job->width * job->height, values = pixels / 64 * 16;
    size_t longest = job->width > job->height ? job->width : job->height;
    size_t weight = sizeof *picture;
    for (uint32_t i = 0; i < picture->object_count; i++)
        weight += picture->objects[i].size;
    if (picture->output.rgb)
        weight += pixels * 3;
    for (int i = 0; i < KILN_PICTURE_SMALLER; i++) {
        size_t side = kiln_stored_sizes[i + 1].longest;
        if (picture->output.smaller[i])
            weight += pixels * 3 * side / longest * side / longest;
    }
    if (picture->output.latent)
        weight += values * sizeof(float);
    if (picture->output.trajectory)
        weight += values * sizeof(float) * picture->steps;
    return weight;
}

void kiln_picture_fail(struct kiln_picture *picture, int code, const char *reason)
{
    picture->outcome = KILN_OUTCOME_RETURN;
    picture->code = code;
    picture->final = !kiln_code_retryable(code); /* a bad LoRA file fails on every worker */
    kiln_utf8_copy(picture->reason, sizeof picture->reason, reason);
}

void kiln_picture_stop(struct kiln_picture *picture, enum kiln_stop why)
{
    if (why == KILN_STOP_DRAINED || why == KILN_STOP_REFUSED) {
        picture->outcome = KILN_OUTCOME_RETURN;
        picture->code = KILN_OK; /* returned unused: the attempt does not count */
        picture->final = false;
        snprintf(picture->reason, sizeof picture->reason, "%s",
                 why == KILN_STOP_DRAINED ? "the worker is ending"
                                          : "the store refuses the pictures of this worker");
    } else {
        picture->outcome = KILN_OUTCOME_GONE;
        picture->code = why == KILN_STOP_CANCELLED ? KILN_CANCELLED : KILN_STALE;
    }
}
