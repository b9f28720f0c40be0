/* again.c - "make again with ...": the form on the page of a picture, and POST /again.
 *
 * The new line is the picture's own record with what the form changes; it names the picture as its
 * parent.  A field that is missing, or is as the form had it, changes nothing.  All that is made
 * from a picture goes into one batch, so the same form sent twice makes the same jobs, and new
 * seeds are drawn when the form is sent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "scheduler/gallery/jobs/send.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "schemas/job/keys.h"
#include "schemas/job/line.h"
#include "schemas/job/sizes.h"
#include "schemas/job/styles.h"
#include "storage/formats/styles_file.h"

#define PICTURES_MAX 100 /* of one form; a job file makes more */
#define WAIT_S 5         /* for the scheduler */

/* --- what the form shows of a picture --------------------------------------------------------- */

/* The texts of its fields.  The style is a field of its own if this gallery knows it: then the
 * prompts are without its words, and the line that is sent gets those of the style that is chosen.
 */
struct fields {
    struct kiln_styles *more;         /* the setting's file, or NULL */
    const struct kiln_styles *styles; /* all that are known */
    bool styled;                      /* the style is a field */
    char *prompt, *negative;
    char loras[KILN_LORA_SET_MAX], coarse[KILN_MODE_MAX];
    struct kiln_text guidance;
};

static void release_fields(struct fields *fields)
{
    kiln_styles_free(fields->more);
    free(fields->prompt), free(fields->negative);
    kiln_text_release(&fields->guidance);
}

/* Release the fields in any case. */
static int read_fields(const struct kiln_web_visit *visit, const struct kiln_job *job,
                       struct fields *ret, struct kiln_error *err)
{
    char steps[KILN_MODE_MAX];
    *ret = (struct fields){0};
    int rc =
        kiln_styles_file_read(kiln_config_text(visit->config, KILN_KEY_STYLES), &ret->more, err);
    if (rc)
        return rc;
    ret->styles = ret->more ? ret->more : kiln_styles_builtin();
    const struct kiln_style *style =
        job->style ? kiln_styles_find(ret->styles, job->style, strlen(job->style)) : NULL;
    size_t len;
    const char *own = kiln_style_own(style, job->prompt, &len);
    ret->styled = style || !job->style;
    ret->prompt = strndup(own, len);
    ret->negative =
        strndup(job->negative_prompt, kiln_style_own_negative(style, job->negative_prompt));
    kiln_lora_set_text(job->loras, job->lora_count, ret->loras, sizeof ret->loras);
    kiln_text_double(&ret->guidance, job->guidance);
    snprintf(ret->coarse, sizeof ret->coarse, "%s",
             job->mode.kind == KILN_MODE_COARSE        ? kiln_mode_steps_text(&job->mode, steps)
             : job->mode.kind == KILN_MODE_COARSE_AUTO ? "auto"
                                                       : "off");
    return ret->prompt && ret->negative && !ret->guidance.failed
               ? 0
               : kiln_fail(err, KILN_NO_MEMORY, "no memory for a form");
}

/* --- the form --------------------------------------------------------------------------------- */

/* A label and the beginning of its element; rules: more attributes. */
static void open_field(struct kiln_text *out, const char *element, const char *name,
                       const char *label, const char *rules)
{
    kiln_text_printf(out, "<p><label for=\"a-%s\">%s</label><%s id=\"a-%s\" name=\"%s\" %s", name,
                     label, element, name, name, rules);
}

static void add_field(struct kiln_text *out, const char *name, const char *label, const char *rules,
                      const char *value)
{
    open_field(out, "input", name, label, rules);
    kiln_text_puts(out, " value=\"");
    kiln_html_attr(out, value);
    kiln_text_puts(out, "\"></p>");
}

static void add_number(struct kiln_text *out, const char *name, const char *label, int least,
                       int most, uint32_t value)
{
    char rules[80], text[16];
    snprintf(rules, sizeof rules, "type=\"number\" min=\"%d\" max=\"%d\" required", least, most);
    snprintf(text, sizeof text, "%u", value);
    add_field(out, name, label, rules, text);
}

static void add_area(struct kiln_text *out, const char *name, const char *label, const char *rules,
                     const char *value)
{
    open_field(out, "textarea", name, label, rules);
    kiln_text_puts(out, " dir=\"auto\">\n");
    kiln_html_attr(out, value);
    kiln_text_puts(out, "</textarea></p>");
}

static void add_styles(struct kiln_text *out, const struct fields *fields, const char *own)
{
    own = own ? own : "none";
    kiln_text_puts(out, "<p><label for=\"a-style\">Style</label><select id=\"a-style\" "
                        "name=\"style\">");
    for (size_t i = 0; i < kiln_styles_count(fields->styles); i++) {
        const char *name = kiln_styles_at(fields->styles, i)->name;
        kiln_text_puts(out, "<option");
        kiln_text_puts(out, strcmp(name, own) == 0 ? " selected>" : ">");
        kiln_html(out, name);
        kiln_text_puts(out, "</option>");
    }
    kiln_text_puts(out, "</select></p>");
}

