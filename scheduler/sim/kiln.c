/* kiln.c - the policy of the daemon, driven as the daemon drives it.
 *
 * Jobs are added when they arrive, assignments are released when they end, and both teach the cost
 * model, as fleet.c does; assignments with hits do not.  A worker takes one assignment at a time,
 * of one picture unless the options say more.  It begins with a set that no job has, because it has
 * loaded nothing yet; the policy can only express "holds this set".  With fetch_s the sets name
 * files, and a heartbeat with what is on the disk follows each picture.
 */
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/policy/policy.h"
#include "scheduler/sim/rule.h"
#include "schemas/wire/wire.h"

#define NS_MS 1000000
#define STEP_NS (50 * (int64_t)NS_MS) /* the daemon asks again at least that often (STEP_MS) */
#define NOTHING "(nothing)"           /* a set that no trace can name */
#define TAUGHT 3 /* batches of a size, so that it counts as known (batch.c of the policy) */

struct kiln_rule {
    const struct kiln_sim_world *world;
    struct kiln_cost_model *costs;
    struct kiln_policy *policy;
    uint64_t *tags; /* of the assignment of each worker */
    char set[KILN_LORA_SET_MAX];
};

/* Valid until the next call. */
static const char *set_text(struct kiln_rule *rule, uint32_t job)
{
    const struct kiln_trace *trace = rule->world->trace;
    const char *set = kiln_intern_text(&trace->sets, trace->jobs[job].set);
    if (!rule->world->disks)
        return set;
    kiln_disks_set_text(set, rule->set, sizeof rule->set);
    return rule->set;
}

/* What the worker says of itself after its last set, NULL for none. */
static int beat(struct kiln_rule *rule, uint32_t worker, const char *set, struct kiln_error *err)
{
    struct kiln_policy_worker report = {.model = "",
                                        .lora_set = set ? set : NOTHING,
                                        .capacity = 1,
                                        .batch_max = kiln_sim_batch(rule->world->options),
                                        .minor = KILN_WIRE_MINOR};
    char name[16];
    if (rule->world->disks)
        report.files = kiln_disks_files(rule->world->disks, worker, &report.file_count);
    snprintf(name, sizeof name, "%u", worker);
    return kiln_policy_worker_set(rule->policy, name, &report, err);
}

static struct kiln_cost_shape cost_shape(const struct kiln_trace *trace, uint32_t shape)
{
    struct kiln_trace_shape size = kiln_trace_shape(trace, shape);
    return (struct kiln_cost_shape){.model = "",
                                    .width = size.width,
                                    .height = size.height,
                                    .steps = size.steps,
                                    .jobs = 1,
                                    .mode = kiln_trace_mode(trace, shape)};
}

static int add(void *self, uint32_t job, struct kiln_error *err)
{
    struct kiln_rule *rule = self;
    const struct kiln_trace *trace = rule->world->trace;
    const struct kiln_trace_job *row = &trace->jobs[job];
    struct kiln_trace_shape size = kiln_trace_shape(trace, row->shape);
    /* Whole seconds, never more than the trace says. */
    int64_t wait_s = row->max_wait_ns / (1000 * (int64_t)NS_MS);
    wait_s = row->max_wait_ns > 0 && wait_s == 0 ? 1 : wait_s;
    const uint32_t skip =
        rule->world->options->known == KILN_SIM_HITS_KNOWN ? rule->world->skips[job] : 0;
    struct kiln_policy_job waiting = {
        .id = (uint64_t)job + 1,
        .batch_id = 1,
        .model = "",
        .lora_set = set_text(rule, job),
        .tenant = kiln_intern_text(&trace->tenants, row->tenant),
        .width = size.width,
        .height = size.height,
        .steps = size.steps,
        .mode = kiln_trace_mode(trace, row->shape),
        .skip = skip,
        .skip_coarse = skip > 0 && kiln_sim_hit_mode(size, skip).kind == KILN_MODE_COARSE,
        .priority = row->priority,
        .max_wait_s = (uint32_t)wait_s,
        .queued_ms = row->arrival_ns / NS_MS};
    return kiln_policy_add(rule->policy, &waiting, err);
}

static uint32_t pick(void *self, int64_t now_ns, uint32_t *ret_jobs, uint32_t *ret_worker)
{
    struct kiln_rule *rule = self;
    struct kiln_policy_pick pick;
    if (!kiln_policy_pick(rule->policy, now_ns / NS_MS, &pick))
        return 0;
    *ret_worker = (uint32_t)strtoul(pick.worker, NULL, 10);
    for (uint32_t i = 0; i < pick.count; i++)
        ret_jobs[i] = (uint32_t)(pick.ids[i] - 1);
    rule->tags[*ret_worker] = pick.tag;
    return pick.count;
}

