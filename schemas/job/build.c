/* build.c - makes one job from a draft: one prompt with the words of its style, one size, one seed.
 *
 * The number of a job selects its style, size, prompt choice and seed, as digits in a mixed radix;
 * the seed is the lowest digit.  Jobs of a batch are numbered in this order, so it depends on the
 * line alone.
 */
#include <stdlib.h>
#include <string.h>

#include "schemas/job/draft.h"
#include "schemas/job/template.h"
#include "schemas/names.h"

/* What a job takes of the lists of its line. */
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

/* Takes a text that has the words of a style; refuses it if it is too long. */
static int take_text(struct kiln_text *text, const char *what, const char *of, char **ret,
                     struct kiln_error *err)
{
    if (text->len > KILN_PROMPT_MAX) {
        int code =
            kiln_fail(err, KILN_BAD_INPUT, "%s is %zu bytes with the words of %s; the limit is %d",
                      what, text->len, of, KILN_PROMPT_MAX);
        kiln_text_release(text);
        return code;
    }
    *ret = kiln_text_take(text);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "%s: no memory", what);
}

static bool is_blank(const struct kiln_text *text, size_t from)
{
    while (from < text->len && strchr(" \t\r\n", text->at[from]))
        from++;
    return from == text->len;
}

static int build_prompt(const struct kiln_draft *draft, const struct choice *choice, char **ret,
                        struct kiln_error *err)
{
    struct kiln_text text = {0};
    if (choice->style)
        kiln_text_puts(&text, choice->style->prefix);
    const size_t own = text.len;
    if (draft->template)
        kiln_template_render(draft->prompt, draft->prompt_len, choice->prompt, &text);
    else
        kiln_text_add(&text, draft->prompt, draft->prompt_len);
    if (draft->context->no_empty && is_blank(&text, own)) {
        kiln_text_release(&text);
        return kiln_fail(err, KILN_BAD_INPUT,
                         "the prompt is empty (`kiln enqueue --allow-empty` accepts it)");
    }
    if (choice->style)
        kiln_text_puts(&text, choice->style->suffix);
    return take_text(&text, "prompt", choice->style ? "its style" : "its choices", ret, err);
}

/* Appends the style's negative words to those of the line. */
static int join_negative(char **negative, const struct kiln_style *style, struct kiln_error *err)
{
    struct kiln_text text = {0};
    char *joined;
    if (!style || style->negative[0] == '\0')
        return 0;
    kiln_text_puts(&text, *negative);
    kiln_text_puts(&text, **negative ? ", " : "");
    kiln_text_puts(&text, style->negative);
    int code = take_text(&text, "negative_prompt", "its style", &joined, err);
    if (code)
        return code;
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
    const uint32_t usual = draft->context->steps ? draft->context->steps : KILN_STEPS_DEFAULT;
    int code = kiln_draft_whole(draft, KILN_JOB_KEY_STEPS, usual, &steps, err);
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

/* A wish, as coarse auto is: a job that cannot begin from a stored latent begins from noise. */
static int build_teleport(const struct kiln_draft *draft, struct kiln_job *job,
                          struct kiln_error *err)
{
    int choice;
    int64_t alike;
    int code = kiln_draft_choice(draft, KILN_JOB_KEY_TELEPORT, &choice, err);
    if (!code)
        code = kiln_draft_whole(draft, KILN_JOB_KEY_ALIKE, 0, &alike, err);
    if (code)
        return code;
    job->teleport_said = kiln_draft_has(draft, KILN_JOB_KEY_TELEPORT);
    if (!job->teleport_said)
        choice = draft->context->teleport;
    job->teleport = choice ? KILN_TELEPORT_AUTO : KILN_TELEPORT_OFF;
    if (alike > 0 && !choice && !draft->context->recorded)
        return kiln_fail(err, KILN_BAD_INPUT, "alike needs teleport \"auto\"; teleport is off");
    job->alike = (uint32_t)alike;
    return 0;
}

static int build_choices(const struct kiln_draft *draft, struct kiln_job *job,
                         struct kiln_error *err)
{
    int kind, latents;
    int code = kiln_draft_choice(draft, KILN_JOB_KEY_KIND, &kind, err);
    if (!code)
        code = kiln_draft_choice(draft, KILN_JOB_KEY_LATENTS, &latents, err);
    if (!code)
        code = build_teleport(draft, job, err);
    if (!code)
        code =
            kiln_draft_bool(draft, KILN_JOB_KEY_EMBED_METADATA, false, &job->embed_metadata, err);
    if (code)
        return code;
    job->kind = (enum kiln_job_kind)kind;
    job->latents = (enum kiln_latents)latents;
    if (job->kind == KILN_KIND_LATENT_CACHE && job->latents == KILN_LATENTS_NONE)
        return kiln_fail(
            err, KILN_BAD_INPUT,
            "kind is latent-cache and latents is none: such a job would store nothing");
    code = kiln_draft_sigmas(draft, job, err);
    return code ? code : kiln_draft_mode(draft, job, err);
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, *(const char *const *)entry);
}

static int check_names(const struct kiln_job_context *context, const struct kiln_job *job,
                       struct kiln_error *err)
{
    const char *const *known = context->model_names;
    const char *model = job->model;
    size_t count = context->model_name_count;
    if (known && *model && !bsearch(model, known, count, sizeof *known, compare_name)) {
        const char *near = kiln_nearest(model, strlen(model), known, count);
        return near ? kiln_fail(err, KILN_BAD_INPUT, "unknown model \"%s\"; did you mean \"%s\"?",
                                model, near)
                    : kiln_fail(err, KILN_BAD_INPUT, "unknown model \"%s\"", model);
    }
    if (!context->recorded && kiln_name_reserved(job->tenant))
        return kiln_fail(err, KILN_BAD_INPUT, "tenant \"%s\": " KILN_NAMES_RESERVED, job->tenant);
    return 0;
}

int kiln_draft_job(const struct kiln_draft *draft, uint64_t which, struct kiln_job *ret_job,
                   struct kiln_error *err)
{
    struct choice choice = choose(draft, which);
    struct kiln_job job = {.width = choice.width, .height = choice.height, .seed = choice.seed};
    int code = build_texts(draft, &choice, &job, err);
    if (!code)
        code = build_numbers(draft, &job, err);
    if (!code)
        code = build_choices(draft, &job, err);
    if (!code)
        code = kiln_draft_loras(draft, &job, err);
    if (!code)
        code = check_names(draft->context, &job, err);
    if (code)
        kiln_job_release(&job);
    else
        *ret_job = job;
    return code;
}
