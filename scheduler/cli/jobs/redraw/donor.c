/* donor.c - see donor.h. */
#include "scheduler/cli/jobs/redraw/donor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/coarse.h"
#include "schemas/job/line.h"
#include "schemas/job/sizes.h"
#include "schemas/names.h"

/* --- sizes ------------------------------------------------------------------------------------ */

static uint32_t scaled(uint32_t side, double factor)
{
    return (uint32_t)floor(side * factor / KILN_SIDE_STEP + 0.5) * KILN_SIDE_STEP;
}

int kiln_redraw_size(const char *text, uint32_t own, uint32_t width, uint32_t height,
                     uint32_t *ret_width, uint32_t *ret_height, struct kiln_error *err)
{
    char *end;
    const double factor = strtod(text, &end);
    if (end == text || strspn(text, "0123456789.") != (size_t)(end - text) || strcmp(end, "x") != 0)
        return kiln_size_parse(text, strlen(text), own, ret_width, ret_height, err);
    if (!(factor >= 1 && factor <= KILN_START_ENLARGE_MAX))
        return kiln_fail(err, KILN_BAD_INPUT, "size \"%.32s\": a latent is enlarged from 1x to %dx",
                         text, KILN_START_ENLARGE_MAX);
    const uint32_t to[2] = {scaled(width, factor), scaled(height, factor)};
    if (to[0] > KILN_SIDE_MAX || to[1] > KILN_SIDE_MAX)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%.32s of %ux%u is %ux%u; a side has at most %d pixels", text, width,
                         height, to[0], to[1], KILN_SIDE_MAX);
    *ret_width = to[0];
    *ret_height = to[1];
    return 0;
}

static int take_size(const struct kiln_redraw_want *want, struct kiln_job *job,
                     struct kiln_error *err)
{
    const struct kiln_picture_size from = {job->width, job->height};
    if (!want->size)
        return 0;
    int code = kiln_redraw_size(want->size, want->own, from.width, from.height, &job->width,
                                &job->height, err);
    if (code)
        return code;
    const struct kiln_picture_size to = {job->width, job->height};
    if (to.width == from.width && to.height == from.height && want->depth.enlarges &&
        !want->count && !want->depth.edits)
        return kiln_fail(err, KILN_BAD_INPUT, "it has %ux%u already", to.width, to.height);
    if (!kiln_start_fits(from, to))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "its latent is of %ux%u, and --size asks for %ux%u; a latent is enlarged "
                         "up to %d times, and keeps its shape",
                         from.width, from.height, to.width, to.height, KILN_START_ENLARGE_MAX);
    return 0;
}

/* --- whether it can be redrawn ------------------------------------------------------------------
 */

static int check_donor(const struct kiln_job *job, const struct kiln_latent_row *latent,
                       const char *current_hash, struct kiln_error *err)
{
    if (job->state != KILN_JOB_DONE)
        return kiln_fail(err, KILN_BAD_INPUT, "it is %s; only a finished job can be redrawn",
                         kiln_job_state_name(job->state));
    if (!latent->key[0])
        return kiln_fail(err, KILN_BAD_INPUT,
                         job->latents == KILN_LATENTS_NONE
                             ? "it was rendered with latents \"none\": there is no latent to start "
                               "from"
                             : "its latent is no longer stored");
    if (latent->sigma != 0)
        return kiln_fail(err, KILN_BAD_INPUT, "its stored latent ends at sigma %g, unfinished",
                         latent->sigma);
    if (current_hash[0] && !kiln_latent_of_model(latent, current_hash))
        return kiln_fail(
            err, KILN_BAD_INPUT,
            "its latent is of a model with other weights (%.12s) than the pool renders "
            "with now (%.12s)",
            latent->model_hash, current_hash);
    return 0;
}

/* --- the line -----------------------------------------------------------------------------------
 */

/* The negative prompt without the words that the style added: they come again with the style. */
static int plain_negative(const struct kiln_style *style, const char *negative, char **ret,
                          struct kiln_error *err)
{
    size_t len = strlen(negative);
    const size_t words = style ? strlen(style->negative) : 0;
    if (words && len >= words && strcmp(negative + len - words, style->negative) == 0) {
        len -= words;
        if (len >= 2 && memcmp(negative + len - 2, ", ", 2) == 0)
            len -= 2;
    }
    *ret = strndup(negative, len);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
}