void kiln_gallery_again_form(const struct kiln_web_visit *visit, const struct kiln_job *job,
                             struct kiln_text *out)
{
    struct fields fields;
    struct kiln_error unread; /* the picture is shown without the form */
    char text[64];
    if (visit->right != KILN_WEB_PRODUCER)
        return;
    if (read_fields(visit, job, &fields, &unread)) {
        release_fields(&fields);
        return;
    }
    kiln_text_printf(out,
                     "<details class=\"filters again\"><summary>Make again with \xe2\x80\xa6"
                     "</summary><form action=\"/again\" method=\"post\">"
                     "<input type=\"hidden\" name=\"job\" value=\"%" PRIu64 "\">",
                     job->id);
    add_area(out, "prompt", "Prompt", "rows=\"4\" required", fields.prompt);
    add_area(out, "negative_prompt", "Negative prompt", "rows=\"2\"", fields.negative);
    kiln_text_puts(out, "<div class=\"fields\">");
    snprintf(text, sizeof text, "%ux%u", job->width, job->height);
    add_field(out, "size", "Size", "required", text);
    add_number(out, "steps", "Steps", KILN_STEPS_MIN, KILN_STEPS_MAX, job->steps);
    add_field(out, "guidance", "Guidance", "inputmode=\"decimal\"", fields.guidance.at);
    if (fields.styled)
        add_styles(out, &fields, job->style);
    add_field(out, "loras", "LoRAs", "placeholder=\"ink:0.8+paper\"", fields.loras);
    if (!kiln_mode_starts(&job->mode))
        add_field(out, "coarse", "Coarse first", "placeholder=\"off, auto or 4+3\"", fields.coarse);
    kiln_text_puts(out, "<p><label for=\"a-seed\">Seed</label><select id=\"a-seed\" name=\"seed\">"
                        "<option value=\"new\">new seeds</option>"
                        "<option value=\"same\">the same seed</option></select></p>");
    add_number(out, "count", "Pictures", 1, PICTURES_MAX, 1);
    kiln_text_puts(out, "</div><div class=\"row\"><button>Make</button></div></form></details>");
    release_fields(&fields);
}

/* --- what was sent ---------------------------------------------------------------------------- */

struct again {
    const struct kiln_web_visit *visit;
    const struct kiln_web_args *form;
    struct kiln_text line;
};

static int read_number(const struct kiln_web_args *form, const char *name, uint64_t most,
                       uint64_t *ret, struct kiln_error *err)
{
    const char *text = kiln_web_arg(form, name);
    if (!text || !kiln_web_id(text, strlen(text), ret) || *ret > most)
        return kiln_fail(err, KILN_BAD_INPUT, "%s is \"%.20s\"; it must be 1 to %" PRIu64, name,
                         text ? text : "", most);
    return 0;
}

/* The same seed and those behind it, or as many that nobody has had. */
static int choose_seed(const struct again *again, uint64_t count, struct kiln_job *job,
                       struct kiln_error *err)
{
    const char *seed = kiln_web_arg(again->form, "seed");
    if (!seed || (strcmp(seed, "same") != 0 && strcmp(seed, "new") != 0))
        return kiln_fail(err, KILN_BAD_INPUT, "seed must be \"same\" or \"new\"");
    if (strcmp(seed, "new") == 0) {
        if (getrandom(&job->seed, sizeof job->seed, 0) != (ssize_t)sizeof job->seed)
            return kiln_fail(err, KILN_INTERNAL, "the system has no random numbers");
        job->seed &= INT64_MAX;
    }
    if (job->seed > UINT64_MAX - count) /* the last one must be a seed, too */
        job->seed = UINT64_MAX - count;
    return 0;
}

/* What the form says of a field, "" too, if it is other than what it was given; else NULL. */
static const char *changed(const struct kiln_web_args *form, const char *name, const char *was)
{
    for (size_t i = 0; i < form->count; i++)
        if (strcmp(form->at[i].name, name) == 0)
            return strcmp(form->at[i].value, was) == 0 ? NULL : form->at[i].value;
    return NULL;
}

/* A key that the line does not have yet; the validator looks at its value.  "" is none. */
static void put(struct again *again, enum kiln_job_key key, const char *value)
{
    if (!value || !*value || again->line.failed)
        return;
    again->line.len--; /* the closing brace */
    kiln_text_puts(&again->line, ",");
    kiln_input_member(key, value, strlen(value), &again->line);
    kiln_text_puts(&again->line, "}");
}

