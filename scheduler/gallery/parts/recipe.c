/* recipe.c - see recipe.h. */
#include "scheduler/gallery/parts/recipe.h"

#include <inttypes.h>

#include "scheduler/gallery/parts/html.h"

bool kiln_gallery_command(const struct kiln_job_row *row, struct kiln_text *out)
{
    const struct kiln_job *job = &row->job;
    struct kiln_mode mode;
    char steps[KILN_MODE_MAX];
    if (!kiln_mode_parse(row->rendered_mode, &mode) || kiln_mode_starts(&mode) || job->model[0])
        return false;
    kiln_text_puts(out, "kiln render --prompt ");
    kiln_shell(out, kiln_job_drawn(job));
    if (job->negative_prompt[0] && job->guidance > 0) {
        kiln_text_puts(out, " --negative ");
        kiln_shell(out, job->negative_prompt);
    }
    kiln_text_printf(out, " --width %u --height %u --steps %u --seed %" PRIu64, job->width,
                     job->height, job->steps, job->seed);
    if (job->guidance > 0) {
        kiln_text_puts(out, " --guidance ");
        kiln_text_double(out, job->guidance);
    }
    if (mode.kind == KILN_MODE_COARSE) {
        kiln_text_printf(out, " --coarse %s", kiln_mode_steps_text(&mode, steps));
        if (mode.sigma != KILN_COARSE_SIGMA) {
            kiln_text_puts(out, " --coarse-sigma ");
            kiln_text_double(out, mode.sigma);
        }
    }
    if (mode.variety > 0) {
        kiln_text_puts(out, " --variety ");
        kiln_text_double(out, mode.variety);
    }
    for (uint32_t i = 0; i < job->lora_count; i++) {
        kiln_text_printf(out, " --lora %s:", job->loras[i].name);
        kiln_text_double(out, job->loras[i].scale);
    }
    kiln_text_printf(out, " --out kiln-%" PRIu64 ".webp", job->id);
    return true;
}
