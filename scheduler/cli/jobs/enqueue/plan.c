/* plan.c - adds up jobs by group and estimates what they cost.
 *
 * It counts the matrix products of the transformer and the decoder, which take nearly all the time:
 * the linear layers of a block for each token, its attention for each pair of tokens.  An image
 * token is 16 x 16 pixels.  The refiners run on image and prompt separately, before the joint
 * layers.  Steps at a smaller size count less, and a start saves the steps before it
 * (kiln_mode_forwards).  Guidance above 0 adds a second forward pass a step, for the negative
 * prompt.
 */
#include "scheduler/cli/jobs/enqueue/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"

#define BLOCK_WEIGHTS 176962816.0 /* one transformer block without modulation */
#define MODEL_WIDTH 3840.0
#define LAYERS 30.0
#define REFINERS 2.0
#define CAPTION_TOKENS 128.0

/* Of the full size. */
static double forwards(const struct kiln_model_card *card, const struct kiln_job *job)
{
    const struct kiln_mode mode = card ? kiln_model_card_mode_of(card, job) : job->mode;
    return kiln_mode_forwards(&mode, job->steps);
}

double kiln_plan_gpu_seconds(const struct kiln_model_card *card, const struct kiln_job *job)
{
    double pixels = (double)job->width * job->height;
    double image = pixels / 256, tokens = image + CAPTION_TOKENS;
    double linear = 2 * BLOCK_WEIGHTS, pair = 4 * MODEL_WIDTH; /* of a token, of a pair of them */
    double forward = LAYERS * (linear * tokens + pair * tokens * tokens) +
                     REFINERS * (linear * image + pair * image * image) +
                     REFINERS * linear * CAPTION_TOKENS;
    double flop = forwards(card, job) * (job->guidance > 0 ? 2.0 : 1.0) * forward;
    /* The decoder: convolutions by the pixel, and one attention over the latent's pixels. */
    if (job->kind == KILN_KIND_IMAGE)
        flop += 9.46e6 * pixels + 4 * 512.0 * (pixels / 64) * (pixels / 64);
    return flop / KILN_PLAN_FLOPS;
}

double kiln_plan_bytes(const struct kiln_job *job)
{
    double pixels = (double)job->width * job->height, bytes = 0;
    double states = job->latents == KILN_LATENTS_NONE         ? 0
                    : job->latents == KILN_LATENTS_TRAJECTORY ? job->steps + 1.0
                                                              : 1;
    bytes += states * pixels / 64 * 16 * 2 / 1.5; /* 16 channels of bf16, compressed */
    if (job->kind == KILN_KIND_IMAGE)
        bytes += 0.2 * pixels + 60e3; /* WebP at quality 85, and its two smaller sizes */
    return bytes;
}

void kiln_plan_add(struct kiln_plan *plan, const struct kiln_model_card *card,
                   const struct kiln_job *job, bool is_new)
{
    char lora_set[KILN_LORA_SET_MAX], mode[KILN_MODE_MAX];
    kiln_mode_text(&job->mode, mode);
    kiln_lora_set_text(job->loras, job->lora_count, lora_set, sizeof lora_set);
    size_t at = 0;
    for (; at < plan->group_count; at++) {
        const struct kiln_plan_group *group = &plan->groups[at];
        if (group->width == job->width && group->height == job->height &&
            group->steps == job->steps && strcmp(group->lora_set, lora_set) == 0 &&
            strcmp(group->mode, mode) == 0)
            break;
    }
    if (at == KILN_PLAN_GROUPS)
        at--; /* the last row counts all other groups too */
    struct kiln_plan_group *group = &plan->groups[at];
    if (at == plan->group_count) {
        *group = (struct kiln_plan_group){
            .width = job->width, .height = job->height, .steps = job->steps};
        memcpy(group->lora_set, lora_set, sizeof lora_set);
        memcpy(group->mode, mode, sizeof mode);
        plan->group_count++;
    }
    double seconds = kiln_plan_gpu_seconds(card, job);
    group->jobs++;
    group->gpu_seconds += seconds;
    plan->jobs++;
    plan->gpu_seconds += seconds;
    plan->new_gpu_seconds += is_new ? seconds : 0;
    plan->bytes += kiln_plan_bytes(job);
}

void kiln_plan_print(const struct kiln_cli *cli, const struct kiln_plan *plan)
{
    printf("%9s  %-11s %5s  %-12s %-24s %s\n", "jobs", "size", "steps", "mode", "LoRAs",
           "GPU time");
    for (size_t i = 0; i < plan->group_count; i++) {
        const struct kiln_plan_group *group = &plan->groups[i];
        char size[24];
        snprintf(size, sizeof size, "%ux%u", group->width, group->height);
        printf("%9" PRIu64 "  %-11s %5u  %-12s %-24s %s\n", group->jobs, size, group->steps,
               kiln_mode_shown(group->mode), group->lora_set[0] ? group->lora_set : "-",
               KILN_SECONDS(group->gpu_seconds));
    }
    kiln_print_fit(cli, 11,
                   "%9" PRIu64
                   "  in total: about %s on one GPU with %.0f TFLOP/s (the full model in bf16), %s "
                   "in the store",
                   plan->jobs, KILN_SECONDS(plan->gpu_seconds), KILN_PLAN_FLOPS / 1e12,
                   KILN_BYTES(plan->bytes));
}

json_t *kiln_plan_json(const struct kiln_plan *plan)
{
    json_t *groups = json_array();
    for (size_t i = 0; i < plan->group_count; i++) {
        const struct kiln_plan_group *group = &plan->groups[i];
        json_array_append_new(groups, json_pack("{s:I, s:i, s:i, s:i, s:s, s:s, s:f}", "jobs",
                                                (json_int_t)group->jobs, "width", (int)group->width,
                                                "height", (int)group->height, "steps",
                                                (int)group->steps, "lora_set", group->lora_set,
                                                "mode", kiln_mode_shown(group->mode), "gpu_seconds",
                                                group->gpu_seconds));
    }
    return json_pack("{s:I, s:f, s:f, s:f, s:o}", "jobs", (json_int_t)plan->jobs, "gpu_seconds",
                     plan->gpu_seconds, "bytes", plan->bytes, "flops", KILN_PLAN_FLOPS, "groups",
                     groups);
}
