/* fleet.c - /fleet: what is in the way, jobs by state, why jobs failed, workers, pauses, and groups
 * of waiting jobs; read-only.
 *
 * What is in the way and which workers live is found as for `kiln status`
 * (scheduler/cli/fleet/trouble.h), which asks Redis as well.  So one request at a time looks, and
 * others get at once what the last one wrote.
 */
#include <inttypes.h>

#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/kept.h"
#include "scheduler/gallery/parts/layout.h"
#include "schemas/clock.h"
#include "storage/ledger/read/ops.h"

#define ROWS_MAX 200
#define LOOK_MS 2000             /* how long one look is shown */
#define WEEK_MS (7 * 86400000ll) /* older failures are for `kiln errors` */

struct table {
    struct kiln_text *out;
    int rows;
};

/* columns: "#..." is one of numbers; ended by NULL. */
static void begin(struct kiln_text *out, const char *title, const char *const *columns)
{
    kiln_text_printf(out,
                     "<h2>%s</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                     "aria-label=\"%s\"><table><thead><tr>",
                     title, title);
    for (; *columns; columns++)
        kiln_text_printf(out, "<th scope=\"col\"%s>%s</th>", **columns == '#' ? " class=\"n\"" : "",
                         *columns + (**columns == '#'));
    kiln_text_puts(out, "</tr></thead><tbody>");
}

static void end(struct table *table, const char *nothing)
{
    kiln_text_puts(table->out, "</tbody></table></div>");
    if (table->rows == 0)
        kiln_text_printf(table->out, "<p>%s</p>", nothing);
    if (table->rows > ROWS_MAX)
        kiln_text_printf(table->out, "<p>The first %d are shown.</p>", ROWS_MAX);
    table->rows = 0;
}

static void cell(struct kiln_text *out, const char *text)
{
    kiln_text_puts(out, "<td><bdi>");
    kiln_html(out, text);
    kiln_text_puts(out, "</bdi></td>");
}

static void time_cell(struct kiln_text *out, int64_t ms)
{
    kiln_text_puts(out, "<td>");
    if (ms)
        kiln_html_time(out, ms);
    kiln_text_puts(out, "</td>");
}

/* --- workers ---------------------------------------------------------------------------------- */

static void add_worker(struct table *table, const struct kiln_roster_worker *worker)
{
    struct kiln_text *out = table->out;
    char trouble[KILN_ERROR_TEXT_MAX];
    if (table->rows++ >= ROWS_MAX)
        return;
    kiln_text_puts(out, "<tr>");
    cell(out, worker->row.name);
    kiln_text_printf(out, "<td>%s", kiln_roster_state(worker));
    if (kiln_worker_trouble_text(worker, trouble, sizeof trouble)[0]) {
        kiln_text_puts(out, ": ");
        kiln_html(out, trouble);
    }
    kiln_text_puts(out, "</td>");
    cell(out, worker->live ? worker->beat.device : worker->row.device);
    cell(out, worker->live ? worker->beat.host : worker->row.host);
    kiln_text_printf(out, "<td class=\"n\">%" PRIu64 "</td>", worker->row.assigned);
    time_cell(out, worker->live ? 0 : worker->row.last_seen_ms);
    kiln_text_puts(out, "</tr>\n");
}

/* bus: the error of Redis, code 0 for none. */
static void add_workers(struct kiln_text *out, const struct kiln_roster *roster,
                        const struct kiln_error *bus)
{
    static const char *const columns[] = {"Worker",   "State",     "Device", "Host",
                                          "#In hand", "Last seen", NULL};
    struct table table = {.out = out};
    begin(out, "Workers", columns);
    for (int live = 1; live >= 0; live--)
        for (size_t i = 0; i < roster->count; i++)
            if (roster->at[i].live == live)
                add_worker(&table, &roster->at[i]);
    end(&table, bus->code ? "Workers are not known while Redis does not answer."
                          : "No worker has been seen.");
}

