/* gauges.c - the leader's copy for the exporter, and how it is written.
 *
 * Depth and age come from the policy, jobs by state from the ledger.  Groups that differ only in
 * what no label says (guidance, suspects that run alone) are added up, since two samples may not
 * have the same labels.
 */
#include "scheduler/gauges.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/clock.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/health.h"
#include "storage/ledger/read/read.h"

#define COPY_MS 1000
#define COUNTS_MS 2000
#define COST_MAX 50 /* a copy of very many groups is taken less often: 2 % of the time at most */

struct group {
    char model[KILN_NAME_MAX + 1], lora_set[KILN_LORA_SET_MAX], mode[KILN_MODE_MAX];
    uint32_t width, height, steps, jobs;
    int64_t queued_ms;
    double backlog_s;
};

enum state { RENDERING, IDLE, DRAINING, REFUSED, SILENT, STATES };
static const char *const state_names[STATES] = {"drawing", "idle", "draining", "refused", "silent"};

struct copy {
    bool leads;
    int64_t taken_ms;
    struct kiln_counts jobs;
    struct kiln_policy_counts policy;
    struct group groups[KILN_GAUGES_GROUPS], others;
    uint32_t group_count, workers[STATES];
};

struct kiln_gauges {
    pthread_mutex_t mutex; /* over copy */
    struct copy copy;
    /* the leader's own */
    int64_t copy_due_ms, counts_due_ms;
    struct kiln_counts jobs;
};

struct kiln_gauges *kiln_gauges_new(void)
{
    struct kiln_gauges *gauges = calloc(1, sizeof(*gauges));
    if (gauges)
        pthread_mutex_init(&gauges->mutex, NULL);
    return gauges;
}

void kiln_gauges_free(struct kiln_gauges *gauges)
{
    if (!gauges)
        return;
    pthread_mutex_destroy(&gauges->mutex);
    free(gauges);
}

/* --- taking a copy ---------------------------------------------------------------------------- */
/* In the order of the labels. */
static int by_labels(const void *a, const void *b)
{
    const struct kiln_policy_group *x = a, *y = b;
    const uint32_t of_x[] = {x->width, x->height, x->steps};
    const uint32_t of_y[] = {y->width, y->height, y->steps};
    for (int i = 0; i < 3; i++)
        if (of_x[i] != of_y[i])
            return of_x[i] < of_y[i] ? -1 : 1;
    int order = strcmp(x->model, y->model);
    order = order ? order : strcmp(x->lora_set, y->lora_set);
    return order ? order : strcmp(x->mode, y->mode);
}

static int more_jobs_first(const void *a, const void *b)
{
    const struct kiln_policy_group *x = a, *y = b;
    if (x->jobs != y->jobs)
        return x->jobs < y->jobs ? 1 : -1;
    return by_labels(a, b); /* so that equals keep their places from one page to the next */
}

static void add_up(struct kiln_policy_group *to, const struct kiln_policy_group *from)
{
    to->jobs += from->jobs;
    to->backlog_s += from->backlog_s;
    to->queued_ms = from->queued_ms < to->queued_ms ? from->queued_ms : to->queued_ms;
}

static void copy_group(const struct kiln_policy_group *from, struct group *to)
{
    snprintf(to->model, sizeof(to->model), "%s", from->model);
    snprintf(to->lora_set, sizeof(to->lora_set), "%s", from->lora_set);
    snprintf(to->mode, sizeof(to->mode), "%s", kiln_mode_shown(from->mode));
    to->width = from->width;
    to->height = from->height;
    to->steps = from->steps;
    to->jobs = from->jobs;
    to->queued_ms = from->queued_ms;
    to->backlog_s = from->backlog_s;
}

/* Copies the largest groups, and the sum of the others.  Groups with the same labels are one. */
static void copy_groups(const struct kiln_policy *policy, struct copy *copy)
{
    struct kiln_policy_group others = {
        .model = "other", .lora_set = "other", .mode = "other", .queued_ms = INT64_MAX};
    struct kiln_policy_group *at = calloc(copy->policy.groups + 1, sizeof(*at));
    if (!at)
        return; /* a page without groups; the next one has them */
    size_t count = kiln_policy_groups(policy, at, copy->policy.groups), kept = 0;
    qsort(at, count, sizeof(*at), by_labels);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && by_labels(&at[kept - 1], &at[i]) == 0)
            add_up(&at[kept - 1], &at[i]);
        else if (at[i].jobs > 0)
            at[kept++] = at[i];
    }
    qsort(at, kept, sizeof(*at), more_jobs_first);
    for (size_t i = 0; i < kept; i++) {
        if (i < KILN_GAUGES_GROUPS)
            copy_group(&at[i], &copy->groups[copy->group_count++]);
        else
            add_up(&others, &at[i]);
    }
    copy_group(&others, &copy->others);
    free(at);
}

