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
    int64_t *service_ns;
    struct running *heap; /* the earliest end first */
    uint32_t running, arrived, waiting;
    uint32_t *jobs; /* that each worker renders */
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
    struct kiln_cost_shape base = {
        "", KILN_SIDE_DEFAULT, KILN_SIDE_DEFAULT, KILN_STEPS_DEFAULT, 0, 1, NULL, NULL};
    struct kiln_cost_shape this = {"", shape.width, shape.height, shape.steps,
                                   0,  1,           NULL,         shape.mode};
    int64_t ns = llround(base_s * 1e9 * kiln_cost_tflop(&this) / kiln_cost_tflop(&base));
    return ns > 0 ? ns : 1;
}

/* A number in [0, 1) that depends on seed, job and draw alone (the finaliser of SplitMix64). */
static double uniform(uint64_t seed, uint64_t job, uint64_t draw)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + job * 2 + draw + 1;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z = (z + seed) * 0x9e3779b97f4a7c15u;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* The real time of a picture whose mean is known: lognormal around it. */
static int64_t real_ns(const struct sim *sim, uint32_t job)
{
    double noise = sim->options->noise;
    if (noise <= 0)
        return sim->service_ns[job];
    double sigma = sqrt(log1p(noise * noise));
    double u = 1 - uniform(sim->options->seed, job, 0), v = uniform(sim->options->seed, job, 1);
    double normal = sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
    double factor = fmin(exp(sigma * normal - sigma * sigma / 2), NOISE_FACTOR_MAX);
    int64_t ns = llround((double)sim->service_ns[job] * factor);
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
static void start(struct sim *sim, uint32_t job, uint32_t worker)
{
    const struct kiln_trace_job *row = &sim->trace->jobs[job];
    bool switched = sim->world.resident[worker] != row->set;
    int64_t start_ns = sim->now_ns + (switched ? sim->switch_ns : 0);
    int64_t end_ns = start_ns + real_ns(sim, job);
    sim->run->served[job] = (struct kiln_sim_served){start_ns, end_ns, worker, switched};
    sim->run->switches += switched;
    if (end_ns > sim->run->end_ns)
        sim->run->end_ns = end_ns;
    sim->world.resident[worker] = row->set;
    sim->jobs[worker] = job;
    sim->waiting--;
    /* The whole of it at once: what a tenant has been given cannot be taken back. */
    kiln_fair_started(sim->fair, row->tenant, (double)(end_ns - sim->now_ns) * 1e-9);
    heap_push(sim, (struct running){end_ns, worker});
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
            uint32_t worker = heap_pop(sim).worker, job = sim->jobs[worker];
            const struct kiln_sim_served *served = &sim->run->served[job];
            double seconds = (double)(served->end_ns - served->start_ns) * 1e-9;
            sim->rule.finished(sim->rule.self, worker, job, served->switched, seconds);
        }
        while (sim->arrived < sim->trace->count && jobs[sim->arrived].arrival_ns <= sim->now_ns) {
            kiln_fair_arrived(sim->fair, jobs[sim->arrived].tenant);
            int rc = sim->rule.add(sim->rule.self, sim->arrived++, err);
            if (rc)
                return rc;
            sim->waiting++;
        }
        uint32_t job, worker;
        while (some_could_start(sim) && sim->rule.pick(sim->rule.self, sim->now_ns, &job, &worker))
            start(sim, job, worker);
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
        total_s += (double)sim->service_ns[i] * 1e-9 + sim->options->switch_s;
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
    sim->jobs = calloc(workers, sizeof *sim->jobs);
    sim->world.resident = malloc(workers * sizeof *sim->world.resident);
    if (!sim->service_ns || !sim->run->served || !sim->heap || !sim->jobs || !sim->world.resident)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %u jobs on %u workers",
                         sim->trace->count, workers);
    for (uint32_t i = 0; i < workers; i++)
        sim->world.resident[i] = KILN_NONE;
    sim->world.trace = sim->trace;
    sim->world.options = sim->options;
    sim->world.service_ns = sim->service_ns;
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
    free(sim.service_ns);
    free(sim.heap);
    free(sim.jobs);
    free(sim.world.resident);
    return rc;
}

void kiln_sim_release(struct kiln_sim_run *run)
{
    free(run->served);
    memset(run, 0, sizeof *run);
}
