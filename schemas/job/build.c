/* build.c - makes one record from a draft: style words around the prompt, one size, one
 * seed.
 *
 * The number of a job is read as digits of a mixed radix, one digit an axis, seeds first
 * because they change fastest.  The order is part of the contract (jobs of a batch are numbered
 * by it), so it must not depend on anything but the line.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/job/draft.h"
#include "schemas/job/template.h"
#include "schemas/names.h"

/* Which element of each axis job number n takes; seeds change fastest. */
struct choice {
    const struct kiln_style *style;
    uint32_t width, height;
    uint64_t prompt, seed;
};

static struct choice choose(const struct kiln_draft *draft, uint64_t which)
{
    struct choice choice;
    choice.seed = draft->has_seed ? draft->seed_first + which % draft->seed_count : 0;
    which /= draft->seed_count;
    choice.prompt = which % draft->prompt_count;
    which /= draft->prompt_count;
    choice.width = draft->sizes[which % draft->size_count].width;
    choice.height = draft->sizes[which % draft->size_count].height;
    which /= draft->size_count;
    choice.style = draft->styles[which];
    return choice;
}

static int check_length(const char *what, size_t len, const struct kiln_style *style,
                        struct kiln_error *err)
{
    if (len <= KILN_PROMPT_MAX)
        return 0;
    return kiln_fail(err, KILN_BAD_INPUT, "%s is %zu bytes with the words of %s; the limit is %d",
                     what, len, style ? "its style" : "its choices", KILN_PROMPT_MAX);
}

static int build_prompt(const struct kiln_draft *draft, const struct choice *choice, char **ret,
                        struct kiln_error *err)
{
    struct kiln_text text = {0};
    if (choice->style)
        kiln_text_puts(&text, choice->style->prefix);
    if (draft->template)
        kiln_template_render(draft->prompt, draft->prompt_len, choice->prompt, &text);
    else
        kiln_text_add(&text, draft->prompt, draft->prompt_len);
    if (choice->style)
        kiln_text_puts(&text, choice->style->suffix);
    int code = check_length("prompt", text.len, choice->style, err);
    if (code) {
        kiln_text_release(&text);
        return code;
    }
    *ret = kiln_text_take(&text);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "prompt: no memory");
}

/* Puts the style's negative words behind those of the line. */
static int join_negative(char **negative, const struct kiln_style *style, struct kiln_error *err)
{
    struct kiln_text text = {0};
    if (!style || style->negative[0] == '\0')
        return 0;
    kiln_text_puts(&text, *negative);
    kiln_text_puts(&text, **negative ? ", " : "");
    kiln_text_puts(&text, style->negative);
    int code = check_length("negative_prompt", text.len, style, err);
    char *joined = kiln_text_take(&text);
    if (!code && !joined)
        code = kiln_fail(err, KILN_NO_MEMORY, "negative_prompt: no memory");
    if (code) {
        free(joined);
        return code;
    }
    free(*negative);
    *negative = joined;
    return 0;
}

static int build_texts(const struct kiln_draft *draft, const struct choice *choice,
                       struct kiln_job *job, struct kiln_error *err)
{
    int code = build_prompt(draft, choice, &job->prompt, err);
    if (!code)
        code = kiln_draft_text(draft, KILN_JOB_KEY_NEGATIVE_PROMPT, "", &job->negative_prompt, err);
    if (!code)
        code = join_negative(&job->negative_prompt, choice->style, err);
    if (!code)
        code = kiln_draft_text(draft, KILN_JOB_KEY_STYLED,
                               choice->style ? choice->style->name : NULL, &job->style, err);
    if (!code)
        code = kiln_draft_text(draft, KILN_JOB_KEY_CUSTOM_ID, NULL, &job->custom_id, err);
    if (!code)
        code = kiln_draft_text(draft, KILN_JOB_KEY_TENANT, "default", &job->tenant, err);
    if (!code)
        code = kiln_draft_text(draft, KILN_JOB_KEY_MODEL, "", &job->model, err);
    if (!code && !(job->batch = strdup("")))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a job");
    return code;
}

