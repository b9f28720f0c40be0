/* standing.c - see standing.h. */
#include "scheduler/intake/standing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/intake/day_quota.h"
#include "scheduler/intake/intake.h"
#include "scheduler/intake/page.h"
#include "scheduler/intake/window.h"
#include "schemas/digest.h"
#include "schemas/expand.h"
#include "schemas/log.h"
#include "schemas/room.h"
#include "schemas/styles.h"
#include "schemas/text.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/backfill.h"

#define KEY_MAX 64
#define PAGE_BYTES (4 * 1024 * 1024) /* of texts in one step of an order, about */

struct kiln_standing {
    const char *pool;
    struct kiln_ledger *ledger;
    struct kiln_styles *styles;
    struct kiln_job_context context; /* of the order in hand */
    struct kiln_expand *expand;
    struct kiln_text line; /* scratch: what an identity is made of */
    struct kiln_backfill_due *orders;
    size_t order_count, order_room;
    /* the page of the order in hand */
    const struct kiln_backfill_due *order;
    struct kiln_new_job *jobs; /* [KILN_TOP_UP_MAX] */
    char (*keys)[KEY_MAX];     /* [KILN_TOP_UP_MAX] */
    size_t job_count, job_bytes, wanted;
    struct kiln_error fault; /* a line that makes no jobs any more */
    struct kiln_day_quota day;
};

/* --- opening --------------------------------------------------------------------------------- */
static void drop_orders(struct kiln_standing *standing)
{
    for (size_t i = 0; i < standing->order_count; i++)
        free((char *)standing->orders[i].overrides);
    standing->order_count = 0;
}

static void drop_jobs(struct kiln_standing *standing)
{
    for (size_t i = 0; i < standing->job_count; i++)
        kiln_job_release(&standing->jobs[i].job);
    standing->job_count = standing->job_bytes = 0;
}

int kiln_standing_open(const struct kiln_config *config, struct kiln_standing **ret,
                       struct kiln_error *err)
{
    struct kiln_standing *standing = calloc(1, sizeof(*standing));
    if (!standing)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the standing orders");
    tzset(); /* localtime_r need not do it */
    standing->pool = kiln_config_text(config, KILN_KEY_POOL);
    standing->expand = kiln_expand_new();
    standing->jobs = calloc(KILN_TOP_UP_MAX, sizeof(*standing->jobs));
    standing->keys = calloc(KILN_TOP_UP_MAX, sizeof(*standing->keys));
    int rc = standing->expand && standing->jobs && standing->keys
                 ? 0
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the standing orders");
    if (rc == 0)
        rc = kiln_ledger_open(config, "kiln-scheduler standing", &standing->ledger, err);
    if (rc == 0)
        rc = kiln_intake_styles(config, &standing->styles, err);
    standing->context.styles = standing->styles;
    standing->context.recorded = true; /* the lines were checked when the order was given */
    if (rc) {
        kiln_standing_close(standing);
        return rc;
    }
    *ret = standing;
    return 0;
}

void kiln_standing_close(struct kiln_standing *standing)
{
    if (!standing)
        return;
    if (standing->jobs)
        drop_jobs(standing);
    drop_orders(standing);
    kiln_ledger_close(standing->ledger);
    kiln_styles_free(standing->styles);
    kiln_expand_free(standing->expand);
    kiln_text_release(&standing->line);
    free(standing->orders);
    free(standing->jobs);
    free(standing->keys);
    free(standing);
}

/* --- the orders ------------------------------------------------------------------------------ */
static int keep_order(void *arg, const struct kiln_backfill_due *due, struct kiln_error *err)
{
    struct kiln_standing *standing = arg;
    struct kiln_backfill_due *at =
        kiln_room(standing->orders, standing->order_count, &standing->order_room, sizeof(*at));
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the standing orders");
    standing->orders = at;
    char *overrides = strdup(due->overrides);
    if (!overrides)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a standing order");
    standing->orders[standing->order_count] = *due;
    standing->orders[standing->order_count++].overrides = overrides;
    return 0;
}