/* Appends what one written line cannot say: a style whose words are yet to come, and several
 * seeds. */
static void add_rest(const struct kiln_redraw_want *want, const struct kiln_job *job,
                     const char *style, struct kiln_text *out)
{
    out->len--; /* the closing brace */
    if (style) {
        kiln_text_puts(out, ",\"style\":");
        kiln_text_json_least(out, style, strlen(style));
    }
    if (!want->seed_set) {
        const uint64_t last = UINT64_MAX - want->count;
        kiln_text_puts(out, ",\"seed\":");
        kiln_text_u64(out, !want->count        ? job->seed
                           : job->seed <= last ? job->seed + 1
                                               : job->seed - want->count);
    }
    if (want->count > 1)
        kiln_text_printf(out, ",\"count\":%u", want->count);
    kiln_text_puts(out, "}\n");
}

bool kiln_redraw_differs(const struct kiln_redraw_want *want, const struct kiln_job_row *donor)
{
    uint32_t width = donor->job.width, height = donor->job.height;
    struct kiln_error unfit; /* is reported with the line */
    const bool exact = donor->forwards > 0 && donor->rendered_mode[0] == '\0';
    if (want->size &&
        kiln_redraw_size(want->size, want->own, width, height, &width, &height, &unfit))
        return false;
    return want->reprompted && !want->plain && !want->count && !want->seed_set && exact &&
           width == donor->job.width && height == donor->job.height;
}

int kiln_redraw_line(const struct kiln_redraw_want *want, const struct kiln_job_row *donor,
                     const struct kiln_latent_row *latent, const char *current_hash,
                     struct kiln_text *out, struct kiln_error *err)
{
    struct kiln_job job = donor->job; /* its texts are the donor's */
    const char *style = want->reprompted && !want->restyled ? job.style : NULL;
    const struct kiln_style *known =
        job.style ? kiln_styles_find(want->styles, job.style, strlen(job.style)) : NULL;
    static char usual_tenant[] = "default", nothing[] = "";
    char *negative = NULL;
    int code = check_donor(&job, latent, current_hash, err);
    if (!code && style && !known)
        code = kiln_fail(err, KILN_BAD_INPUT,
                         "its style \"%s\" is not known here; add --set style=none, or another",
                         style);
    struct kiln_depth_want depth = want->depth;
    depth.differs = kiln_redraw_differs(want, donor);
    if (!code)
        code = kiln_depth(&depth, &donor->job, &job.mode, &job.steps, err);
    code = code ? code : take_size(want, &job, err);
    if (!code && want->reprompted)
        code = plain_negative(known, job.negative_prompt, &negative, err);
    if (code)
        return code;
    const uint64_t id = job.id;
    job.init_job = kiln_mode_starts(&job.mode) ? id : 0;
    job.mode.edited = job.init_job && depth.differs;
    job.parent = id;
    job.init_image = job.init_mask = job.custom_id = NULL;
    job.kind = KILN_KIND_IMAGE;
    job.latents = KILN_LATENTS_FINAL;
    job.sigma_count = job.max_wait_s = 0;
    job.priority = 0;
    job.teleport_said = job.coarse_said = false;
    job.alike = 0;
    if (kiln_name_reserved(job.tenant)) /* of a backfill, or the latent cache */
        job.tenant = usual_tenant;
    const size_t added = kiln_job_added(&job);
    const char *words = job.drawn; /* triggers in front of either prompt */
    job.drawn = NULL;
    if (want->reprompted) { /* the prompt of the command line comes over this one, with its style */
        job.prompt = nothing;
        job.negative_prompt = negative;
        job.style = NULL;
    }
    if (kiln_job_draw(&job, words, added))
        kiln_job_line_write(&job, false, out);
    else
        out->failed = true;
    free(job.drawn);
    add_rest(want, &job, style, out);
    free(negative);
    return out->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for job lines") : 0;
}
