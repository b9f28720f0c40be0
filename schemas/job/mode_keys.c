/* mode_keys.c - the keys of a job line that say how its picture comes about, as one mode,
 * and which job it was made from.
 *
 * What the line says must fit the job.  What the setting `coarse` says is a wish for all jobs:
 * where it does not fit, the run is exact.  So is "auto", which means "where it helps".
 */
#include <string.h>

#include "schemas/job/coarse.h"
#include "schemas/job/draft.h"
#include "schemas/job/inputs.h"

/* A sentence that says why the job cannot be rendered coarse first in this mode, or 0. */
static int check_coarse(const struct kiln_job *job, const struct kiln_mode *mode,
                        struct kiln_error *err)
{
    const uint32_t side = job->width < job->height ? job->width : job->height;
    if (job->latents == KILN_LATENTS_TRAJECTORY)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "coarse and latents \"trajectory\" are both given; the states of a "
                         "trajectory are of one size");
    if (side < 2 * KILN_SIDE_MIN)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "coarse: %ux%u is too small; both sides must be at least %d", job->width,
                         job->height, 2 * KILN_SIDE_MIN);
    return kiln_coarse_check("coarse", mode, (struct kiln_picture_size){job->width, job->height},
                             job->steps, err);
}

/* The value of "coarse" and "coarse_sigma". */
static int read_coarse(const struct kiln_draft *draft, struct kiln_mode *ret,
                       struct kiln_error *err)
{
    char text[KILN_MODE_MAX];
    const struct kiln_json_value *value = &draft->values[KILN_JOB_KEY_COARSE];
    double sigma;
    if (value->type != KILN_JSON_STRING || !kiln_json_string(value, text, sizeof text, NULL) ||
        !kiln_mode_parse_coarse(text, ret))
        return kiln_draft_wrong(draft, KILN_JOB_KEY_COARSE, err);
    if (!kiln_draft_has(draft, KILN_JOB_KEY_COARSE_SIGMA))
        return 0;
    int code = kiln_draft_number(draft, KILN_JOB_KEY_COARSE_SIGMA, &sigma, err);
    if (code)
        return code;
    if (!kiln_mode_sigma(sigma, &sigma) || sigma >= 1)
        return kiln_draft_wrong(draft, KILN_JOB_KEY_COARSE_SIGMA, err);
    if (ret->kind != KILN_MODE_COARSE)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "coarse_sigma needs coarse \"S+L\", such as \"4+3\", but coarse is %s",
                         text);
    ret->sigma = sigma;
    return 0;
}

static int build_coarse(const struct kiln_draft *draft, struct kiln_job *job, bool starts,
                        struct kiln_error *err)
{
    struct kiln_mode mode = draft->context->coarse;
    struct kiln_error unfit;
    const bool said = kiln_draft_has(draft, KILN_JOB_KEY_COARSE);
    if (!said && kiln_draft_has(draft, KILN_JOB_KEY_COARSE_SIGMA))
        return kiln_fail(err, KILN_BAD_INPUT, "coarse_sigma is given without coarse \"S+L\"");
    int code = said ? read_coarse(draft, &mode, err) : 0;
    if (code)
        return code;
    if (starts)
        return said && mode.kind == KILN_MODE_COARSE
                   ? kiln_fail(err, KILN_BAD_INPUT,
                               "coarse and a start (init_image or init_job) are both given; a run "
                               "from a start is not coarse")
                   : 0;
    if (said && mode.kind == KILN_MODE_COARSE)
        code = check_coarse(job, &mode, err);
    else if (!said && job->kind == KILN_KIND_LATENT_CACHE)
        mode.kind = KILN_MODE_EXACT; /* what others start from is exact unless somebody says so */
    else if (mode.kind != KILN_MODE_EXACT && check_coarse(job, &mode, &unfit))
        mode.kind = KILN_MODE_EXACT;
    if (mode.kind == KILN_MODE_EXACT)
        mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    job->coarse_said = said;
    job->mode = mode;
    return code;
}

/* "strength" or "start_sigma": where in the schedule the run begins. */
static int build_depth(const struct kiln_draft *draft, struct kiln_job *job, struct kiln_error *err)
{
    const bool has_sigma = kiln_draft_has(draft, KILN_JOB_KEY_START_SIGMA);
    double value = job->init_mask ? KILN_STRENGTH_MASKED : KILN_STRENGTH_DEFAULT;
    int code = 0;
    if (has_sigma) {
        job->mode.kind = KILN_MODE_START_SIGMA;
        code = kiln_draft_number(draft, KILN_JOB_KEY_START_SIGMA, &value, err);
        if (!code && !kiln_mode_sigma(value, &job->mode.sigma))
            code = kiln_draft_wrong(draft, KILN_JOB_KEY_START_SIGMA, err);
        return code;
    }
    if (kiln_draft_has(draft, KILN_JOB_KEY_STRENGTH))
        code = kiln_draft_number(draft, KILN_JOB_KEY_STRENGTH, &value, err);
    if (!code && !(value > 0))
        code = kiln_draft_wrong(draft, KILN_JOB_KEY_STRENGTH, err);
    if (!code && !kiln_mode_of_strength(value, job->steps, &job->mode))
        code = kiln_fail(err, KILN_BAD_INPUT, "strength %g of %u steps leaves no step to run",
                         value, job->steps);
    return code;
}