/* The line of the picture with what the form says; texts of the job are borrowed. */
static int write_line(struct again *again, struct kiln_job job, const struct fields *fields,
                      struct kiln_error *err)
{
    static char nothing[] = "";
    const struct kiln_web_args *form = again->form;
    const char *prompt = kiln_web_arg(form, "prompt"), *size = kiln_web_arg(form, "size");
    const char *style = fields->styled ? kiln_web_arg(form, "style") : NULL;
    const char *loras = changed(form, "loras", fields->loras);
    const char *coarse =
        kiln_mode_starts(&job.mode) ? NULL : changed(form, "coarse", fields->coarse);
    const char *guidance = changed(form, "guidance", fields->guidance.at);
    const char *negative = changed(form, "negative_prompt", fields->negative);
    const char *count_text = kiln_web_arg(form, "count");
    uint64_t steps, count;
    if (!prompt || !size)
        return kiln_fail(err, KILN_BAD_INPUT, "the form has no %s", prompt ? "size" : "prompt");
    int rc = read_number(form, "steps", KILN_STEPS_MAX, &steps, err);
    rc = rc ? rc : read_number(form, "count", PICTURES_MAX, &count, err);
    rc = rc ? rc : kiln_size_parse(size, strlen(size), 0, &job.width, &job.height, err);
    rc = rc ? rc : choose_seed(again, count, &job, err);
    if (rc)
        return rc;
    const size_t added = loras ? 0 : kiln_job_added(&job);
    const char *words = job.drawn; /* triggers in front, which the new prompt gets as well */
    job.prompt = (char *)prompt;
    job.drawn = NULL;
    if (style)
        job.style = NULL, job.negative_prompt = fields->negative;
    if (negative)
        job.negative_prompt = nothing;
    if (loras)
        job.lora_count = 0, job.lora_auto = false;
    if (guidance)
        job.guidance = 0;
    if (coarse)
        job.mode = (struct kiln_mode){.variety = job.mode.variety}, job.coarse_said = false;
    if (!kiln_job_draw(&job, words, added))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
    job.steps = (uint32_t)steps;
    job.custom_id = NULL;
    job.parent = job.id;
    kiln_job_line_write(&job, true, &again->line);
    free(job.drawn);
    put(again, KILN_JOB_KEY_NEGATIVE_PROMPT, negative);
    put(again, KILN_JOB_KEY_STYLE, style);
    put(again, KILN_JOB_KEY_LORAS, loras);
    put(again, KILN_JOB_KEY_GUIDANCE, guidance);
    put(again, KILN_JOB_KEY_COARSE, coarse);
    if (count > 1)
        put(again, KILN_JOB_KEY_COUNT, count_text);
    return again->line.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line") : 0;
}

static int take_picture(void *arg, const struct kiln_gallery_picture *picture,
                        struct kiln_error *err)
{
    struct again *again = arg;
    struct fields fields;
    int rc = read_fields(again->visit, &picture->job->job, &fields, err);
    rc = rc ? rc : write_line(again, picture->job->job, &fields, err);
    release_fields(&fields);
    return rc;
}

/* --- the answer ------------------------------------------------------------------------------- */

/* The queue does not answer: a page of its own, since the ledger does. */
static void say_away(struct kiln_web_visit *visit, const struct kiln_error *why)
{
    struct kiln_text *out = &visit->reply.body;
    visit->reply.status = 503;
    visit->reply.retry_after_s = 5;
    visit->reply.cache = "no-store";
    kiln_gallery_begin(visit, &(struct kiln_gallery_page_head){.title = "Not enqueued"});
    kiln_text_puts(out, "<div class=\"say\"><h1>Not enqueued</h1><p>");
    kiln_html(out, why->text);
    kiln_text_puts(out, ".</p></div>");
    kiln_gallery_end(visit);
}

/* Sends the line, and leads to the batch. */
static int send(struct kiln_web_visit *visit, uint64_t job, const struct kiln_text *line,
                struct kiln_error *err)
{
    struct kiln_enqueue_result result;
    struct kiln_enqueue_request request = {.wait_s = WAIT_S};
    char batch[KILN_BATCH_NAME_MAX + 1], to[KILN_BATCH_NAME_MAX + 32];
    snprintf(batch, sizeof batch, "again-%" PRIu64, job);
    snprintf(to, sizeof to, "/?batch=%s", batch);
    request.batch = batch;
    int rc = kiln_input_open_text("the form", line->at, line->len, &request.input, err);
    if (rc)
        return rc;
    rc = kiln_gallery_send(visit, &request, &result, err);
    if (rc == KILN_UNAVAILABLE) {
        say_away(visit, err);
        rc = 0;
    } else if (rc == 0 && result.refusal_count > 0) {
        rc = kiln_fail(err, KILN_BAD_INPUT, "%s", result.refusals[0].error);
    } else if (rc == 0) {
        rc = kiln_web_redirect(visit, result.receipted ? to : "/batches", err);
    }
    kiln_enqueue_release(&result);
    return rc;
}

int kiln_gallery_again(struct kiln_web_visit *visit, struct kiln_error *err)
{
    const struct kiln_gallery_filter filter = kiln_gallery_all(kiln_gallery_app(visit));
    struct again again = {.visit = visit, .form = visit->form};
    uint64_t job;
    int rc = read_number(visit->form, "job", INT64_MAX, &job, err);
    /* What is hidden must not be found out by making it again. */
    rc = rc ? rc : kiln_gallery_picture(visit->session, &filter, job, take_picture, &again, err);
    rc = rc ? rc : send(visit, job, &again.line, err);
    kiln_text_release(&again.line);
    return rc;
}
