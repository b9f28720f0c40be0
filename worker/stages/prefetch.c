/* prefetch.c - see prefetch.h.  The engine prepares one LoRA set at a time, the last one asked for.
 * So it is asked for the next assignment alone: by the listener if that has just arrived, or by the
 * compute thread when it begins the one before.
 */
#include "worker/stages/prefetch.h"

#include <stdlib.h>

#include "worker/engine/batch_steps.h"
#include "worker/stages/lora_files.h"

struct next {
    struct kiln_lora_paths loras;
    struct kiln_batch_steps steps;
    DiffusionZItem items[KILN_ASSIGN_MAX];
};

/* One batch stands for all calls of the assignment: only its prompts and LoRAs matter. */
void kiln_worker_prefetch(struct kiln_worker *worker, const struct kiln_flight *flight)
{
    const struct kiln_assignment *assignment = &flight->assignment;
    struct kiln_renderer *engine = worker->engine;
    struct next *next = engine->prefetch ? calloc(1, sizeof *next) : NULL;
    if (!next)
        return;
    kiln_lora_paths_fill(&next->loras, worker->config, flight);
    DiffusionZBatch batch = {.items = next->items,
                             .item_count = (int32_t)assignment->job_count,
                             .width = (int32_t)assignment->width,
                             .height = (int32_t)assignment->height,
                             .num_steps = (int32_t)assignment->steps,
                             .loras = next->loras.loras,
                             .lora_count = next->loras.count};
    for (uint32_t i = 0; i < assignment->job_count; i++) {
        const struct kiln_job *job = &assignment->jobs[i];
        next->items[i].prompt = kiln_job_drawn(job);
        next->items[i].negative_prompt = job->negative_prompt;
        if (job->guidance > (double)batch.guidance_scale)
            batch.guidance_scale = (float)job->guidance;
    }
    struct kiln_error later; /* is reported when the batch begins */
    if (kiln_batch_set_steps(&batch, &engine->card, engine->model_dir, &next->steps, &later) == 0)
        engine->prefetch(engine, &batch);
    free(next);
}
