/* batch.c - see batch.h. */
#include "scheduler/gallery/parts/batch.h"

#include <inttypes.h>

#include "scheduler/gallery/parts/html.h"

uint64_t kiln_gallery_batch_all(const struct kiln_batch_row *batch)
{
    uint64_t all = batch->removed;
    for (int i = 0; i < KILN_JOB_STATE_COUNT; i++)
        all += batch->jobs.at[i];
    return all;
}

const char *kiln_gallery_batch_state(const struct kiln_batch_row *batch)
{
    return kiln_batch_ended(batch)             ? "ended"
           : batch->jobs.at[KILN_JOB_ASSIGNED] ? "rendering"
           : batch->jobs.at[KILN_JOB_QUEUED]   ? "waiting"
                                               : "coming in";
}

void kiln_gallery_batch_bar(struct kiln_text *out, const struct kiln_batch_row *batch)
{
    uint64_t all = kiln_gallery_batch_all(batch);
    kiln_text_printf(
        out, "<progress max=\"%" PRIu64 "\" value=\"%" PRIu64 "\" aria-label=\"Done\"></progress>",
        all ? all : 1, batch->jobs.at[KILN_JOB_DONE]);
}

/* A number that the script replaces. */
static void add_number(struct kiln_text *out, const char *name, uint64_t value)
{
    kiln_text_printf(out, "<span data-of=\"%s\">", name);
    kiln_html_count(out, value);
    kiln_text_puts(out, "</span>");
}

void kiln_gallery_batch_progress(struct kiln_text *out, const struct kiln_batch_row *batch)
{
    kiln_text_puts(out, "<p class=\"batch\">");
    kiln_gallery_batch_bar(out, batch);
    kiln_text_puts(out, " <span>");
    add_number(out, "done", batch->jobs.at[KILN_JOB_DONE]);
    kiln_text_puts(out, " of ");
    add_number(out, "all", kiln_gallery_batch_all(batch));
    kiln_text_printf(out, " done</span> <a class=\"failed\" href=\"/fleet#failed\"%s>",
                     batch->jobs.at[KILN_JOB_FAILED] ? "" : " hidden");
    add_number(out, "failed", batch->jobs.at[KILN_JOB_FAILED]);
    kiln_text_printf(out, " failed</a> <span data-of=\"state\">%s</span></p>",
                     kiln_gallery_batch_state(batch));
}
