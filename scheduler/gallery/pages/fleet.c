/* fleet.c - /fleet: what is in the way, jobs by state, workers, and groups of waiting jobs;
 * read-only.
 *
 * What is in the way is found as for `kiln status` (scheduler/cli/fleet/trouble.h), which asks
 * Redis as well.  So one request at a time looks, and others get what it found.
 */
#include <inttypes.h>
#include <pthread.h>

#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/layout.h"
#include "schemas/clock.h"
#include "storage/ledger/read/read.h"

#define ROWS_MAX 200

struct table {
    struct kiln_text *out;
    int rows;
};

static void begin(struct kiln_text *out, const char *title, const char *const *columns)
{
    kiln_text_printf(out,
                     "<h2>%s</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                     "aria-label=\"%s\"><table><thead><tr>",
                     title, title);
    for (; *columns; columns++)
        kiln_text_printf(out, "<th scope=\"col\">%s</th>", *columns);
    kiln_text_puts(out, "</tr></thead><tbody>");
}

static void end(struct table *table, const char *nothing)
{
    kiln_text_puts(table->out, "</tbody></table></div>");
    if (table->rows == 0)
        kiln_text_printf(table->out, "<p>%s</p>", nothing);
    table->rows = 0;
}

static void cell(struct kiln_text *out, const char *text)
{
    kiln_text_puts(out, "<td><bdi>");
    kiln_html(out, text);
    kiln_text_puts(out, "</bdi></td>");
}

static int each_worker(void *arg, const struct kiln_worker_row *worker, struct kiln_error *err)
{
    struct table *table = arg;
    (void)err;
    if (table->rows++ >= ROWS_MAX)
        return 0;
    kiln_text_puts(table->out, "<tr>");
    cell(table->out, worker->name);
    cell(table->out, worker->state);
    cell(table->out, worker->device);
    cell(table->out, worker->host);
    kiln_text_printf(table->out, "<td class=\"n\">%" PRIu64 "</td><td>", worker->assigned);
    kiln_html_time(table->out, worker->last_seen_ms);
    kiln_text_puts(table->out, "</td></tr>\n");
    return 0;
}

static int each_group(void *arg, const struct kiln_group_row *group, struct kiln_error *err)
{
    struct table *table = arg;
    (void)err;
    if (table->rows++ >= ROWS_MAX)
        return 0;
    kiln_text_printf(table->out, "<tr><td>%ux%u</td><td class=\"n\">%u</td>", group->width,
                     group->height, group->steps);
    cell(table->out, group->lora_set[0] ? group->lora_set : "none");
    cell(table->out, kiln_mode_shown(group->mode));
    kiln_text_printf(table->out, "<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64 "</td>",
                     group->queued, group->assigned);
    kiln_text_puts(table->out, "<td>");
    if (group->oldest_ms)
        kiln_html_time(table->out, group->oldest_ms);
    kiln_text_puts(table->out, "</td></tr>\n");
    return 0;
}

#define TROUBLE_MS 2000 /* how long one look is shown */

static struct {
    pthread_mutex_t mutex;
    int64_t due_ms; /* of the next look */
    struct kiln_troubles found;
} seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Writes nothing if nothing is in the way. */
static int add_troubles(struct kiln_web_visit *visit, struct kiln_text *out, struct kiln_error *err)
{
    struct kiln_troubles troubles;
    int rc = 0;
    pthread_mutex_lock(&seen.mutex);
    if (kiln_clock_ms() >= seen.due_ms) {
        rc = kiln_troubles_look(kiln_gallery_app(visit)->cli, visit->session, NULL, &seen.found,
                                err);
        seen.found.count = rc ? 0 : seen.found.count;
        seen.due_ms = rc ? 0 : kiln_clock_ms() + TROUBLE_MS;
    }
    troubles = seen.found;
    pthread_mutex_unlock(&seen.mutex);
    if (rc || troubles.count == 0)
        return rc;
    kiln_text_puts(out, "<h2>In the way</h2><ul class=\"troubles\">");
    for (size_t i = 0; i < troubles.count; i++) {
        kiln_text_puts(out, "<li><strong>");
        kiln_html(out, troubles.at[i].text);
        kiln_text_puts(out, "</strong><br>");
        kiln_html(out, troubles.at[i].next);
        kiln_text_puts(out, "</li>\n");
    }
    kiln_text_puts(out, "</ul>");
    return 0;
}

static void add_counts(struct kiln_text *out, const struct kiln_counts *counts)
{
    kiln_text_puts(out, "<dl class=\"keys\">");
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++) {
        kiln_text_printf(out, "<div><dt>%s</dt><dd>",
                         kiln_job_state_name((enum kiln_job_state)state));
        kiln_html_count(out, counts->at[state]);
        kiln_text_puts(out, "</dd></div>");
    }
    kiln_text_puts(out, "</dl>");
}

int kiln_gallery_fleet(struct kiln_web_visit *visit, struct kiln_error *err)
{
    static const char *const of_workers[] = {"Worker",  "State",     "Device", "Host",
                                             "In hand", "Last seen", NULL};
    static const char *const of_groups[] = {"Size",    "Steps",     "LoRAs",         "Made",
                                            "Waiting", "Rendering", "Waiting since", NULL};
    const char *pool = kiln_gallery_app(visit)->pool;
    struct table table = {.out = &visit->reply.body};
    struct kiln_counts counts;
    int rc = kiln_ledger_counts(visit->session, pool, &counts, err);
    if (rc)
        return rc;
    kiln_gallery_begin(
        visit, &(struct kiln_gallery_page_head){.title = "Fleet", .here = "fleet", .wide = true});
    kiln_text_puts(table.out, "<h1>Fleet</h1>");
    rc = add_troubles(visit, table.out, err);
    kiln_text_puts(table.out, "<h2>Jobs</h2>");
    add_counts(table.out, &counts);
    begin(table.out, "Workers", of_workers);
    rc = rc ? rc : kiln_ledger_workers(visit->session, pool, each_worker, &table, err);
    end(&table, "No worker has been seen.");
    begin(table.out, "Waiting and rendering", of_groups);
    rc = rc ? rc : kiln_ledger_groups(visit->session, pool, each_group, &table, err);
    end(&table, "Nothing is waiting.");
    if (rc == 0)
        kiln_gallery_end(visit);
    return rc;
}