/* "edit": by difference from the prompt of init_job. */
static int build_edit(const struct kiln_draft *draft, struct kiln_job *job, struct kiln_error *err)
{
    int code = kiln_draft_bool(draft, KILN_JOB_KEY_EDIT, false, &job->mode.edited, err);
    if (code || !job->mode.edited)
        return code;
    if (!job->init_job)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "edit needs init_job: the prompt of a picture is not known");
    if (job->latents == KILN_LATENTS_TRAJECTORY)
        return kiln_fail(
            err, KILN_BAD_INPUT,
            "edit and latents \"trajectory\" are both given; the first two forwards of "
            "an edit lead to no state");
    return 0;
}

/* The key of a stored picture, or a path that the caller will replace by one. */
static int read_picture(const struct kiln_draft *draft, enum kiln_job_key key, char **ret,
                        struct kiln_error *err)
{
    int code = kiln_draft_text(draft, key, NULL, ret, err);
    if (!code && *ret && !draft->context->init_files && !kiln_input_key_valid(*ret))
        code = kiln_draft_wrong(draft, key, err);
    return code;
}

static int build_start(const struct kiln_draft *draft, struct kiln_job *job, struct kiln_error *err)
{
    int64_t init_job = 0;
    int code = read_picture(draft, KILN_JOB_KEY_INIT_IMAGE, &job->init_image, err);
    if (!code)
        code = kiln_draft_whole(draft, KILN_JOB_KEY_INIT_JOB, 0, &init_job, err);
    if (!code)
        code = read_picture(draft, KILN_JOB_KEY_INIT_MASK, &job->init_mask, err);
    if (code)
        return code;
    job->init_job = (uint64_t)init_job;
    code = build_depth(draft, job, err);
    job->mode.masked = job->init_mask != NULL;
    code = code ? code : build_edit(draft, job, err);
    if (!code && job->mode.masked && job->mode.edited)
        code = kiln_fail(err, KILN_BAD_INPUT, "init_mask and edit are both given; keep one");
    return code;
}

/* The job that this one was made from: the one that the line names, else the one of its start. */
static int build_parent(const struct kiln_draft *draft, struct kiln_job *job,
                        struct kiln_error *err)
{
    int64_t parent;
    int code = kiln_draft_whole(draft, KILN_JOB_KEY_PARENT, (int64_t)job->init_job, &parent, err);
    if (!code)
        job->parent = (uint64_t)parent;
    return code;
}

/* Beside any mode: a run from a start begins with variety if it begins early enough. */
static int build_variety(const struct kiln_draft *draft, struct kiln_job *job,
                         struct kiln_error *err)
{
    double variety;
    if (!kiln_draft_has(draft, KILN_JOB_KEY_VARIETY))
        return 0;
    int code = kiln_draft_number(draft, KILN_JOB_KEY_VARIETY, &variety, err);
    if (!code && !kiln_mode_variety(variety, &job->mode.variety))
        code = kiln_draft_wrong(draft, KILN_JOB_KEY_VARIETY, err);
    return code;
}

int kiln_draft_mode(const struct kiln_draft *draft, struct kiln_job *job, struct kiln_error *err)
{
    const bool image = kiln_draft_has(draft, KILN_JOB_KEY_INIT_IMAGE);
    const bool other = kiln_draft_has(draft, KILN_JOB_KEY_INIT_JOB);
    const bool strength = kiln_draft_has(draft, KILN_JOB_KEY_STRENGTH);
    const bool sigma = kiln_draft_has(draft, KILN_JOB_KEY_START_SIGMA);
    const bool edit = kiln_draft_has(draft, KILN_JOB_KEY_EDIT);
    const bool mask = kiln_draft_has(draft, KILN_JOB_KEY_INIT_MASK);
    if (image && other)
        return kiln_fail(err, KILN_BAD_INPUT, "init_image and init_job are both given; keep one");
    if (strength && sigma)
        return kiln_fail(err, KILN_BAD_INPUT, "strength and start_sigma are both given; keep one");
    if ((strength || sigma || edit || mask) && !image && !other)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s is given without a start; init_image or init_job names one",
                         mask       ? "init_mask"
                         : strength ? "strength"
                         : sigma    ? "start_sigma"
                                    : "edit");
    int code = build_coarse(draft, job, image || other, err);
    if (!code && (image || other))
        code = build_start(draft, job, err);
    if (!code)
        code = build_variety(draft, job, err);
    return code ? code : build_parent(draft, job, err);
}
