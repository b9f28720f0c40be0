/* line.c - reads the line of one job, and writes it; makes seeds and hashes from lines.
 *
 * A written line is canonical: keys in the order of their table, no blanks, no value that is the
 * default.  Equal jobs have equal lines, so the hash of a line is the job's key.  Keys are stored:
 * if a later release wrote the same job in other bytes, a batch that is sent again would be
 * rendered twice.  Therefore strings have only the escapes that JSON demands.
 *
 * Three keys exist only for written lines: "styled" (the prompt has the style's words already),
 * "routed" (triggers of the LoRAs that "auto" chose) and "template": false (its braces are plain
 * text).  Without them a second reading would change the job.
 */
#include "schemas/job/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "schemas/job/draft.h"
#include "schemas/job/sizes.h"
#include "schemas/job/template.h"

int kiln_job_line_parse(const char *text, size_t len, const struct kiln_job_context *context,
                        struct kiln_job *ret_job, bool *ret_has_seed, struct kiln_error *err)
{
    struct kiln_draft draft;
    int code = kiln_draft_open(&draft, text, len, context, err);
    if (code)
        return code;
    if (draft.total != 1)
        code = kiln_fail(err, KILN_BAD_INPUT,
                         "the line makes %llu pictures; only one is expected here",
                         (unsigned long long)draft.total);
    if (!code)
        code = kiln_draft_job(&draft, 0, ret_job, err);
    if (!code)
        *ret_has_seed = draft.has_seed;
    kiln_draft_release(&draft);
    return code;
}

/* --- writing --------------------------------------------------------------------------------- */

/* Every key but the first follows a comma. */
static void put_key(struct kiln_text *out, enum kiln_job_key key)
{
    const char *name = kiln_job_keys[key].name;
    bool first = out->len == 0 || out->at[out->len - 1] == '{';
    kiln_text_add(out, ",\"" + first, first ? 1 : 2);
    kiln_text_add(out, name, strlen(name));
    kiln_text_add(out, "\":", 2);
}

static void put_text(struct kiln_text *out, enum kiln_job_key key, const char *value)
{
    put_key(out, key);
    kiln_text_json_least(out, value, strlen(value));
}

static void put_number(struct kiln_text *out, enum kiln_job_key key, int64_t value)
{
    put_key(out, key);
    kiln_text_i64(out, value);
}

/* What the router chose stands in place of "auto": read again, the line is not routed again. */
static void put_loras(struct kiln_text *out, const struct kiln_job *job)
{
    if (job->lora_auto && !job->route)
        put_text(out, KILN_JOB_KEY_LORAS, "auto");
    if (job->lora_count == 0)
        return;
    put_key(out, KILN_JOB_KEY_LORAS);
    for (uint32_t i = 0; i < job->lora_count; i++) {
        kiln_text_puts(out, i ? ",{\"name\":" : "[{\"name\":");
        kiln_text_json_least(out, job->loras[i].name, strlen(job->loras[i].name));
        kiln_text_puts(out, ",\"scale\":");
        kiln_text_double(out, job->loras[i].scale);
        kiln_text_add(out, "}", 1);
    }
    kiln_text_add(out, "]", 1);
}

static void put_routed(struct kiln_text *out, const struct kiln_job *job)
{
    const size_t added = kiln_job_added(job);
    if (added == 0)
        return;
    put_key(out, KILN_JOB_KEY_ROUTED);
    kiln_text_json_least(out, job->drawn, added);
}

static void put_double(struct kiln_text *out, enum kiln_job_key key, double value)
{
    put_key(out, key);
    kiln_text_double(out, value);
}

/* A strength is written as the shortest one that begins at the same step. */
static void put_start(struct kiln_text *out, const struct kiln_job *job)
{
    struct kiln_mode usual;
    if (job->init_image)
        put_text(out, KILN_JOB_KEY_INIT_IMAGE, job->init_image);
    else
        put_number(out, KILN_JOB_KEY_INIT_JOB, (int64_t)job->init_job);
    if (job->init_mask)
        put_text(out, KILN_JOB_KEY_INIT_MASK, job->init_mask);
    const double strength = job->init_mask ? KILN_STRENGTH_MASKED : KILN_STRENGTH_DEFAULT;
    if (job->mode.kind == KILN_MODE_START_SIGMA)
        put_double(out, KILN_JOB_KEY_START_SIGMA, job->mode.sigma);
    else if (!kiln_mode_of_strength(strength, job->steps, &usual) || usual.step != job->mode.step)
        put_double(out, KILN_JOB_KEY_STRENGTH, kiln_mode_strength(job->mode.step, job->steps));
    if (job->mode.edited) {
        put_key(out, KILN_JOB_KEY_EDIT);
        kiln_text_puts(out, "true");
    }
}

