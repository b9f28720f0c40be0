/* sim.c - the event loop.
 *
 *     at the next moment at which something happens:
 *         1. pictures that end then free their workers, in the order of the workers
 *         2. jobs that arrive then begin to wait, in the order of the trace
 *         3. the rule is asked until it has nothing for the free workers
 *
 * Everything that happens at one moment has happened before anything is decided in it.  A rule
 * that leaves a worker free while jobs wait says when it wants to be asked again.
 */
#include "scheduler/sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/cost_model.h"
#include "scheduler/sim/fair.h"
#include "scheduler/sim/rule.h"
#include "schemas/limits.h"

#define ASKS_MAX 1000000    /* in a row, with nothing running: by then no answer will come */
#define NOISE_FACTOR_MAX 10 /* of a picture's time over its mean */

struct running { /* an entry of the heap of workers that render */
    int64_t end_ns;
    uint32_t worker;
};

struct sim {
    const struct kiln_trace *trace;
    const struct kiln_sim_options *options;
    struct kiln_sim_world world;
    struct kiln_sim_rule rule;
    struct kiln_sim_run *run;
    struct kiln_fair *fair;
    struct kiln_disks *disks;
    int64_t *service_ns;
    uint8_t *skips;
    struct running *heap; /* the earliest end first */
    uint32_t running, arrived, waiting;
    uint32_t *jobs;     /* that each worker renders: kiln_sim_batch of them, */
    uint32_t *counts;   /* or fewer */
    int64_t *starts_ns; /* when its compute began */
    int64_t now_ns, switch_ns;
};

static const char *const policy_names[] = {"kiln", "fifo", "affinity"};

const char *kiln_sim_policy_name(enum kiln_sim_policy policy)
{
    return policy_names[policy];
}

int kiln_sim_policy_by_name(const char *name)
{
    for (int i = 0; i < (int)(sizeof policy_names / sizeof *policy_names); i++)
        if (strcmp(policy_names[i], name) == 0)
            return i;
    return -1;
}

/* --- seconds of compute ---------------------------------------------------------------------- */
int64_t kiln_sim_formula_ns(struct kiln_trace_shape shape, double base_s)
{
    struct kiln_cost_shape base = {.model = "",
                                   .width = KILN_SIDE_DEFAULT,
                                   .height = KILN_SIDE_DEFAULT,
                                   .steps = KILN_STEPS_DEFAULT,
                                   .jobs = 1};
    struct kiln_cost_shape this = {.model = "",
                                   .width = shape.width,
                                   .height = shape.height,
                                   .steps = shape.steps,
                                   .jobs = 1,
                                   .mode = shape.mode};
    int64_t ns = llround(base_s * 1e9 * kiln_cost_tflop(&this) / kiln_cost_tflop(&base));
    return ns > 0 ? ns : 1;
}

static double uniform(const struct sim *sim, uint32_t job, uint64_t draw)
{
    return kiln_sim_uniform(sim->options->seed, job, draw);
}

/* The time of a picture, rendered alone, whose mean is known: what its hit leaves of it. */
static int64_t mean_ns(const struct sim *sim, uint32_t job)
{
    const uint32_t skip = sim->skips[job];
    if (skip == 0)
        return sim->service_ns[job];
    const struct kiln_trace_shape shape = kiln_trace_shape(sim->trace, sim->trace->jobs[job].shape);
    int64_t ns = llround((double)sim->service_ns[job] * kiln_sim_left(shape, skip));
    return ns > 0 ? ns : 1;
}

/* Its real time: lognormal around the mean. */
static int64_t real_ns(const struct sim *sim, uint32_t job)
{
    double noise = sim->options->noise;
    if (noise <= 0)
        return mean_ns(sim, job);
    double sigma = sqrt(log1p(noise * noise));
    double u = 1 - uniform(sim, job, 0), v = uniform(sim, job, 1);
    double normal = sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
    double factor = fmin(exp(sigma * normal - sigma * sigma / 2), NOISE_FACTOR_MAX);
    int64_t ns = llround((double)mean_ns(sim, job) * factor);
    return ns > 0 ? ns : 1;
}

