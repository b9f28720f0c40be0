/* plan.h - the jobs of a file and their estimated cost: --dry-run.
 *
 * GPU time is estimated from the arithmetic of the full model (30 layers of width 3840, a prompt of
 * 128 tokens) at KILN_PLAN_FLOPS, and bytes from the average size of pictures and latents.
 */
#ifndef KILN_ENQUEUE_PLAN_H
#define KILN_ENQUEUE_PLAN_H

#include <jansson.h>
#include <stdint.h>

#include "scheduler/cli/core/cli.h"
#include "schemas/job.h"
#include "storage/formats/card/model_card.h"

#define KILN_PLAN_FLOPS 7e14 /* bf16 on one H200, sustained */
#define KILN_PLAN_GROUPS 256 /* separate groups; the last one counts all others too */

struct kiln_plan_group {
    uint32_t width, height, steps;
    char lora_set[KILN_LORA_SET_MAX], mode[KILN_MODE_MAX];
    uint64_t jobs;
    double gpu_seconds;
};

struct kiln_plan {
    struct kiln_plan_group groups[KILN_PLAN_GROUPS];
    size_t group_count;
    uint64_t jobs;
    double gpu_seconds, bytes;
    double new_gpu_seconds; /* of jobs that the batch does not have yet */
};

/* card: what coarse "auto" means at the job's model; NULL: not known.  A job with LoRAs, whose
 * files are not looked at, counts as exact there, and so does one where the card is not known. */
void kiln_plan_add(struct kiln_plan *plan, const struct kiln_model_card *card,
                   const struct kiln_job *job, bool is_new);
double kiln_plan_gpu_seconds(const struct kiln_model_card *card, const struct kiln_job *job);
double kiln_plan_bytes(const struct kiln_job *job);

/* The table for people, on stdout. */
void kiln_plan_print(const struct kiln_cli *cli, const struct kiln_plan *plan);
json_t *kiln_plan_json(const struct kiln_plan *plan); /* NULL: no memory */

#endif