/* Whether the order is within its hours now; the ledger is told when that changes, so that what
 * waits of it is held and everybody can see why. */
static int mind_window(struct kiln_standing *standing, struct kiln_backfill_due *order,
                       bool *ret_open, struct kiln_error *err)
{
    const struct kiln_window window = {order->window_from, order->window_to};
    time_t now = time(NULL);
    struct tm local;
    *ret_open = kiln_window_open(&window, now);
    if (*ret_open != order->closed)
        return 0;
    struct kiln_hold hold = {.scope = KILN_SCOPE_WINDOW, .who = "scheduler", .held = !*ret_open};
    struct kiln_hold before;
    char hours[16], zone[32] = "";
    kiln_window_text(&window, hours, sizeof(hours));
    if (localtime_r(&now, &local))
        strftime(zone, sizeof(zone), "%Z", &local);
    snprintf(hold.name, sizeof(hold.name), "%s", order->name);
    snprintf(hold.reason, sizeof(hold.reason), "its hours are %s %s", hours, zone);
    hold.until_ms = hold.held ? (int64_t)kiln_window_next(&window, now) * 1000 : 0;
    kiln_log(KILN_LOG_INFO, "window", kiln_f("order", "%s", order->name),
             kiln_f("open", "%d", (int)*ret_open), kiln_f("hours", "%s", hours));
    return kiln_ledger_hold(standing->ledger, standing->pool, &hold, &before, err);
}

/* --- jobs ------------------------------------------------------------------------------------ */
static uint64_t place_of(const struct kiln_backfill_due *order)
{
    return order->cursor % order->pass_jobs;
}

static uint64_t seed_of(const struct kiln_standing *standing, uint64_t number,
                        const struct kiln_job *job)
{
    const struct kiln_backfill_due *order = standing->order;
    char name[sizeof(KILN_BACKFILL_BATCH) + KILN_NAME_MAX];
    if (kiln_expand_has_seed(standing->expand) && number < order->pass_jobs)
        return job->seed;
    snprintf(name, sizeof(name), KILN_BACKFILL_BATCH "%s", order->name);
    return kiln_seed_derive(name, (uint32_t)number);
}

