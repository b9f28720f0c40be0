/* top_up.c - see top_up.h. */
#include "scheduler/intake/top_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/intake/day_quota.h"
#include "scheduler/intake/page.h"
#include "scheduler/intake/routes.h"
#include "scheduler/intake/window.h"
#include "schemas/digest.h"
#include "schemas/job/expand.h"
#include "schemas/job/styles.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"
#include "schemas/text/text.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/styles_file.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/backfill.h"

#define KEY_MAX 64
#define PAGE_BYTES (4 * 1024 * 1024) /* of prompts in one step of a backfill, about */

struct kiln_top_up {
    const char *pool;
    struct kiln_ledger *ledger;
    struct kiln_styles *styles;
    struct kiln_job_context context; /* of the current backfill */
    struct kiln_expand *expand;
    struct kiln_text line; /* scratch: what a key is made of */
    struct kiln_backfill_due *backfills;
    size_t backfill_count, backfill_room;
    /* the page of the current backfill */
    const struct kiln_backfill_due *backfill;
    struct kiln_new_job *jobs; /* [KILN_TOP_UP_MAX] */
    char (*keys)[KEY_MAX];     /* [KILN_TOP_UP_MAX] */
    size_t job_count, job_bytes, wanted;
    struct kiln_routes *routes;
    bool turned;             /* the registry was looked at in this step */
    struct kiln_error fault; /* a line that makes no jobs any more */
    struct kiln_day_quota day;
};

/* --- opening --------------------------------------------------------------------------------- */
static void drop_backfills(struct kiln_top_up *t)
{
    for (size_t i = 0; i < t->backfill_count; i++)
        free((char *)t->backfills[i].overrides);
    t->backfill_count = 0;
}

static void drop_jobs(struct kiln_top_up *t)
{
    for (size_t i = 0; i < t->job_count; i++)
        kiln_job_release(&t->jobs[i].job);
    t->job_count = t->job_bytes = 0;
}