static void finished(void *self, uint32_t worker, const uint32_t *jobs, uint32_t count,
                     bool switched, uint32_t fetches, double seconds)
{
    struct kiln_rule *rule = self;
    const struct kiln_trace *trace = rule->world->trace;
    struct kiln_cost_shape shape = cost_shape(trace, trace->jobs[jobs[0]].shape);
    char name[16];
    bool hit = false;
    shape.jobs = count;
    for (uint32_t i = 0; i < count; i++)
        hit = hit || rule->world->skips[jobs[i]] > 0;
    snprintf(name, sizeof name, "%u", worker);
    kiln_policy_finish(rule->policy, name, rule->tags[worker]);
    if (!hit)
        kiln_cost_learn_compute(rule->costs, &shape, seconds);
    if (switched)
        kiln_cost_learn_switch(rule->costs, "", set_text(rule, jobs[0]),
                               rule->world->options->switch_s);
    for (uint32_t i = 0; i < fetches; i++)
        kiln_cost_learn_fetch(rule->costs, rule->world->options->fetch_s);
    if (fetches > 0) { /* it is known already, so there is room for it */
        struct kiln_error full;
        (void)!beat(rule, worker, set_text(rule, jobs[0]), &full);
    }
}

/* Time alone can change the policy's mind (a deadline becomes urgent, a penalty grows); the daemon
 * asks in every step. */
static int64_t next_ns(void *self, int64_t now_ns)
{
    struct kiln_rule *rule = self;
    int64_t next_ms = kiln_policy_next_ms(rule->policy, now_ns / NS_MS);
    int64_t step_ns = now_ns + STEP_NS;
    return next_ms < step_ns / NS_MS ? next_ms * NS_MS : step_ns;
}

static void free_rule(void *self)
{
    struct kiln_rule *rule = self;
    kiln_policy_free(rule->policy);
    kiln_cost_model_free(rule->costs);
    free(rule->tags);
    free(rule);
}

/* --- a fleet that has rendered such pictures before ------------------------------------------ */
/* Rows of the model as they would be after a while: without them the first minutes of every run
 * would measure how fast the model learns. */
static int teach(struct kiln_rule *rule, struct kiln_error *err)
{
    const struct kiln_trace *trace = rule->world->trace;
    uint32_t shapes = trace->shapes.count;
    double *sums = calloc(shapes, sizeof *sums), *counts = calloc(shapes, sizeof *counts);
    for (uint32_t i = 0; sums && counts && i < trace->count; i++) {
        sums[trace->jobs[i].shape] += (double)rule->world->service_ns[i] * 1e-9;
        counts[trace->jobs[i].shape]++;
    }
    for (uint32_t i = 0; sums && counts && i < shapes; i++) {
        struct kiln_cost_shape shape = cost_shape(trace, i);
        const uint32_t batch = kiln_sim_batch(rule->world->options);
        for (uint32_t n = 1; n < 2 * batch; n *= 2) {
            const double fixed = rule->world->options->batch_fixed;
            shape.jobs = n < batch ? n : batch;
            for (int seen = 0; seen < (batch > 1 ? TAUGHT : 1); seen++)
                kiln_cost_learn_compute(rule->costs, &shape,
                                        sums[i] / counts[i] * (fixed + (1 - fixed) * shape.jobs));
        }
    }
    kiln_cost_learn_switch(rule->costs, "", "", rule->world->options->switch_s);
    if (rule->world->disks)
        kiln_cost_learn_fetch(rule->costs, rule->world->options->fetch_s);
    bool taught = sums && counts;
    free(sums);
    free(counts);
    return taught ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for %u sizes", shapes);
}

/* How many tables of each kind the whole trace needs at once, at the most. */
static int count_groups(const struct kiln_sim_world *world, struct kiln_policy_limits *limits,
                        struct kiln_error *err)
{
    const struct kiln_trace *trace = world->trace;
    struct kiln_intern groups = {0}, queues = {0};
    bool counted = true;
    for (uint32_t i = 0; counted && i < trace->count; i++) {
        const struct kiln_trace_job *job = &trace->jobs[i];
        uint32_t group[3] = {job->set, job->shape, world->skips[i]};
        uint32_t queue[2] = {kiln_intern(&groups, group, sizeof group), job->tenant};
        counted = queue[0] != KILN_NONE && kiln_intern(&queues, queue, sizeof queue) != KILN_NONE;
    }
    /* The policy has two queues a group. */
    limits->groups = (groups.count > queues.count / 2 ? groups.count : queues.count / 2) + 1;
    kiln_intern_release(&groups);
    kiln_intern_release(&queues);
    return counted ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the groups of the trace");
}

int kiln_sim_rule_kiln(const struct kiln_sim_world *world, struct kiln_sim_rule *ret,
                       struct kiln_error *err)
{
    const struct kiln_trace *trace = world->trace;
    struct kiln_policy_limits limits = {.jobs = trace->count,
                                        .sets = trace->sets.count + 1,
                                        .tenants = trace->tenants.count,
                                        .workers = world->options->workers};
    struct kiln_rule *rule = calloc(1, sizeof *rule);
    if (!rule)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the policy");
    rule->world = world;
    rule->tags = calloc(world->options->workers, sizeof *rule->tags);
    rule->costs =
        kiln_cost_model_new(trace->sets.count + (2 + KILN_ASSIGN_MAX) * trace->shapes.count + 16);
    int rc = rule->tags && rule->costs
                 ? count_groups(world, &limits, err)
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the cost model");
    rc = rc ? rc : kiln_policy_new(&limits, rule->costs, &rule->policy, err);
    rc = rc ? rc : teach(rule, err);
    for (uint32_t i = 0; i < world->options->workers && rc == 0; i++)
        rc = beat(rule, i, NULL, err);
    if (rc) {
        free_rule(rule);
        return rc;
    }
    *ret = (struct kiln_sim_rule){rule, add, pick, finished, next_ns, free_rule};
    return 0;
}