/* A coarse mode is always written, said or not: a worker reads it from the line.  "off" is written
 * if the line said so, since the setting may say another. */
static void put_mode(struct kiln_text *out, const struct kiln_job *job)
{
    char steps[KILN_MODE_MAX];
    if (kiln_mode_starts(&job->mode)) {
        put_start(out, job);
    } else if (job->mode.kind == KILN_MODE_COARSE) {
        put_text(out, KILN_JOB_KEY_COARSE, kiln_mode_steps_text(&job->mode, steps));
        if (job->mode.sigma != KILN_COARSE_SIGMA)
            put_double(out, KILN_JOB_KEY_COARSE_SIGMA, job->mode.sigma);
    } else if (job->mode.kind == KILN_MODE_COARSE_AUTO || job->coarse_said) {
        put_text(out, KILN_JOB_KEY_COARSE,
                 job->mode.kind == KILN_MODE_COARSE_AUTO ? "auto" : "off");
    }
    if (job->mode.variety > 0)
        put_double(out, KILN_JOB_KEY_VARIETY, job->mode.variety);
}

/* The job of the start is the parent, unless the line says another. */
static void put_parent(struct kiln_text *out, const struct kiln_job *job)
{
    if (kiln_job_names_parent(job))
        put_number(out, KILN_JOB_KEY_PARENT, (int64_t)job->parent);
}

/* Everything that is at its default is left out: a line waits in Redis with a million others. */
static void put_optional(struct kiln_text *out, const struct kiln_job *job)
{
    put_loras(out, job);
    put_routed(out, job);
    if (job->model[0])
        put_text(out, KILN_JOB_KEY_MODEL, job->model);
    if (job->priority)
        put_number(out, KILN_JOB_KEY_PRIORITY, job->priority);
    if (strcmp(job->tenant, "default") != 0)
        put_text(out, KILN_JOB_KEY_TENANT, job->tenant);
    if (job->custom_id)
        put_text(out, KILN_JOB_KEY_CUSTOM_ID, job->custom_id);
    if (job->kind != KILN_KIND_IMAGE)
        put_text(out, KILN_JOB_KEY_KIND, kiln_job_kind_name(job->kind));
    if (job->latents != KILN_LATENTS_FINAL)
        put_text(out, KILN_JOB_KEY_LATENTS, kiln_latents_name(job->latents));
    if (job->sigma_count > 0) {
        char sigmas[KILN_SIGMAS_TEXT_MAX];
        kiln_sigmas_text(job->sigmas, job->sigma_count, sigmas, sizeof sigmas);
        put_text(out, KILN_JOB_KEY_SIGMAS, sigmas);
    }
    put_mode(out, job);
    put_parent(out, job);
    if (job->teleport_said || job->alike > 0)
        put_text(out, KILN_JOB_KEY_TELEPORT, kiln_teleport_name(job->teleport));
    if (job->alike)
        put_number(out, KILN_JOB_KEY_ALIKE, job->alike);
    if (job->max_wait_s)
        put_number(out, KILN_JOB_KEY_MAX_WAIT_S, job->max_wait_s);
    if (job->embed_metadata) {
        put_key(out, KILN_JOB_KEY_EMBED_METADATA);
        kiln_text_puts(out, "true");
    }
    if (kiln_template_is(job->prompt, strlen(job->prompt))) {
        put_key(out, KILN_JOB_KEY_TEMPLATE); /* its choices are made: braces are only braces now */
        kiln_text_puts(out, "false");
    }
}