int kiln_top_up_open(const struct kiln_config *config, struct kiln_routes *routes,
                     struct kiln_top_up **ret, struct kiln_error *err)
{
    struct kiln_top_up *t = calloc(1, sizeof(*t));
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the backfills");
    tzset(); /* localtime_r need not do it */
    t->pool = kiln_config_text(config, KILN_KEY_POOL);
    t->routes = routes;
    t->expand = kiln_expand_new();
    t->jobs = calloc(KILN_TOP_UP_MAX, sizeof(*t->jobs));
    t->keys = calloc(KILN_TOP_UP_MAX, sizeof(*t->keys));
    int rc = t->expand && t->jobs && t->keys
                 ? 0
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the backfills");
    rc = rc ? rc : kiln_ledger_open(config, "kiln-scheduler standing", &t->ledger, err);
    rc =
        rc ? rc : kiln_styles_file_read(kiln_config_text(config, KILN_KEY_STYLES), &t->styles, err);
    rc = rc ? rc : kiln_job_context_modes(&t->context, config, err);
    rc = rc ? rc : kiln_model_card_context(config, &t->context, err);
    t->context.styles = t->styles;
    t->context.recorded = true; /* the lines were checked when the backfill was added */
    if (rc) {
        kiln_top_up_close(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void kiln_top_up_close(struct kiln_top_up *t)
{
    if (!t)
        return;
    if (t->jobs)
        drop_jobs(t);
    drop_backfills(t);
    kiln_ledger_close(t->ledger);
    kiln_styles_free(t->styles);
    kiln_expand_free(t->expand);
    kiln_text_release(&t->line);
    free(t->backfills);
    free(t->jobs);
    free(t->keys);
    free(t);
}

/* --- the backfills ---------------------------------------------------------------------------- */
static int keep_backfill(void *arg, const struct kiln_backfill_due *due, struct kiln_error *err)
{
    struct kiln_top_up *t = arg;
    struct kiln_backfill_due *at =
        kiln_room(t->backfills, t->backfill_count, &t->backfill_room, sizeof(*at));
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the backfills");
    t->backfills = at;
    char *overrides = strdup(due->overrides);
    if (!overrides)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a backfill");
    t->backfills[t->backfill_count] = *due;
    t->backfills[t->backfill_count++].overrides = overrides;
    return 0;
}

/* Whether the backfill is within its window now.  A change goes into the ledger, so that its
 * waiting jobs are paused and everybody can see why. */
static int check_window(struct kiln_top_up *t, struct kiln_backfill_due *backfill, bool *ret_open,
                        struct kiln_error *err)
{
    const struct kiln_window window = {backfill->window_from, backfill->window_to};
    time_t now = time(NULL);
    struct tm local;
    *ret_open = kiln_window_open(&window, now);
    if (*ret_open != backfill->closed)
        return 0;
    struct kiln_pause pause = {.scope = KILN_SCOPE_WINDOW, .who = "scheduler", .held = !*ret_open};
    struct kiln_pause before;
    char hours[16], zone[32] = "";
    kiln_window_text(&window, hours, sizeof(hours));
    if (localtime_r(&now, &local))
        strftime(zone, sizeof(zone), "%Z", &local);
    snprintf(pause.name, sizeof(pause.name), "%s", backfill->name);
    snprintf(pause.reason, sizeof(pause.reason), "its hours are %s %s", hours, zone);
    pause.until_ms = pause.held ? (int64_t)kiln_window_next(&window, now) * 1000 : 0;
    kiln_log(KILN_LOG_INFO, "window", kiln_f("order", "%s", backfill->name),
             kiln_f("open", "%d", (int)*ret_open), kiln_f("hours", "%s", hours));
    return kiln_ledger_pause(t->ledger, t->pool, &pause, &before, err);
}

/* --- jobs ------------------------------------------------------------------------------------ */
static uint64_t place_of(const struct kiln_backfill_due *backfill)
{
    return backfill->cursor % backfill->pass_jobs;
}

static int choose_for(void *arg, size_t at, struct kiln_error *err)
{
    struct kiln_top_up *t = arg;
    return kiln_routes_choose(t->routes, &t->jobs[at].job, err);
}

/* Called after the keys are made, because the choice is not part of them. */
static int choose_loras(struct kiln_top_up *t, struct kiln_error *err)
{
    if (!kiln_routes_are_wanted(t->jobs, t->job_count))
        return 0;
    if (!t->turned)
        kiln_routes_turn(t->routes);
    t->turned = true;
    return kiln_routes_choose_all(t->routes, t->jobs, t->job_count, choose_for, t, err);
}

/* Lowest priority and no deadline, whatever the line says: that is what makes it backfill.  Its key
 * is the line without its seed, hashed, and the seed. */
static int add_job(struct kiln_top_up *t, uint64_t which, struct kiln_error *err)
{
    struct kiln_new_job *new = &t->jobs[t->job_count];
    char *key = t->keys[t->job_count], hex[33];
    char name[sizeof(KILN_BACKFILL_BATCH) + KILN_NAME_MAX];
    uint8_t digest[KILN_SHA256_SIZE];
    uint64_t number = t->backfill->cursor + t->job_count;
    memset(new, 0, sizeof(*new));
    int rc = kiln_expand_job(t->expand, which, &new->job, err);
    if (rc)
        return rc;
    t->job_count++;
    t->job_bytes += strlen(new->job.prompt);
    new->job.priority = KILN_PRIORITY_BACKFILL;
    new->job.max_wait_s = 0;
    new->job.index = (uint32_t)number;
    new->token = "";
    new->key = key;
    if (!kiln_expand_has_seed(t->expand) || number >= t->backfill->pass_jobs) {
        char count[24];
        snprintf(name, sizeof(name), KILN_BACKFILL_BATCH "%s", t->backfill->name);
        snprintf(count, sizeof(count), "%llu", (unsigned long long)number);
        new->job.seed = kiln_seed_derive(name, count);
    }
    kiln_text_clear(&t->line);
    kiln_job_line_write(&new->job, false, &t->line);
    if (t->line.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
    kiln_sha256(t->line.at, t->line.len, digest);
    kiln_hex(digest, 16, hex);
    snprintf(key, KEY_MAX, "p:%s:%llu", hex, (unsigned long long)new->job.seed);
    return 0;
}

/* A line that was valid when the backfill was added may have lost its style since. */
static int walk_line(void *arg, const struct kiln_backfill_line *line, struct kiln_error *err)
{
    struct kiln_top_up *t = arg;
    uint64_t place = place_of(t->backfill) + t->job_count;
    struct kiln_error why;
    if (t->fault.code || place < line->first || place >= line->first + line->jobs)
        return 0; /* after a line that was cut short by the size of the page */
    int rc = kiln_expand_begin(t->expand, line->line, strlen(line->line), &t->context, &why);
    if (rc == 0 && kiln_expand_count(t->expand) != line->jobs)
        rc = kiln_fail(&why, KILN_BAD_INPUT, "it makes %llu jobs now and made %llu",
                       (unsigned long long)kiln_expand_count(t->expand),
                       (unsigned long long)line->jobs);
    if (rc == KILN_NO_MEMORY)
        return kiln_fail(err, rc, "%s", why.text);
    if (rc) {
        (void)kiln_fail(&t->fault, rc, "the prompt of job %llu of a pass: %s",
                        (unsigned long long)line->first, why.text);
        return 0;
    }
    for (uint64_t which = place - line->first; which < line->jobs && rc == 0; which++) {
        if (t->job_count == t->wanted || t->job_bytes > PAGE_BYTES)
            return 0;
        rc = add_job(t, which, err);
    }
    return rc;
}

static int top_up_one(struct kiln_top_up *t, const struct kiln_backfill_due *backfill,
                      struct kiln_top_up_made *ret, struct kiln_error *err)
{
    t->backfill = backfill;
    t->context.overrides = backfill->overrides[0] ? backfill->overrides : NULL;
    t->context.width = backfill->width;
    t->context.height = backfill->height;
    t->wanted = backfill->room < KILN_TOP_UP_MAX ? (size_t)backfill->room : KILN_TOP_UP_MAX;
    t->fault = (struct kiln_error){0};
    int rc = kiln_ledger_backfill_walk(t->ledger, backfill->id, place_of(backfill),
                                       (uint32_t)t->wanted, walk_line, t, err);
    rc = rc ? rc : choose_loras(t, err);
    uint64_t made = 0, again = 0;
    if (rc == 0 && t->job_count)
        rc = kiln_ledger_top_up(t->ledger, t->pool, backfill, t->jobs, t->job_count, t->job_count,
                                &made, &again, err);
    ret->fresh += made;
    ret->again += again;
    if (rc == 0 && made + again > 0)
        kiln_log(KILN_LOG_DEBUG, "topped_up", kiln_f("order", "%s", backfill->name),
                 kiln_f("jobs", "%llu", (unsigned long long)made),
                 kiln_f("again", "%llu", (unsigned long long)again));
    /* A page ends where its pass ends. */
    ret->more = ret->more || (t->job_count > 0 && backfill->room > t->job_count);
    if (rc && !kiln_page_waits(rc)) { /* the ledger refuses a job: that stops no other backfill */
        t->fault = *err;
        rc = 0;
    }
    if (rc == 0 && t->fault.code) {
        kiln_log(KILN_LOG_WARNING, "standing_order_failed", kiln_f("order", "%s", backfill->name),
                 kiln_f("error", "%s", t->fault.text));
        rc = kiln_ledger_backfill_fail(t->ledger, backfill->id, t->fault.text, err);
    }
    drop_jobs(t);
    return rc;
}

int kiln_top_up_step(struct kiln_top_up *t, struct kiln_top_up_made *ret, struct kiln_error *err)
{
    t->turned = false;
    *ret = (struct kiln_top_up_made){0};
    drop_backfills(t);
    int rc = kiln_day_quota_check(&t->day, t->ledger, t->pool, err);
    rc = rc ? rc : kiln_ledger_backfills_due(t->ledger, t->pool, keep_backfill, t, err);
    for (size_t i = 0; i < t->backfill_count && rc == 0; i++) {
        struct kiln_backfill_due *backfill = &t->backfills[i];
        bool open = true;
        rc = check_window(t, backfill, &open, err);
        if (rc || !open || backfill->room == 0)
            continue;
        rc = top_up_one(t, backfill, ret, err);
    }
    return rc;
}
