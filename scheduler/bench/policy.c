/* policy.c - `kiln bench policy`: what a decision costs, without servers.
 *
 * The scheduler's policy gets a queue like that of a large fleet: a thousand LoRA sets, four sizes,
 * tenants, a few deadlines and priorities.  Then its workers, a thousand or --workers, finish one
 * assignment after the other and get the next.  Memory is the growth of the process.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/bench/bench.h"
#include "scheduler/policy/policy.h"
#include "schemas/wire/wire.h"

#define PICKS 100000
#define SETS 1500
#define TENANTS 20
#define COST_ROWS 8192

struct figures {
    long jobs, workers, picks;
    double bytes_per_job, add_us, pick_us, pick_worst_us, turn_us, remove_us;
};

static double now_us(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static double resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* A number below bound; the same sequence in each run (Knuth's MMIX generator). */
static uint32_t below(uint64_t *state, uint32_t bound)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*state >> 33) % bound);
}

static struct kiln_policy_job random_job(uint64_t *state, uint64_t id, char set[16],
                                         char tenant[16])
{
    static const uint32_t sides[4][2] = {{1024, 1024}, {768, 1344}, {1344, 768}, {512, 512}};
    uint32_t size = below(state, 4), lora = below(state, 1 + below(state, SETS));
    snprintf(set, 16, lora ? "s%u:1" : "", lora);
    snprintf(tenant, 16, "t%u", below(state, 1 + below(state, TENANTS)));
    return (struct kiln_policy_job){
        .id = id,
        .batch_id = 1 + id / 10000,
        .model = "",
        .lora_set = set,
        .tenant = tenant,
        .width = sides[size][0],
        .height = sides[size][1],
        .steps = 8,
        .priority = below(state, 50) ? 0 : (int32_t)below(state, 21) - 10,
        .max_wait_s = below(state, 20) ? 0 : 600 + below(state, 86400),
    };
}

/* First every worker gets all the assignments that it has room for.  Then in each millisecond the
 * oldest assignment ends and its worker gets another. */
static void pick_and_finish(struct kiln_policy *policy, struct figures *figures)
{
    static struct kiln_policy_pick running[KILN_BENCH_POLICY_WORKERS_MAX * 2];
    size_t room = (size_t)figures->workers * 2, first = 0, count = 0;
    int64_t now_ms = 1000;
    double start = now_us(CLOCK_PROCESS_CPUTIME_ID), picking = 0;
    while (figures->picks < PICKS) {
        struct kiln_policy_pick pick;
        double before = now_us(CLOCK_THREAD_CPUTIME_ID);
        bool more = count < room && kiln_policy_pick(policy, now_ms, &pick);
        double took = now_us(CLOCK_THREAD_CPUTIME_ID) - before;
        picking += took;
        if (more) {
            running[(first + count++) % room] = pick;
            figures->picks++;
            figures->pick_worst_us = took > figures->pick_worst_us ? took : figures->pick_worst_us;
            continue;
        }
        if (count == 0)
            break;
        const struct kiln_policy_pick *done = &running[first];
        kiln_policy_finish(policy, done->worker, done->tag);
        first = (first + 1) % room;
        count--;
        now_ms++;
    }
    figures->pick_us = picking / (double)figures->picks;
    figures->turn_us = (now_us(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)figures->picks;
}

static void print_figures(const struct kiln_bench *bench, const struct figures *figures)
{
    if (bench->cli->json) {
        (void)kiln_print_json(
            bench->cli,
            json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "bench", "policy",
                      "jobs", (json_int_t)figures->jobs, "workers", (json_int_t)figures->workers,
                      "picks", (json_int_t)figures->picks, "bytes_per_job", figures->bytes_per_job,
                      "add_us", figures->add_us, "pick_us", figures->pick_us, "pick_worst_us",
                      figures->pick_worst_us, "turn_us", figures->turn_us, "remove_us",
                      figures->remove_us));
        return;
    }
    printf("policy: %ld jobs, %ld workers: %.0f bytes a job\n", figures->jobs, figures->workers,
           figures->bytes_per_job);
    printf("  add %.2f us, pick %.2f us (worst %.0f), with its release %.2f us, remove %.2f us\n",
           figures->add_us, figures->pick_us, figures->pick_worst_us, figures->turn_us,
           figures->remove_us);
}

int kiln_bench_policy(struct kiln_bench *bench, struct kiln_error *err)
{
    struct figures figures = {.jobs = bench->jobs, .workers = bench->workers};
    struct kiln_policy_limits limits = {.jobs = (uint32_t)bench->jobs,
                                        .workers = (uint32_t)bench->workers};
    struct kiln_policy_worker worker = {
        .model = "m", .lora_set = "", .capacity = 2, .batch_max = 4, .minor = KILN_WIRE_MINOR};
    struct kiln_policy *policy = NULL;
    struct kiln_cost_model *costs = kiln_cost_model_new(COST_ROWS);
    uint64_t state = 1;
    char set[16], tenant[16], name[24];
    int rc = costs ? kiln_policy_new(&limits, costs, &policy, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for the cost model");
    double before = resident_bytes(), start = now_us(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 1; i <= figures.jobs && rc == 0; i++) {
        struct kiln_policy_job job = random_job(&state, (uint64_t)i, set, tenant);
        rc = kiln_policy_add(policy, &job, err);
    }
    figures.add_us = (now_us(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)figures.jobs;
    figures.bytes_per_job = (resident_bytes() - before) / (double)figures.jobs;
    for (long i = 0; i < figures.workers && rc == 0; i++) {
        snprintf(name, sizeof name, "w%ld", i);
        worker.device = i % 4 ? "fast" : "slow";
        rc = kiln_policy_worker_set(policy, name, &worker, err);
    }
    if (rc == 0) {
        long removed = 0;
        pick_and_finish(policy, &figures);
        start = now_us(CLOCK_PROCESS_CPUTIME_ID);
        for (long i = 1; i <= figures.jobs; i++)
            removed += kiln_policy_remove(policy, (uint64_t)i);
        figures.remove_us =
            (now_us(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)(removed ? removed : 1);
        print_figures(bench, &figures);
    }
    kiln_policy_free(policy);
    kiln_cost_model_free(costs);
    return rc;
}