void kiln_job_line_write(const struct kiln_job *job, bool with_seed, struct kiln_text *out)
{
    kiln_text_add(out, "{", 1);
    put_text(out, KILN_JOB_KEY_PROMPT, job->prompt);
    if (job->negative_prompt[0])
        put_text(out, KILN_JOB_KEY_NEGATIVE_PROMPT, job->negative_prompt);
    put_number(out, KILN_JOB_KEY_WIDTH, job->width);
    put_number(out, KILN_JOB_KEY_HEIGHT, job->height);
    if (job->style)
        put_text(out, KILN_JOB_KEY_STYLED, job->style);
    put_number(out, KILN_JOB_KEY_STEPS, job->steps);
    if (job->guidance != 0) {
        put_key(out, KILN_JOB_KEY_GUIDANCE);
        kiln_text_double(out, job->guidance);
    }
    if (with_seed) {
        put_key(out, KILN_JOB_KEY_SEED);
        kiln_text_u64(out, job->seed);
    }
    put_optional(out, job);
    kiln_text_add(out, "}", 1);
}

/* --- what is made from lines ----------------------------------------------------------------- */

uint64_t kiln_seed_derive(const char *batch, const char *key)
{
    struct kiln_text text = {0};
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_text_add(&text, "kiln seed", sizeof "kiln seed"); /* its NUL too */
    kiln_text_add(&text, batch, strlen(batch) + 1);
    kiln_text_puts(&text, key);
    if (text.failed)
        abort(); /* another seed would be another picture */
    kiln_sha256(text.at, text.len, digest);
    kiln_text_release(&text);
    uint64_t seed = 0;
    for (int i = 0; i < 8; i++)
        seed = seed << 8 | digest[i];
    return seed & (KILN_SEED_EXACT_MAX - 1);
}

void kiln_job_line_key(const uint8_t digest[32], uint32_t copy, char ret[KILN_LINE_KEY_MAX])
{
    char hex[17];
    kiln_hex(digest, 8, hex);
    snprintf(ret, KILN_LINE_KEY_MAX, "h:%s#%u", hex, copy);
}

void kiln_prompt_hash(const char *prompt, const char *negative, char ret_hex[65])
{
    char room[KILN_LINE_MAX + 4096]; /* any job's texts; only longer ones need memory */
    char *text = room;
    uint8_t digest[KILN_SHA256_SIZE];
    size_t prompt_len = strlen(prompt), negative_len = strlen(negative);
    size_t size = prompt_len + negative_len + 64;
    if (size > sizeof room && !(text = malloc(size)))
        abort(); /* a wrong hash would select the text features of another prompt */
    int len = snprintf(text, size, "kiln prompt %zu %zu %s%s", prompt_len, negative_len, prompt,
                       negative);
    kiln_sha256(text, (size_t)len, digest);
    kiln_hex(digest, sizeof digest, ret_hex);
    if (text != room)
        free(text);
}

int kiln_job_context_size(struct kiln_job_context *context, const struct kiln_config *config,
                          struct kiln_error *err)
{
    const char *size = kiln_config_text(config, KILN_KEY_SIZE);
    if (kiln_size_parse(size, strlen(size), context->own, &context->width, &context->height, err))
        return kiln_fail(err, KILN_CONFIG, "the setting size (%s): %s",
                         kiln_config_origin(config, KILN_KEY_SIZE), err->text);
    return 0;
}

int kiln_job_context_modes(struct kiln_job_context *context, const struct kiln_config *config,
                           struct kiln_error *err)
{
    const char *coarse = kiln_config_text(config, KILN_KEY_COARSE);
    if (!kiln_mode_parse_coarse(coarse, &context->coarse))
        return kiln_fail(err, KILN_CONFIG, "the setting coarse (%s) is \"%.40s\"; it must be %s",
                         kiln_config_origin(config, KILN_KEY_COARSE), coarse,
                         kiln_job_keys[KILN_JOB_KEY_COARSE].help);
    context->teleport = strcmp(kiln_config_text(config, KILN_KEY_TELEPORT), "auto") == 0;
    return 0;
}

bool kiln_job_line_again(const struct kiln_job *job, struct kiln_text *out)
{
    struct kiln_text line = {0};
    struct kiln_job again = {0};
    struct kiln_error err;
    bool has_seed;
    const struct kiln_job_context context = {.recorded = true};
    kiln_job_line_write(job, true, &line);
    bool good = !line.failed &&
                kiln_job_line_parse(line.at, line.len, &context, &again, &has_seed, &err) == 0 &&
                again.seed == job->seed && strcmp(again.prompt, job->prompt) == 0;
    if (good)
        kiln_text_add(out, line.at, line.len);
    kiln_job_release(&again);
    kiln_text_release(&line);
    return good;
}