/* --- jobs ------------------------------------------------------------------------------------- */

struct groups {
    struct table table;
    struct kiln_needed needed;
};

static int each_group(void *arg, const struct kiln_group_row *group, struct kiln_error *err)
{
    struct groups *groups = arg;
    struct kiln_text *out = groups->table.out;
    (void)err;
    if (group->queued)
        kiln_needed_add(&groups->needed, group->model);
    if (groups->table.rows++ >= ROWS_MAX)
        return 0;
    kiln_text_printf(out, "<tr><td><a href=\"/?size=%ux%u\">%ux%u</a></td><td class=\"n\">%u</td>",
                     group->width, group->height, group->width, group->height, group->steps);
    cell(out, group->lora_set[0] ? group->lora_set : "none");
    cell(out, kiln_mode_shown(group->mode));
    kiln_text_printf(out, "<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64 "</td>",
                     group->queued, group->assigned);
    time_cell(out, group->oldest_ms);
    kiln_text_puts(out, "</tr>\n");
    return 0;
}

static int add_groups(struct kiln_web_visit *visit, struct groups *groups, struct kiln_error *err)
{
    static const char *const columns[] = {"Size",     "#Steps",     "LoRAs",         "Made",
                                          "#Waiting", "#Rendering", "Waiting since", NULL};
    begin(groups->table.out, "Waiting and rendering", columns);
    int rc =
        kiln_ledger_groups(visit->session, kiln_gallery_app(visit)->pool, each_group, groups, err);
    end(&groups->table, "Nothing is waiting.");
    return rc;
}

static void add_pause(void *arg, const char *text)
{
    struct table *table = arg;
    kiln_text_puts(table->out, table->rows++ ? "<li>" : "<h2>Paused</h2><ul><li>");
    kiln_html(table->out, text);
    kiln_text_puts(table->out, "</li>\n");
}

/* Writes nothing if nothing is paused. */
static int add_pauses(struct kiln_web_visit *visit, struct kiln_text *out, struct kiln_error *err)
{
    struct table table = {.out = out};
    int rc = kiln_troubles_pauses(kiln_gallery_app(visit)->cli, visit->session, false, add_pause,
                                  &table, err);
    kiln_text_puts(out, table.rows ? "</ul>" : "");
    return rc;
}

static void add_counts(struct kiln_text *out, const struct kiln_counts *counts)
{
    kiln_text_puts(out, "<h2>Jobs</h2><dl class=\"keys\">");
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++) {
        const bool why = state == KILN_JOB_FAILED && counts->at[state] > 0;
        kiln_text_printf(out, "<div><dt>%s</dt><dd>%s",
                         kiln_job_state_name((enum kiln_job_state)state),
                         why ? "<a href=\"#failed\">" : "");
        kiln_html_count(out, counts->at[state]);
        kiln_text_puts(out, why ? "</a></dd></div>" : "</dd></div>");
    }
    kiln_text_puts(out, "</dl>");
}

/* The example's own sentence may quote a prompt: `kiln show` has it. */
static int each_cause(void *arg, const struct kiln_cause_row *cause, struct kiln_error *err)
{
    struct table *table = arg;
    struct kiln_text *out = table->out;
    (void)err;
    if (table->rows++ >= ROWS_MAX)
        return 0;
    kiln_text_puts(out, "<tr><td class=\"n\">");
    kiln_html_count(out, cause->jobs);
    kiln_text_printf(out, "</td><td>%s: ", kiln_code_name(cause->code));
    kiln_html(out, cause->cause);
    kiln_text_puts(out, "</td><td>");
    kiln_html(out, kiln_cause_next(cause->code));
    kiln_text_printf(out, "</td><td>%" PRIu64 " of <a href=\"/?batch=", cause->example);
    kiln_url(out, cause->batch);
    kiln_text_puts(out, "\"><bdi>");
    kiln_html(out, cause->batch);
    kiln_text_puts(out, "</bdi></a></td>");
    time_cell(out, cause->last_ms);
    kiln_text_puts(out, "</tr>\n");
    return 0;
}

