/* again.c - "make again with ...": the form on the page of a picture, and POST /again.
 *
 * The new line is the picture's own record with what the form changes; it names the picture as its
 * parent.  All that is made from a picture goes into one batch, so the same form sent twice makes
 * the same jobs, and new seeds are drawn when the form is sent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "scheduler/gallery/jobs/send.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "schemas/job/line.h"
#include "schemas/job/sizes.h"

#define PICTURES_MAX 100 /* of one form; a job file makes more */
#define WAIT_S 5         /* for the scheduler */

/* --- the form --------------------------------------------------------------------------------- */

void kiln_gallery_again_form(const struct kiln_web_visit *visit, const struct kiln_job *job,
                             struct kiln_text *out)
{
    if (visit->right != KILN_WEB_PRODUCER)
        return;
    kiln_text_printf(out,
                     "<details class=\"filters again\"><summary>Make again with \xe2\x80\xa6"
                     "</summary><form action=\"/again\" method=\"post\">"
                     "<input type=\"hidden\" name=\"job\" value=\"%" PRIu64 "\">"
                     "<p><label for=\"a-prompt\">Prompt</label><textarea id=\"a-prompt\" "
                     "name=\"prompt\" rows=\"4\" dir=\"auto\" required>\n",
                     job->id);
    kiln_html_attr(out, job->prompt);
    kiln_text_printf(out,
                     "</textarea></p><div class=\"fields\">"
                     "<p><label for=\"a-size\">Size</label><input id=\"a-size\" name=\"size\" "
                     "value=\"%ux%u\" required></p>"
                     "<p><label for=\"a-steps\">Steps</label><input id=\"a-steps\" name=\"steps\" "
                     "type=\"number\" min=\"%d\" max=\"%d\" value=\"%u\" required></p>"
                     "<p><label for=\"a-seed\">Seed</label><select id=\"a-seed\" name=\"seed\">"
                     "<option value=\"new\">new seeds</option>"
                     "<option value=\"same\">the same seed</option></select></p>"
                     "<p><label for=\"a-count\">Pictures</label><input id=\"a-count\" "
                     "name=\"count\" type=\"number\" min=\"1\" max=\"%d\" value=\"1\" required></p>"
                     "</div><div class=\"row\"><button>Make</button></div></form></details>",
                     job->width, job->height, KILN_STEPS_MIN, KILN_STEPS_MAX, job->steps,
                     PICTURES_MAX);
}

/* --- what was sent ---------------------------------------------------------------------------- */

struct again {
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

/* The line of the picture with what the form says; its texts are borrowed. */
static int write_line(struct again *again, struct kiln_job job, struct kiln_error *err)
{
    const char *prompt = kiln_web_arg(again->form, "prompt");
    const char *size = kiln_web_arg(again->form, "size");
    uint64_t steps, count;
    if (!prompt || !size)
        return kiln_fail(err, KILN_BAD_INPUT, "the form has no %s", prompt ? "size" : "prompt");
    int rc = read_number(again->form, "steps", KILN_STEPS_MAX, &steps, err);
    rc = rc ? rc : read_number(again->form, "count", PICTURES_MAX, &count, err);
    rc = rc ? rc : kiln_size_parse(size, strlen(size), 0, &job.width, &job.height, err);
    rc = rc ? rc : choose_seed(again, count, &job, err);
    if (rc)
        return rc;
    const size_t added = kiln_job_added(&job);
    const char *words = job.drawn; /* triggers in front, which the new prompt gets as well */
    job.prompt = (char *)prompt;
    job.drawn = NULL;
    if (!kiln_job_draw(&job, words, added))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
    job.steps = (uint32_t)steps;
    job.custom_id = NULL;
    job.parent = job.id;
    kiln_job_line_write(&job, true, &again->line);
    free(job.drawn);
    if (again->line.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
    if (count > 1) {
        again->line.len--; /* the closing brace */
        kiln_text_printf(&again->line, ",\"count\":%" PRIu64 "}", count);
    }
    return again->line.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line") : 0;
}

static int take_picture(void *arg, const struct kiln_gallery_picture *picture,
                        struct kiln_error *err)
{
    return write_line(arg, picture->job->job, err);
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
    struct again again = {.form = visit->form};
    uint64_t job;
    int rc = read_number(visit->form, "job", INT64_MAX, &job, err);
    /* What is hidden must not be found out by making it again. */
    rc = rc ? rc : kiln_gallery_picture(visit->session, &filter, job, take_picture, &again, err);
    rc = rc ? rc : send(visit, job, &again.line, err);
    kiln_text_release(&again.line);
    return rc;
}
