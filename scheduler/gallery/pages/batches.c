/* batches.c - /batches: what was asked for, how far it is, and its pictures. */
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/batch.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"

#define ROWS_MAX 200

struct list {
    struct kiln_text *out;
    int rows;
    bool more;
};

static void add_row(struct kiln_text *out, const struct kiln_batch_row *batch)
{
    const uint64_t *jobs = batch->jobs.at;
    kiln_text_puts(out, "<tr><td><a href=\"/?batch=");
    kiln_url(out, batch->name);
    kiln_text_puts(out, "\"><bdi>");
    kiln_html(out, batch->name);
    kiln_text_puts(out, "</bdi></a> <small><a href=\"/sheet?batch=");
    kiln_url(out, batch->name);
    kiln_text_puts(out, "\">sheet</a></small></td><td class=\"n\">");
    kiln_html_count(out, jobs[KILN_JOB_DONE]);
    kiln_text_puts(out, " of ");
    kiln_html_count(out, kiln_gallery_batch_all(batch));
    kiln_text_puts(out, "</td><td>");
    kiln_gallery_batch_bar(out, batch);
    kiln_text_puts(out, "</td><td class=\"n\">");
    if (jobs[KILN_JOB_FAILED])
        kiln_html_count(out, jobs[KILN_JOB_FAILED]);
    kiln_text_puts(out, "</td><td>");
    kiln_text_puts(out, kiln_gallery_batch_state(batch));
    kiln_text_puts(out, "</td><td>");
    kiln_html_time(out, batch->created_ms);
    kiln_text_puts(out, "</td><td><bdi>");
    kiln_html(out, batch->tenants);
    kiln_text_puts(out, "</bdi></td></tr>\n");
}

/* KILN_FULL ends the walk. */
static int each_batch(void *arg, const struct kiln_batch_row *batch, struct kiln_error *err)
{
    struct list *list = arg;
    if (list->rows == ROWS_MAX) {
        list->more = true;
        return kiln_fail(err, KILN_FULL, "more than %d batches", ROWS_MAX);
    }
    list->rows++;
    add_row(list->out, batch);
    return 0;
}

int kiln_gallery_batches(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    struct list list = {.out = out};
    kiln_gallery_begin(visit, &(struct kiln_gallery_page_head){
                                  .title = "Batches", .here = "batches", .wide = true});
    kiln_text_puts(out,
                   "<h1>Batches</h1><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                   "aria-label=\"Batches\"><table><thead><tr><th scope=\"col\">Batch</th>"
                   "<th scope=\"col\" class=\"n\">Jobs done</th><th scope=\"col\">Progress</th>"
                   "<th scope=\"col\" class=\"n\">Failed</th><th scope=\"col\">State</th>"
                   "<th scope=\"col\">Created</th><th scope=\"col\">Tenants</th></tr></thead>"
                   "<tbody>");
    int rc = kiln_ledger_batches(visit->session, kiln_gallery_app(visit)->pool, NULL, each_batch,
                                 &list, err);
    if (rc && !list.more)
        return rc;
    kiln_text_puts(out, "</tbody></table></div>");
    if (list.rows == 0)
        kiln_text_puts(out, "<p>No batches yet.</p>");
    if (list.more)
        kiln_text_printf(out, "<p>The newest %d are shown.</p>", ROWS_MAX);
    kiln_gallery_end(visit);
    return 0;
}