int kiln_gauges_tend(struct kiln_gauges *gauges, const struct kiln_leader *leader, int64_t now_ms,
                     struct kiln_error *err)
{
    if (now_ms < gauges->copy_due_ms)
        return 0;
    int rc = 0;
    if (now_ms >= gauges->counts_due_ms) {
        rc = kiln_ledger_counts(leader->ledger, leader->pool, &gauges->jobs, err);
        gauges->counts_due_ms = now_ms + COUNTS_MS;
    }
    struct copy *copy = calloc(1, sizeof(*copy));
    int64_t began_ms = kiln_clock_ms();
    gauges->copy_due_ms = now_ms + COPY_MS;
    if (rc || !copy) {
        free(copy);
        return rc;
    }
    copy->leads = true;
    copy->taken_ms = now_ms;
    copy->jobs = gauges->jobs;
    kiln_policy_counts(leader->policy, &copy->policy);
    copy_groups(leader->policy, copy);
    for (size_t i = 0; i < leader->member_count; i++) {
        const struct kiln_member *member = leader->members[i];
        enum state state = member->running[0] ? RENDERING : IDLE;
        state = member->refused ? REFUSED : state;
        state = member->draining ? DRAINING : state;
        copy->workers[member->known ? state : SILENT]++;
    }
    pthread_mutex_lock(&gauges->mutex);
    gauges->copy = *copy;
    pthread_mutex_unlock(&gauges->mutex);
    free(copy);
    gauges->copy_due_ms += COST_MAX * (kiln_clock_ms() - began_ms);
    return 0;
}

void kiln_gauges_standby(struct kiln_gauges *gauges)
{
    pthread_mutex_lock(&gauges->mutex);
    memset(&gauges->copy, 0, sizeof(gauges->copy));
    pthread_mutex_unlock(&gauges->mutex);
    gauges->copy_due_ms = gauges->counts_due_ms = 0;
}

/* --- writing it ------------------------------------------------------------------------------- */
static void gauge(struct kiln_text *text, const char *name, const char *help, double value)
{
    kiln_metric_single(text, name, "gauge", help, value);
}

enum of_group { JOBS, OLDEST, BACKLOG };

static void write_group(struct kiln_text *text, const char *name, enum of_group what,
                        const struct copy *copy, const struct group *group)
{
    char size[32], steps[16];
    bool other = group == &copy->others;
    snprintf(size, sizeof(size), "%ux%u", group->width, group->height);
    snprintf(steps, sizeof(steps), "%u", group->steps);
    const char *labels[] = {"model", group->model,
                            "size",  other ? "other" : size,
                            "steps", other ? "other" : steps,
                            "loras", group->lora_set,
                            "mode",  group->mode,
                            NULL};
    double age_s = group->jobs ? (double)(copy->taken_ms - group->queued_ms) / 1000 : 0;
    double value = what == JOBS     ? group->jobs
                   : what == OLDEST ? (age_s > 0 ? age_s : 0)
                                    : group->backlog_s;
    kiln_metric_sample(text, name, labels, value);
}

static void write_groups(struct kiln_text *text, const struct copy *copy)
{
    static const struct {
        const char *name, *help;
        enum of_group what;
    } families[] = {
        {"kiln_queue_jobs", "Jobs that could be rendered now, by group; the largest groups.", JOBS},
        {"kiln_queue_oldest_seconds", "How long the next job of the group has waited.", OLDEST},
        {"kiln_queue_backlog_seconds", "GPU-seconds that the group's jobs are expected to take.",
         BACKLOG},
    };
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        kiln_metric_family(text, families[i].name, "gauge", families[i].help);
        for (uint32_t g = 0; g < copy->group_count; g++)
            write_group(text, families[i].name, families[i].what, copy, &copy->groups[g]);
        write_group(text, families[i].name, families[i].what, copy, &copy->others);
    }
}

static void write_workers(struct kiln_text *text, const struct copy *copy)
{
    uint32_t live = 0;
    for (int state = 0; state < SILENT; state++)
        live += copy->workers[state];
    kiln_metric_family(text, "kiln_workers", "gauge",
                       "Workers by what they do; refused: by their store; silent: without a "
                       "heartbeat, holding jobs.");
    for (int state = 0; state < STATES; state++) {
        const char *labels[] = {"state", state_names[state], NULL};
        kiln_metric_sample(text, "kiln_workers", labels, copy->workers[state]);
    }
    gauge(text, "kiln_occupancy_ratio", "Share of the live workers that render.",
          live ? (double)copy->workers[RENDERING] / live : 0);
}

/* By what the intake is kept waiting, and how long; "ok" and 0 while it moves. */
static void write_blocked(struct kiln_text *text)
{
    static const char name[] = "kiln_intake_blocked_seconds";
    int code;
    double age_s = kiln_health_stuck_s(&code);
    const char *labels[] = {"code", kiln_code_name(code), NULL};
    kiln_metric_family(text, name, "gauge",
                       "How long the oldest entry of the intake stream has not moved, and why.");
    kiln_metric_sample(text, name, labels, age_s);
}

void kiln_gauges_collect(void *arg, struct kiln_text *text)
{
    struct kiln_gauges *gauges = arg;
    struct copy *copy = malloc(sizeof(*copy));
    if (!copy)
        return;
    pthread_mutex_lock(&gauges->mutex);
    *copy = gauges->copy;
    pthread_mutex_unlock(&gauges->mutex);
    write_blocked(text);
    gauge(text, "kiln_leader", "1 if this scheduler leads its pool.", copy->leads);
    if (copy->leads) {
        kiln_metric_family(text, "kiln_jobs", "gauge",
                           "Jobs of the pool by state, as the ledger has it.");
        for (int state = 0; state < KILN_JOB_STATE_COUNT; state++) {
            const char *labels[] = {"state", kiln_job_state_name((enum kiln_job_state)state), NULL};
            kiln_metric_sample(text, "kiln_jobs", labels, (double)copy->jobs.at[state]);
        }
        gauge(text, "kiln_queue_groups", "Groups with waiting jobs.", copy->policy.groups);
        gauge(text, "kiln_queue_sleeping_jobs", "Jobs that wait for their next try.",
              copy->policy.sleeping);
        write_groups(text, copy);
        write_workers(text, copy);
    }
    free(copy);
}
