/* main.c - runs seeds: one with its whole event log, or many, each in a process of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/sim/check.h"

#define LIMIT_S 180 /* after the last fault, until every job has ended */

struct options {
    uint64_t first, count, step;
    uint32_t at_once;
    const char *mutation, *strike;
    bool trace;
};

static bool mutate(const char *name)
{
    sim_fleet.tables.no_fencing = strcmp(name, "no-fencing") == 0;
    sim_fleet.ack_at_once = strcmp(name, "ack-before-insert") == 0;
    sim_fleet.two_leaders = strcmp(name, "two-leaders") == 0;
    sim_fleet.no_events = strcmp(name, "no-events") == 0;
    return sim_fleet.tables.no_fencing || sim_fleet.ack_at_once || sim_fleet.two_leaders ||
           sim_fleet.no_events;
}

/* One seed from beginning to end; a broken guarantee ends the process with 1. */
static void run_seed(const struct options *options, uint64_t seed)
{
    json_object_seed(1); /* not from the system: the same texts in the same order */
    sim_world_init(options->strike ? 1 : seed, options->trace, NULL);
    if (options->mutation && !mutate(options->mutation))
        exit(2);
    sim_plan_make(options->strike ? 0 : seed);
    if (options->strike && !sim_plan_single(options->strike, seed))
        exit(2);
    sim_check_start();
    sim_fleet_start(&sim_plan.settings);
    sim_plan_start();
    int64_t limit = sim_plan.heals_at + (int64_t)LIMIT_S * SIM_S;
    while (sim_now() < limit && !(sim_now() > sim_plan.heals_at && sim_check_over()))
        sim_world_run(sim_now() + SIM_S);
    sim_check_end();
    size_t jobs = 0, attempts = 0;
    for (size_t i = 0; i < sim_fleet.tables.row_count; i++)
        if (sim_fleet.tables.rows[i]) {
            jobs++;
            attempts += sim_fleet.tables.rows[i]->job.attempt;
        }
    printf("seed %llu: %s, %zu jobs, %zu attempts, %.1f s, over %.1f s after the last fault, "
           "%llu steps\n",
           (unsigned long long)seed, sim_class_name(sim_plan.class), jobs, attempts,
           (double)sim_now() / 1e6, (double)(sim_now() - sim_plan.heals_at) / 1e6,
           (unsigned long long)sim_steps());
    fflush(stdout);
}

/* Waits for one; true if it kept its guarantees. */
static bool reap(void)
{
    int status = 0;
    return wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int run_many(const struct options *options)
{
    uint64_t running = 0, broken = 0;
    for (uint64_t i = 0; i < options->count; i++) {
        if (running == options->at_once) {
            broken += !reap();
            running--;
        }
        fflush(stdout);
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return 2;
        }
        if (pid == 0) {
            run_seed(options, options->first + i * options->step);
            _Exit(0);
        }
        running++;
    }
    for (; running > 0; running--)
        broken += !reap();
    printf("%llu seeds from %llu on, %llu broken\n", (unsigned long long)options->count,
           (unsigned long long)options->first, (unsigned long long)broken);
    return broken > 0;
}

static int usage(void)
{
    fputs("usage: sim --seed N [--break NAME]                one seed, with its event log\n"
          "       sim --seeds COUNT [--first N] [--step N] [--at-once N] [--break NAME]\n"
          "Seeds whose last digit is equal are of one class; --step 10 stays in it.\n"
          "       sim --strike KIND --seeds COUNT ...            one blow, at each step in turn\n"
          "KIND: kill-worker, pause-worker, kill-scheduler, pause-scheduler\n"
          "NAME: no-fencing, ack-before-insert, two-leaders; no-events, which must do no harm\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .step = 1, .at_once = 1};
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned long long value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) {
            options.trace = true;
            options.first = value;
            options.count = 1;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            options.count = value;
        } else if (strcmp(argv[i], "--first") == 0) {
            options.first = value;
        } else if (strcmp(argv[i], "--step") == 0) {
            options.step = value;
        } else if (strcmp(argv[i], "--at-once") == 0) {
            options.at_once = value ? (uint32_t)value : 1;
        } else if (strcmp(argv[i], "--strike") == 0) {
            options.strike = argv[i + 1];
        } else if (strcmp(argv[i], "--break") == 0) {
            options.mutation = argv[i + 1];
        } else {
            return usage();
        }
    }
    if (options.count == 0 || argc % 2 == 0)
        return usage();
    if (!options.trace)
        return run_many(&options);
    run_seed(&options, options.first);
    return 0;
}