/* --- the heap of ends ------------------------------------------------------------------------ */
static bool earlier(struct running a, struct running b)
{
    return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.worker < b.worker;
}

static void heap_push(struct sim *sim, struct running entry)
{
    uint32_t at = sim->running++;
    for (; at > 0 && earlier(entry, sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = entry;
}

static struct running heap_pop(struct sim *sim)
{
    struct running first = sim->heap[0], last = sim->heap[--sim->running];
    uint32_t at = 0;
    for (uint32_t child = 1; child < sim->running; child = 2 * at + 1) {
        if (child + 1 < sim->running && earlier(sim->heap[child + 1], sim->heap[child]))
            child++;
        if (!earlier(sim->heap[child], last))
            break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return first;
}

/* --- events ---------------------------------------------------------------------------------- */
/* Seconds that the look-ups of an assignment hold it up. */
static int64_t lookup_ns(struct sim *sim, const uint32_t *jobs, uint32_t count)
{
    const struct kiln_sim_options *options = sim->options;
    double seconds = 0;
    if (options->hits.share <= 0 || options->known == KILN_SIM_HITS_NONE)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        seconds += kiln_sim_may_hit(sim->trace, jobs[i]) ? options->hits.lookup_s : 0;
    sim->run->lookup_s += seconds;
    return llround(seconds * 1e9);
}

/* The pictures of an assignment that skip so many steps, as one call from *at_ns on. */
static void call(struct sim *sim, const uint32_t *jobs, uint32_t count, uint32_t skip,
                 int64_t *at_ns)
{
    const double fixed = sim->options->batch_fixed;
    int64_t sum_ns = 0, longest_ns = 0;
    uint32_t members = 0;
    for (uint32_t i = 0; i < count; i++)
        if (sim->skips[jobs[i]] == skip) {
            const int64_t ns = real_ns(sim, jobs[i]);
            sum_ns += ns;
            longest_ns = ns > longest_ns ? ns : longest_ns;
            members++;
        }
    const int64_t took_ns =
        members == 1 ? sum_ns : llround(fixed * (double)longest_ns + (1 - fixed) * (double)sum_ns);
    for (uint32_t i = 0; i < count; i++)
        if (sim->skips[jobs[i]] == skip) {
            struct kiln_sim_served *served = &sim->run->served[jobs[i]];
            served->skip = skip;
            served->start_ns = *at_ns;
            served->end_ns = *at_ns + took_ns;
            served->work_ns = took_ns / members;
        }
    *at_ns += took_ns;
    sim->run->calls++;
}

static void start(struct sim *sim, const uint32_t *jobs, uint32_t count, uint32_t worker)
{
    const uint32_t set = sim->trace->jobs[jobs[0]].set;
    const bool switched = sim->world.resident[worker] != set;
    const uint32_t fetches =
        switched && sim->disks
            ? kiln_disks_use(sim->disks, worker, kiln_intern_text(&sim->trace->sets, set))
            : 0;
    int64_t at_ns = sim->now_ns + lookup_ns(sim, jobs, count) + (switched ? sim->switch_ns : 0) +
                    llround(fetches * sim->options->fetch_s * 1e9);
    sim->starts_ns[worker] = at_ns;
    for (uint32_t i = 0; i < count; i++)
        sim->run->served[jobs[i]] = (struct kiln_sim_served){.worker = worker, .end_ns = -1};
    for (uint32_t i = 0; i < count; i++)
        if (sim->run->served[jobs[i]].end_ns < 0)
            call(sim, jobs, count, sim->skips[jobs[i]], &at_ns);
    sim->run->served[jobs[0]].switched = switched;
    sim->run->served[jobs[0]].fetches = fetches;
    sim->run->switches += switched;
    sim->run->fetches += fetches;
    if (at_ns > sim->run->end_ns)
        sim->run->end_ns = at_ns;
    sim->world.resident[worker] = set;
    memcpy(&sim->jobs[worker * kiln_sim_batch(sim->options)], jobs, count * sizeof *jobs);
    sim->counts[worker] = count;
    sim->waiting -= count;
    /* The whole of it at once: what a tenant has been given cannot be taken back.  What comes
     * before the compute is the first one's. */
    for (uint32_t i = 0; i < count; i++) {
        int64_t ns = sim->run->served[jobs[i]].work_ns;
        ns += i == 0 ? sim->starts_ns[worker] - sim->now_ns : 0;
        kiln_fair_started(sim->fair, sim->trace->jobs[jobs[i]].tenant, (double)ns * 1e-9);
    }
    heap_push(sim, (struct running){at_ns, worker});
}

/* Otherwise there is nothing to ask the rule for: a loaded fleet costs one pick a picture. */
static bool some_could_start(const struct sim *sim)
{
    return sim->waiting > 0 && sim->running < sim->options->workers;
}

static int64_t next_moment(struct sim *sim)
{
    int64_t next = sim->running ? sim->heap[0].end_ns : INT64_MAX;
    if (sim->arrived < sim->trace->count && sim->trace->jobs[sim->arrived].arrival_ns < next)
        next = sim->trace->jobs[sim->arrived].arrival_ns;
    if (some_could_start(sim)) {
        int64_t asked = sim->rule.next_ns(sim->rule.self, sim->now_ns);
        if (asked > sim->now_ns && asked < next)
            next = asked;
    }
    return next;
}

static int loop(struct sim *sim, struct kiln_error *err)
{
    const struct kiln_trace_job *jobs = sim->trace->jobs;
    uint32_t asks = 0;
    while (sim->running > 0 || sim->waiting > 0 || sim->arrived < sim->trace->count) {
        int64_t next = next_moment(sim);
        if (next == INT64_MAX || asks > ASKS_MAX)
            return kiln_fail(err, KILN_INTERNAL, "policy %s lets %u jobs wait for ever",
                             kiln_sim_policy_name(sim->options->policy), sim->waiting);
        sim->now_ns = next;
        while (sim->running > 0 && sim->heap[0].end_ns <= sim->now_ns) {
            const struct running ended = heap_pop(sim);
            const uint32_t *done = &sim->jobs[ended.worker * kiln_sim_batch(sim->options)];
            double seconds = (double)(ended.end_ns - sim->starts_ns[ended.worker]) * 1e-9;
            sim->rule.finished(sim->rule.self, ended.worker, done, sim->counts[ended.worker],
                               sim->run->served[done[0]].switched,
                               sim->run->served[done[0]].fetches, seconds);
        }
        while (sim->arrived < sim->trace->count && jobs[sim->arrived].arrival_ns <= sim->now_ns) {
            kiln_fair_arrived(sim->fair, jobs[sim->arrived].tenant);
            int rc = sim->rule.add(sim->rule.self, sim->arrived++, err);
            if (rc)
                return rc;
            sim->waiting++;
        }
        uint32_t picked[KILN_ASSIGN_MAX], count, worker;
        while (some_could_start(sim) &&
               (count = sim->rule.pick(sim->rule.self, sim->now_ns, picked, &worker)) > 0)
            start(sim, picked, count, worker);
        asks = sim->running == 0 ? asks + 1 : 0;
    }
    return 0;
}

/* --- setting up ------------------------------------------------------------------------------ */
/* What each picture and each tenant takes; all of it on one worker must fit the clock. */
static int fill_services(struct sim *sim, struct kiln_error *err)
{
    const struct kiln_trace *trace = sim->trace;
    double total_s = (double)trace->jobs[trace->count - 1].arrival_ns * 1e-9;
    double *work_s = calloc(trace->tenants.count, sizeof *work_s);
    for (uint32_t i = 0; work_s && i < trace->count; i++) {
        const struct kiln_trace_job *job = &trace->jobs[i];
        sim->service_ns[i] =
            job->service_ns
                ? job->service_ns
                : kiln_sim_formula_ns(kiln_trace_shape(trace, job->shape), sim->options->base_s);
        total_s += (double)sim->service_ns[i] * 1e-9 + sim->options->switch_s +
                   KILN_LORAS_MAX * sim->options->fetch_s + sim->options->hits.lookup_s;
        work_s[job->tenant] += (double)sim->service_ns[i] * 1e-9;
    }
    if (sim->options->noise > 0)
        total_s *= NOISE_FACTOR_MAX;
    sim->fair = work_s ? kiln_fair_new(work_s, trace->tenants.count) : NULL;
    free(work_s);
    if (!sim->fair)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the tenants");
    if (total_s * 1e9 > (double)KILN_TRACE_NS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "%s is %.3g seconds of work; a run ends before %.3g",
                         trace->name, total_s, (double)KILN_TRACE_NS_MAX * 1e-9);
    return 0;
}

static int open_sim(struct sim *sim, struct kiln_error *err)
{
    uint32_t workers = sim->options->workers;
    sim->service_ns = calloc(sim->trace->count, sizeof *sim->service_ns);
    sim->run->served = calloc(sim->trace->count, sizeof *sim->run->served);
    sim->heap = calloc(workers, sizeof *sim->heap);
    sim->jobs = calloc((size_t)workers * kiln_sim_batch(sim->options), sizeof *sim->jobs);
    sim->counts = calloc(workers, sizeof *sim->counts);
    sim->starts_ns = calloc(workers, sizeof *sim->starts_ns);
    sim->skips = calloc(sim->trace->count, sizeof *sim->skips);
    sim->world.resident = malloc(workers * sizeof *sim->world.resident);
    if (!sim->service_ns || !sim->run->served || !sim->heap || !sim->jobs || !sim->counts ||
        !sim->starts_ns || !sim->skips || !sim->world.resident)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %u jobs on %u workers",
                         sim->trace->count, workers);
    for (uint32_t i = 0; i < workers; i++)
        sim->world.resident[i] = KILN_NONE;
    if (sim->options->fetch_s > 0 && !(sim->disks = kiln_disks_new(workers, sim->options->disk)))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the disks of %u workers", workers);
    sim->world.disks = sim->disks;
    sim->world.trace = sim->trace;
    sim->world.options = sim->options;
    sim->world.service_ns = sim->service_ns;
    sim->world.skips = sim->skips;
    for (uint32_t i = 0; i < sim->trace->count && sim->options->known != KILN_SIM_HITS_NONE; i++)
        sim->skips[i] =
            (uint8_t)kiln_sim_skip(sim->trace, &sim->options->hits, sim->options->seed, i);
    sim->switch_ns = llround(sim->options->switch_s * 1e9);
    int rc = fill_services(sim, err);
    if (rc)
        return rc;
    return sim->options->policy == KILN_SIM_KILN
               ? kiln_sim_rule_kiln(&sim->world, &sim->rule, err)
               : kiln_sim_rule_baseline(&sim->world, &sim->rule, err);
}

int kiln_sim(const struct kiln_trace *trace, const struct kiln_sim_options *options,
             struct kiln_sim_run *ret, struct kiln_error *err)
{
    struct kiln_sim_run run = {0};
    struct sim sim = {.trace = trace, .options = options, .run = &run, .now_ns = -1};
    int rc = open_sim(&sim, err);
    rc = rc ? rc : loop(&sim, err);
    if (rc == 0) {
        run.fair_gap_s = kiln_fair_gap(sim.fair);
        *ret = run;
    } else {
        kiln_sim_release(&run);
    }
    if (sim.rule.self)
        sim.rule.free(sim.rule.self);
    kiln_fair_free(sim.fair);
    kiln_disks_free(sim.disks);
    free(sim.service_ns);
    free(sim.heap);
    free(sim.jobs);
    free(sim.counts);
    free(sim.starts_ns);
    free(sim.skips);
    free(sim.world.resident);
    return rc;
}

void kiln_sim_release(struct kiln_sim_run *run)
{
    free(run->served);
    memset(run, 0, sizeof *run);
}