static int add_causes(struct kiln_web_visit *visit, struct kiln_text *out, struct kiln_error *err)
{
    static const char *const columns[] = {"#Jobs",      "Why",    "What to do",
                                          "Newest job", "Failed", NULL};
    struct table table = {.out = out};
    kiln_text_puts(out, "<div id=\"failed\">");
    begin(out, "Failed jobs of the last week", columns);
    int rc = kiln_ledger_causes(visit->session, kiln_gallery_app(visit)->pool, NULL,
                                kiln_wall_ms() - WEEK_MS, each_cause, &table, err);
    end(&table, "No job has failed.");
    kiln_text_puts(out, "</div>");
    return rc;
}

/* --- the page --------------------------------------------------------------------------------- */

/* Writes nothing if nothing is in the way. */
static void add_troubles(struct kiln_text *out, const struct kiln_troubles *troubles)
{
    if (troubles->count == 0)
        return;
    kiln_text_puts(out, "<h2>In the way</h2><ul class=\"troubles\">");
    for (size_t i = 0; i < troubles->count; i++) {
        kiln_text_puts(out, "<li><strong>");
        kiln_html(out, troubles->at[i].text);
        kiln_text_puts(out, "</strong><br>");
        kiln_html(out, troubles->at[i].next);
        kiln_text_puts(out, "</li>\n");
    }
    kiln_text_puts(out, "</ul>");
}

static int look(struct kiln_web_visit *visit, struct kiln_text *out, struct kiln_error *err)
{
    struct kiln_text waiting = {0};
    struct groups groups = {.table = {.out = &waiting}};
    struct kiln_counts counts;
    struct kiln_roster roster = {0};
    struct kiln_troubles troubles;
    struct kiln_error bus;
    int rc = kiln_ledger_counts(visit->session, kiln_gallery_app(visit)->pool, &counts, err);
    rc = rc ? rc : add_groups(visit, &groups, err);
    rc = rc ? rc
            : kiln_troubles_look_at(kiln_gallery_app(visit)->cli, visit->session, NULL,
                                    &groups.needed, &roster, &bus, &troubles, err);
    if (rc == 0) {
        add_troubles(out, &troubles);
        add_counts(out, &counts);
        rc = counts.at[KILN_JOB_FAILED] ? add_causes(visit, out, err) : 0;
        add_workers(out, &roster, &bus);
        rc = rc ? rc : add_pauses(visit, out, err);
        kiln_text_add(out, waiting.at, waiting.len);
        out->failed = out->failed || waiting.failed;
    }
    kiln_roster_release(&roster);
    kiln_text_release(&waiting);
    return rc;
}

int kiln_gallery_fleet(struct kiln_web_visit *visit, struct kiln_error *err)
{
    static struct kiln_gallery_kept seen = KILN_GALLERY_KEPT;
    struct kiln_text *out = &visit->reply.body, text = {0};
    int rc = 0;
    kiln_gallery_begin(
        visit, &(struct kiln_gallery_page_head){.title = "Fleet", .here = "fleet", .wide = true});
    kiln_text_puts(out, "<h1>Fleet</h1>");
    const size_t before = out->len;
    if (!kiln_gallery_kept_add(&seen, out)) {
        rc = look(visit, &text, err);
        if (rc)
            kiln_text_release(&text);
        kiln_gallery_keep(&seen, &text, LOOK_MS, out);
    } else if (out->len == before) {
        kiln_text_puts(out, "<p role=\"status\">The fleet is being read. Load this page again in a "
                            "few seconds.</p>");
    }
    if (rc == 0)
        kiln_gallery_end(visit);
    return rc;
}
