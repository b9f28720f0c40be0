/* view.c - laying out the lines of `kiln watch`.
 *
 * The top says how the pool is, the rest of the screen is shared between workers, groups and
 * failures: each gets its rows if there is room for all, otherwise failures and groups keep a share
 * and workers, what people look at, get the rest.  Names come from people and from other machines:
 * kiln_safe_line cleans each line before it reaches a terminal, and each name before its column is
 * cut, so that the columns behind it keep their places.
 */
#include "scheduler/cli/fleet/watch/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/text_safe.h"

#define NAME_MIN 8
#define LATE_S 4 /* an older look is said to be old, whether or not it is known why */
#define DEVICE_COLUMNS 8
#define HOST_COLUMNS 16
#define MODEL_COLUMNS 20
#define TROUBLES_SHOWN 3
#define LEAST_ROWS 2 /* of a section that has anything to show */

struct page {
    struct kiln_view *view;
    struct kiln_line *lines;
    int width, height, used;
};

/* --- lines ------------------------------------------------------------------------------------ */

static void KILN_PRINTF(3, 4) put(struct page *page, enum kiln_ink ink, const char *fmt, ...)
{
    if (page->used >= page->height)
        return;
    struct kiln_line *line = &page->lines[page->used++];
    char text[KILN_VIEW_LINE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kiln_safe_line(text, line->text, sizeof line->text);
    line->ink = ink;
}

/* "45 s", "12 min", "3 h", "2 d" */
static const char *age_text(double seconds, char *out, size_t size)
{
    double s = seconds > 0 ? seconds : 0;
    if (s < 100)
        snprintf(out, size, "%.0f s", s);
    else if (s < 6000)
        snprintf(out, size, "%.0f min", s / 60);
    else if (s < 172800)
        snprintf(out, size, "%.0f h", s / 3600);
    else
        snprintf(out, size, "%.0f d", s / 86400);
    return out;
}

/* --- the top ---------------------------------------------------------------------------------- */

static void put_rate(struct page *page, const struct kiln_counts *counts)
{
    double rate = kiln_rate_per_min(page->view->rates, KILN_RATE_ENDED, page->view->now_s);
    uint64_t left = counts->at[KILN_JOB_QUEUED] + counts->at[KILN_JOB_ASSIGNED];
    char time_left[32];
    if (rate <= 0)
        put(page, KILN_INK_PLAIN, " pace     nothing was done in the last minute");
    else if (left == 0)
        put(page, KILN_INK_PLAIN, " pace     %.1f done a minute, nothing waits", rate);
    else
        put(page, KILN_INK_PLAIN, " pace     %.1f done a minute, about %s left", rate,
            kiln_seconds_text((double)left * 60 / rate, time_left, sizeof time_left));
}

static void put_batch(struct page *page, const struct kiln_progress *batch)
{
    uint64_t total = 0, ended;
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        total += batch->jobs.at[state];
    ended = total - batch->jobs.at[KILN_JOB_QUEUED] - batch->jobs.at[KILN_JOB_ASSIGNED];
    char bar[41];
    int room = page->width < 100 ? 20 : 40,
        full = total ? (int)(ended * (uint64_t)room / total) : 0;
    memset(bar, '-', (size_t)room);
    memset(bar, '#', (size_t)full);
    bar[room] = '\0';
    put(page, KILN_INK_HEAD, " batch    [%s] %3.0f %%  %llu of %llu ended  %s%s", bar,
        total ? 100.0 * (double)ended / (double)total : 0, (unsigned long long)ended,
        (unsigned long long)total, page->view->batch, batch->whole ? "" : " (still coming in)");
}

/* Two lines each, the second says what to do; the pauses follow. */
static void put_troubles(struct page *page, const struct kiln_troubles *troubles)
{
    size_t shown = 0;
    for (size_t i = 0; i < troubles->count; i++) {
        const struct kiln_trouble *at = &troubles->at[i];
        if (at->kind == KILN_TROUBLE_PAUSED)
            continue;
        if (shown++ == TROUBLES_SHOWN) {
            put(page, KILN_INK_WARN, " ! and %zu more: `kiln status`", troubles->count - i);
            return;
        }
        put(page, at->stops ? KILN_INK_BAD : KILN_INK_WARN, " ! %s", at->text);
        put(page, KILN_INK_PLAIN, "   %s", at->next);
    }
}

/* Everything that keeps jobs from being rendered. */
static void put_warnings(struct page *page, const struct kiln_snapshot *look)
{
    size_t i;
    json_t *pause;
    char age[16];
    double age_s = page->view->now_s - page->view->look_s;
    bool late = !page->view->held && age_s > LATE_S + (double)page->view->interval_s;
    if (page->view->trouble[0] || late)
        put(page, KILN_INK_BAD, " ! %s; this view is %s old",
            page->view->trouble[0] ? page->view->trouble : "a server is slow to answer",
            age_text(age_s, age, sizeof age));
    put_troubles(page, &look->troubles);
    json_array_foreach(look->pauses, i, pause)
    {
        if (i == 2) {
            put(page, KILN_INK_WARN, " ! paused: and %zu more", json_array_size(look->pauses) - i);
            break;
        }
        put(page, KILN_INK_WARN, " ! paused: %s",
            json_string_value(json_object_get(pause, "text")));
    }
    if (look->intake)
        put(page, KILN_INK_WARN, " ! %llu entries wait in the intake stream",
            (unsigned long long)look->intake);
}

static void put_top(struct page *page)
{
    const struct kiln_snapshot *look = page->view->look;
    char now[64], jobs[256];
    size_t used = 0;
    put(page, KILN_INK_TITLE, " kiln watch   pool %s   %.19sZ%s", page->view->pool,
        kiln_time_text(page->view->now_ms, now, sizeof now),
        page->view->held ? "   STOPPED: space continues" : "");
    if (!look) {
        bool failed = page->view->trouble[0] != '\0';
        put(page, failed ? KILN_INK_BAD : KILN_INK_PLAIN, " %s%s", failed ? "! " : "",
            failed ? page->view->trouble : "looking ...");
        return;
    }
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        used += (size_t)snprintf(jobs + used, sizeof jobs - used, "%llu %s   ",
                                 (unsigned long long)look->counts.at[state],
                                 kiln_job_state_name((enum kiln_job_state)state));
    put(page, KILN_INK_PLAIN, " jobs     %s", jobs);
    put_rate(page, kiln_snapshot_counts(look));
    if (look->has_batch)
        put_batch(page, &look->batch);
    put_warnings(page, look);
}

/* --- workers ---------------------------------------------------------------------------------- */

void kiln_view_rate_name(const struct kiln_roster_worker *worker, char *out, size_t size)
{
    snprintf(out, size, "%s %lld", worker->row.name, (long long)worker->beat.started_ms);
}

enum doing { BUSY, IDLE, DRAINS, DEAF, GONE, DOINGS };
static const char *const doing_names[DOINGS] = {"busy", "idle", "drains", "deaf", "gone"};
static const enum kiln_ink doing_inks[DOINGS] = {KILN_INK_GOOD, KILN_INK_PLAIN, KILN_INK_WARN,
                                                 KILN_INK_BAD, KILN_INK_BAD};

static enum doing doing_of(const struct kiln_snapshot *look,
                           const struct kiln_roster_worker *worker)
{
    double lease_ms = kiln_config_number(look->cli->config, KILN_KEY_LEASE_S) * 1e3;
    if (!worker->live)
        return GONE;
    if (worker->beat.draining)
        return DRAINS;
    if (worker->beat.deaf_ms > lease_ms)
        return DEAF;
    return worker->beat.steps ? BUSY : IDLE;
}

/* Live workers, and lost ones that still have jobs assigned. */
static bool is_shown(const struct kiln_roster_worker *worker)
{
    return worker->live || worker->row.assigned > 0;
}

static size_t count_workers(const struct kiln_snapshot *look, uint32_t ret_doing[DOINGS])
{
    size_t shown = 0;
    for (size_t i = 0; i < look->roster.count; i++) {
        if (!is_shown(&look->roster.at[i]))
            continue;
        ret_doing[doing_of(look, &look->roster.at[i])]++;
        shown++;
    }
    return shown;
}

static int name_width(const struct page *page)
{
    const struct kiln_roster *roster = &page->view->look->roster;
    int longest = NAME_MIN, limit = page->width > 60 ? page->width / 5 : 12;
    for (size_t i = 0; i < roster->count; i++) {
        int columns = kiln_safe_columns(roster->at[i].row.name);
        if (is_shown(&roster->at[i]) && columns > longest)
            longest = columns;
    }
    return longest < limit ? longest : limit;
}

static void put_worker(struct page *page, const struct kiln_roster_worker *worker, int width)
{
    const struct kiln_heartbeat *beat = &worker->beat;
    enum doing doing = doing_of(page->view->look, worker);
    char idle[8], step[24] = "-", has[KILN_LORA_SET_MAX + 48] = "", rate_name[96], far[192] = "";
    char device[40], host[72], model[88];
    struct kiln_text name = {0};
    /* Cut in the middle: names of one host differ in their ends. */
    kiln_text_cell(&name, page->width, worker->row.name, width);
    if (beat->steps)
        snprintf(step, sizeof step, "%u/%u", beat->step, beat->steps);
    if (beat->width)
        snprintf(has, sizeof has, "%ux%u %s", beat->width, beat->height, beat->lora_set);
    if (page->width >= 120)
        snprintf(far, sizeof far, "%s %s ",
                 kiln_safe_cell(beat->host[0] ? beat->host : worker->row.host, HOST_COLUMNS, host,
                                sizeof host),
                 kiln_safe_cell(beat->model, MODEL_COLUMNS, model, sizeof model));
    kiln_view_rate_name(worker, rate_name, sizeof rate_name);
    put(page, doing_inks[doing], " %s %-6s %s %7s %4llu %7llu %5llu %6.1f %5s  %s%s",
        name.at ? name.at : "", doing_names[doing],
        kiln_safe_cell(worker->live ? beat->device : worker->row.device, DEVICE_COLUMNS, device,
                       sizeof device),
        step, (unsigned long long)worker->row.assigned, (unsigned long long)beat->done,
        (unsigned long long)beat->failed,
        kiln_rate_per_min(page->view->rates, rate_name, page->view->now_s),
        worker->live ? kiln_roster_idle(beat, idle) : "-", far, has);
    kiln_text_release(&name);
}

static void put_workers(struct page *page, size_t from, size_t count)
{
    const struct kiln_roster *roster = &page->view->look->roster;
    int name = name_width(page);
    char far[64] = "";
    if (page->width >= 120)
        snprintf(far, sizeof far, "%-*s %-*s ", HOST_COLUMNS, "HOST", MODEL_COLUMNS, "MODEL");
    put(page, KILN_INK_HEAD, " %-*s %-6s %-*s %7s %4s %7s %5s %6s %5s  %s%s", name, "NAME", "NOW",
        DEVICE_COLUMNS, "DEVICE", "STEP", "JOBS", "DONE", "FAIL", "/MIN", "IDLE", far,
        "HAS LOADED");
    for (size_t i = 0, at = 0; i < roster->count; i++) {
        if (!is_shown(&roster->at[i]))
            continue;
        if (at >= from && at < from + count)
            put_worker(page, &roster->at[i], name);
        at++;
    }
}

/* --- groups ----------------------------------------------------------------------------------- */

/* Seconds since a time as kiln_time_text writes it; negative: none. */
static double since(const struct page *page, const char *text)
{
    struct tm parts = {0};
    if (!text || !strptime(text, "%Y-%m-%dT%H:%M:%S", &parts))
        return -1;
    return (double)page->view->now_ms / 1e3 - (double)timegm(&parts);
}

static void put_group(struct page *page, const json_t *group)
{
    const char *loras = json_string_value(json_object_get(group, "loras"));
    const char *model = json_string_value(json_object_get(group, "model"));
    const char *mode = json_string_value(json_object_get(group, "mode"));
    bool exact = !mode || strcmp(mode, kiln_mode_shown("")) == 0;
    double age_s = since(page, json_string_value(json_object_get(group, "oldest")));
    char size[32], age[16];
    snprintf(size, sizeof size, "%lldx%lld",
             (long long)json_integer_value(json_object_get(group, "width")),
             (long long)json_integer_value(json_object_get(group, "height")));
    put(page, KILN_INK_PLAIN, " %8lld %8lld  %-11s %5lld %8s  %s%s%s%s%s",
        (long long)json_integer_value(json_object_get(group, "queued")),
        (long long)json_integer_value(json_object_get(group, "assigned")), size,
        (long long)json_integer_value(json_object_get(group, "steps")),
        age_s < 0 ? "-" : age_text(age_s, age, sizeof age), loras && loras[0] ? loras : "no LoRA",
        exact ? "" : "  ", exact ? "" : mode, model && model[0] ? "  " : "", model ? model : "");
}

static void put_groups(struct page *page, size_t from, size_t count)
{
    put(page, KILN_INK_HEAD, " %8s %8s  %-11s %5s %8s  %s", "QUEUED", "ASSIGNED", "SIZE", "STEPS",
        "OLDEST", "LORAS");
    for (size_t i = from; i < from + count; i++)
        put_group(page, json_array_get(page->view->look->groups, i));
}

/* --- failures --------------------------------------------------------------------------------- */

static void put_failures(struct page *page, size_t from, size_t count)
{
    put(page, KILN_INK_HEAD, " %8s %8s  %-11s %s", "JOBS", "EXAMPLE", "CODE", "CAUSE");
    for (size_t i = from; i < from + count; i++) {
        const struct kiln_cause_shown *cause = &page->view->causes[i];
        put(page, KILN_INK_BAD, " %8llu %8llu  %-11s %s", (unsigned long long)cause->jobs,
            (unsigned long long)cause->example, kiln_code_name(cause->code), cause->cause);
    }
}

/* --- sections --------------------------------------------------------------------------------- */

struct section {
    size_t total;
    int rows; /* it gets, without its two headings */
};

static int least(size_t total, int rows)
{
    return total < (size_t)rows ? (int)total : rows;
}

/* Rows for all if they fit; else failures and groups keep a share and workers get the rest. */
static void share_rows(struct section sections[KILN_SECTIONS], int rows)
{
    struct section *workers = &sections[KILN_SECTION_WORKERS];
    struct section *groups = &sections[KILN_SECTION_GROUPS];
    struct section *failures = &sections[KILN_SECTION_FAILURES];
    failures->rows = least(failures->total, rows / 6 > LEAST_ROWS ? rows / 6 : LEAST_ROWS);
    groups->rows = least(groups->total, rows / 4 > LEAST_ROWS ? rows / 4 : LEAST_ROWS);
    workers->rows = least(workers->total, rows - groups->rows - failures->rows);
    groups->rows = least(groups->total, rows - workers->rows - failures->rows);
    failures->rows = least(failures->total, rows - workers->rows - groups->rows);
}

static void put_heading(struct page *page, enum kiln_section section, const struct section *of)
{
    const struct kiln_view *view = page->view;
    bool chosen = view->section == section;
    char where[64] = "", text[160];
    uint32_t doing[DOINGS] = {0};
    uint64_t failed = 0;
    if ((size_t)of->rows < of->total)
        snprintf(where, sizeof where, "   %zu to %zu of %zu", view->from[section] + 1,
                 view->from[section] + (size_t)of->rows, of->total);
    switch (section) {
    case KILN_SECTION_WORKERS:
        count_workers(view->look, doing);
        snprintf(text, sizeof text,
                 "WORKERS   %u live: %u busy, %u idle, %u drain, %u deaf; %u gone",
                 doing[BUSY] + doing[IDLE] + doing[DRAINS] + doing[DEAF], doing[BUSY], doing[IDLE],
                 doing[DRAINS], doing[DEAF], doing[GONE]);
        break;
    case KILN_SECTION_GROUPS:
        snprintf(text, sizeof text, "GROUPS    %zu with work", of->total);
        break;
    default:
        for (size_t i = 0; i < view->cause_count; i++)
            failed += view->causes[i].jobs;
        snprintf(text, sizeof text, "FAILURES  %llu job%s, %zu cause%s, in the last hour",
                 (unsigned long long)failed, failed == 1 ? "" : "s", of->total,
                 of->total == 1 ? "" : "s");
        break;
    }
    put(page, KILN_INK_TITLE, "%c%s%s", chosen ? '>' : ' ', text, where);
}

/* Scrolled at most so far that the last row is on the screen. */
static void put_section(struct page *page, enum kiln_section section, const struct section *of)
{
    static void (*const put_rows[])(struct page *, size_t, size_t) = {put_workers, put_groups,
                                                                      put_failures};
    size_t *from = &page->view->from[section], rows = of->rows > 0 ? (size_t)of->rows : 0;
    if (*from > of->total - rows)
        *from = of->total - rows;
    put_heading(page, section, of);
    if (rows > 0)
        put_rows[section](page, *from, rows);
}

static void put_sections(struct page *page, int end)
{
    uint32_t doing[DOINGS] = {0};
    struct section sections[KILN_SECTIONS] = {
        [KILN_SECTION_WORKERS] = {.total = count_workers(page->view->look, doing)},
        [KILN_SECTION_GROUPS] = {.total = json_array_size(page->view->look->groups)},
        [KILN_SECTION_FAILURES] = {.total = page->view->cause_count},
    };
    int rows = end - page->used;
    for (int i = 0; i < KILN_SECTIONS; i++)
        rows -= sections[i].total > 0 ? 2 : 1;
    share_rows(sections, rows > 0 ? rows : 0);
    for (int i = 0; i < KILN_SECTIONS && page->used < end; i++)
        put_section(page, (enum kiln_section)i, &sections[i]);
}

void kiln_view_lay(struct kiln_view *view, int width, int height, struct kiln_line *lines)
{
    struct page page = {.view = view, .lines = lines, .width = width, .height = height - 1};
    put_top(&page);
    if (view->look)
        put_sections(&page, height - 1);
    page.height = height;
    while (page.used < height - 1)
        put(&page, KILN_INK_PLAIN, "%s", "");
    put(&page, KILN_INK_TITLE,
        " q quit   tab section   arrows scroll   space stop   + - every %ld s", view->interval_s);
}
