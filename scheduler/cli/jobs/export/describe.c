/* describe.c - see describe.h. */
#include "scheduler/cli/jobs/export/describe.h"

#include <inttypes.h>
#include <stdio.h>

#include "schemas/job/inputs.h"

int kiln_describe_picture(const struct kiln_job_row *row, enum kiln_picture_format format,
                          bool embed, struct kiln_fetch_as *ret, struct kiln_error *err)
{
    const struct kiln_job *job = &row->job;
    char loras[KILN_LORA_SET_MAX], start[KILN_INPUT_KEY_MAX] = "";
    *ret =
        (struct kiln_fetch_as){.converted = embed || format != KILN_PICTURE_WEBP, .format = format};
    if (!embed)
        return 0;
    kiln_lora_set_text(job->loras, job->lora_count, loras, sizeof loras);
    if (job->init_image)
        snprintf(start, sizeof start, "%s", job->init_image);
    else if (job->init_job || kiln_row_reused(row))
        snprintf(start, sizeof start, "job:%" PRIu64,
                 job->init_job ? job->init_job : job->donor.job);
    const struct kiln_webp_about about = {.prompt = kiln_job_drawn(job),
                                          .written = job->drawn ? job->prompt : NULL,
                                          .negative_prompt = job->negative_prompt,
                                          .model = row->model_name,
                                          .lora_set = loras,
                                          .mode = row->rendered_mode,
                                          .start = start,
                                          .mask = job->init_mask,
                                          .parent = job->parent,
                                          .forwards = row->forwards,
                                          .seed = job->seed,
                                          .width = job->width,
                                          .height = job->height,
                                          .steps = job->steps,
                                          .guidance = job->guidance};
    ret->parameters = kiln_picture_parameters(&about, row->model_hash);
    ret->xmp = kiln_webp_xmp_packet(&about);
    if (ret->parameters && ret->xmp)
        return 0;
    kiln_fetch_as_release(ret);
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for the metadata of job %" PRIu64, job->id);
}