static int build_numbers(const struct kiln_draft *draft, struct kiln_job *job,
                         struct kiln_error *err)
{
    int64_t steps, priority, max_wait_s;
    int code = kiln_draft_whole(draft, KILN_JOB_KEY_STEPS, KILN_STEPS_DEFAULT, &steps, err);
    if (!code)
        code = kiln_draft_whole(draft, KILN_JOB_KEY_PRIORITY, 0, &priority, err);
    if (!code)
        code = kiln_draft_whole(draft, KILN_JOB_KEY_MAX_WAIT_S, 0, &max_wait_s, err);
    if (!code)
        code = kiln_draft_number(draft, KILN_JOB_KEY_GUIDANCE, &job->guidance, err);
    if (code)
        return code;
    job->steps = (uint32_t)steps;
    job->priority = (int32_t)priority;
    job->max_wait_s = (uint32_t)max_wait_s;
    return 0;
}

static int build_choices(const struct kiln_draft *draft, struct kiln_job *job,
                         struct kiln_error *err)
{
    int kind, latents, teleport;
    bool said = kiln_draft_has(draft, KILN_JOB_KEY_TELEPORT);
    bool is_auto = said && kiln_json_equals(&draft->values[KILN_JOB_KEY_TELEPORT], "auto");
    if (is_auto && !draft->context->recorded)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "teleport: \"auto\" does not exist yet: every run starts from noise; "
                         "omit the key or use \"off\"");
    int code = kiln_draft_choice(draft, KILN_JOB_KEY_KIND, &kind, err);
    if (!code)
        code = kiln_draft_choice(draft, KILN_JOB_KEY_LATENTS, &latents, err);
    if (!code && !is_auto)
        code = kiln_draft_choice(draft, KILN_JOB_KEY_TELEPORT, &teleport, err); /* only checked */
    if (!code)
        code =
            kiln_draft_bool(draft, KILN_JOB_KEY_EMBED_METADATA, false, &job->embed_metadata, err);
    if (code)
        return code;
    job->kind = (enum kiln_job_kind)kind;
    job->latents = (enum kiln_latents)latents;
    job->teleport = KILN_TELEPORT_OFF;
    job->teleport_said = said && !is_auto;
    if (job->kind == KILN_KIND_LATENT_CACHE && job->latents == KILN_LATENTS_NONE)
        return kiln_fail(
            err, KILN_BAD_INPUT,
            "kind is latent-cache and latents is none: such a job would store nothing");
    return kiln_draft_sigmas(draft, job, err);
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, *(const char *const *)entry);
}

static int check_model(const struct kiln_job_context *context, const char *model,
                       struct kiln_error *err)
{
    const char *const *known = context->model_names;
    size_t count = context->model_name_count;
    if (!known || *model == '\0' || bsearch(model, known, count, sizeof *known, compare_name))
        return 0;
    const char *near = kiln_nearest(model, strlen(model), known, count);
    if (near)
        return kiln_fail(err, KILN_BAD_INPUT, "unknown model \"%s\"; did you mean \"%s\"?", model,
                         near);
    return kiln_fail(err, KILN_BAD_INPUT, "unknown model \"%s\"", model);
}

static int check_tenant(const struct kiln_job_context *context, const char *tenant,
                        struct kiln_error *err)
{
    if (context->recorded || !kiln_name_reserved(tenant))
        return 0;
    return kiln_fail(err, KILN_BAD_INPUT, "tenant \"%s\": " KILN_NAMES_RESERVED, tenant);
}

int kiln_draft_job(const struct kiln_draft *draft, uint64_t which, struct kiln_job *ret_job,
                   struct kiln_error *err)
{
    struct choice choice = choose(draft, which);
    struct kiln_job job = {0};
    job.width = choice.width;
    job.height = choice.height;
    job.seed = choice.seed;
    int code = build_texts(draft, &choice, &job, err);
    if (!code)
        code = build_numbers(draft, &job, err);
    if (!code)
        code = build_choices(draft, &job, err);
    if (!code)
        code = kiln_draft_loras(draft, &job, err);
    if (!code)
        code = check_model(draft->context, job.model, err);
    if (!code)
        code = check_tenant(draft->context, job.tenant, err);
    if (code)
        kiln_job_release(&job);
    else
        *ret_job = job;
    return code;
}