/* The line without its seed, hashed, and the seed. */
static int make_key(struct kiln_standing *standing, const struct kiln_job *job, char key[KEY_MAX],
                    struct kiln_error *err)
{
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[33];
    kiln_text_clear(&standing->line);
    kiln_job_line_write(job, false, &standing->line);
    if (standing->line.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a job line");
    kiln_sha256(standing->line.at, standing->line.len, digest);
    kiln_hex(digest, 16, hex);
    snprintf(key, KEY_MAX, "p:%s:%llu", hex, (unsigned long long)job->seed);
    return 0;
}

/* Lowest priority and no promise, whatever the line says: that is what makes it backfill. */
static int add_job(struct kiln_standing *standing, uint64_t which, struct kiln_error *err)
{
    struct kiln_new_job *new = &standing->jobs[standing->job_count];
    char *key = standing->keys[standing->job_count];
    uint64_t number = standing->order->cursor + standing->job_count;
    memset(new, 0, sizeof(*new));
    int rc = kiln_expand_job(standing->expand, which, &new->job, err);
    if (rc)
        return rc;
    new->job.priority = KILN_PRIORITY_BACKFILL;
    new->job.max_wait_s = 0;
    new->job.seed = seed_of(standing, number, &new->job);
    new->job.index = (uint32_t)number;
    new->token = "";
    new->key = key;
    standing->job_count++;
    standing->job_bytes += strlen(new->job.prompt);
    return make_key(standing, &new->job, key, err);
}

/* A line that was good when the order was given may have lost its style since. */
static int walk_line(void *arg, const struct kiln_backfill_line *line, struct kiln_error *err)
{
    struct kiln_standing *standing = arg;
    uint64_t place = place_of(standing->order) + standing->job_count;
    struct kiln_error why;
    if (standing->fault.code || place < line->first || place >= line->first + line->jobs)
        return 0; /* after a line that was cut short by the size of the page */
    int rc = kiln_expand_begin(standing->expand, line->line, strlen(line->line), &standing->context,
                               &why);
    if (rc == 0 && kiln_expand_count(standing->expand) != line->jobs)
        rc = kiln_fail(&why, KILN_BAD_INPUT, "it makes %llu jobs now and made %llu",
                       (unsigned long long)kiln_expand_count(standing->expand),
                       (unsigned long long)line->jobs);
    if (rc == KILN_NO_MEMORY)
        return kiln_fail(err, rc, "%s", why.text);
    if (rc) {
        (void)kiln_fail(&standing->fault, rc, "the prompt of job %llu of a pass: %s",
                        (unsigned long long)line->first, why.text);
        return 0;
    }
    for (uint64_t which = place - line->first; which < line->jobs && rc == 0; which++) {
        if (standing->job_count == standing->wanted || standing->job_bytes > PAGE_BYTES)
            return 0;
        rc = add_job(standing, which, err);
    }
    return rc;
}

static int insert(struct kiln_standing *standing, const struct kiln_backfill_due *order,
                  struct kiln_standing_made *ret, struct kiln_error *err)
{
    uint64_t made = 0, again = 0;
    int rc = standing->job_count
                 ? kiln_ledger_top_up(standing->ledger, standing->pool, order, standing->jobs,
                                      standing->job_count, standing->job_count, &made, &again, err)
                 : 0;
    ret->fresh += made;
    ret->again += again;
    if (rc == 0 && made + again > 0)
        kiln_log(KILN_LOG_DEBUG, "topped_up", kiln_f("order", "%s", order->name),
                 kiln_f("jobs", "%llu", (unsigned long long)made),
                 kiln_f("again", "%llu", (unsigned long long)again));
    return rc;
}

static int top_up(struct kiln_standing *standing, const struct kiln_backfill_due *order,
                  struct kiln_standing_made *ret, struct kiln_error *err)
{
    standing->order = order;
    standing->context.overrides = order->overrides[0] ? order->overrides : NULL;
    standing->context.width = order->width;
    standing->context.height = order->height;
    standing->wanted = order->room < KILN_TOP_UP_MAX ? (size_t)order->room : KILN_TOP_UP_MAX;
    standing->fault = (struct kiln_error){0};
    int rc = kiln_ledger_backfill_walk(standing->ledger, order->id, place_of(order),
                                       (uint32_t)standing->wanted, walk_line, standing, err);
    if (rc == 0)
        rc = insert(standing, order, ret, err);
    /* A page ends where its pass ends. */
    ret->more = ret->more || (standing->job_count > 0 && order->room > standing->job_count);
    if (rc && !kiln_page_waits(rc)) { /* the ledger itself refuses a job: that stops no other order */
        standing->fault = *err;
        rc = 0;
    }
    if (rc == 0 && standing->fault.code) {
        kiln_log(KILN_LOG_WARNING, "standing_order_failed", kiln_f("order", "%s", order->name),
                 kiln_f("error", "%s", standing->fault.text));
        rc = kiln_ledger_backfill_fail(standing->ledger, order->id, standing->fault.text, err);
    }
    drop_jobs(standing);
    return rc;
}

int kiln_standing_step(struct kiln_standing *standing, struct kiln_standing_made *ret,
                       struct kiln_error *err)
{
    *ret = (struct kiln_standing_made){0};
    drop_orders(standing);
    int rc = kiln_day_quota_mind(&standing->day, standing->ledger, standing->pool, err);
    if (rc == 0)
        rc = kiln_ledger_backfills_due(standing->ledger, standing->pool, keep_order, standing, err);
    for (size_t i = 0; i < standing->order_count && rc == 0; i++) {
        struct kiln_backfill_due *order = &standing->orders[i];
        bool open = true;
        rc = mind_window(standing, order, &open, err);
        if (rc || !open || order->room == 0)
            continue;
        rc = top_up(standing, order, ret, err);
    }
    return rc;
}
