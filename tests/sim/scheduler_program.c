/* scheduler_program.c - kiln-scheduler as it is, except for its main function. */
#include "scheduler/daemon.h"

#include <stdio.h>
#include <stdlib.h>

#include "scheduler/policy/policy.h"
#include "tests/sim/fleet.h"
#include "tests/sim/system.h"

static struct kiln_policy *latest; /* of whoever began to lead last */

/* A thousand times smaller tables: a leader that is killed leaves them behind. */
int __real_kiln_policy_new(const struct kiln_policy_limits *limits,
                           const struct kiln_cost_model *costs, struct kiln_policy **ret,
                           struct kiln_error *err);
int __wrap_kiln_policy_new(const struct kiln_policy_limits *limits,
                           const struct kiln_cost_model *costs, struct kiln_policy **ret,
                           struct kiln_error *err);
int __wrap_kiln_policy_new(const struct kiln_policy_limits *limits,
                           const struct kiln_cost_model *costs, struct kiln_policy **ret,
                           struct kiln_error *err)
{
    struct kiln_policy_limits small = {
        .jobs = 512, .sets = 64, .groups = 128, .tenants = 16, .workers = 16};
    (void)limits;
    int rc = __real_kiln_policy_new(&small, costs, ret, err);
    latest = rc ? NULL : *ret;
    return rc;
}

void __real_kiln_policy_free(struct kiln_policy *policy);
void __wrap_kiln_policy_free(struct kiln_policy *policy);
void __wrap_kiln_policy_free(struct kiln_policy *policy)
{
    latest = latest == policy ? NULL : latest;
    __real_kiln_policy_free(policy);
}

void sim_scheduler_why(uint64_t job, char *out, size_t size)
{
    struct kiln_policy_why why;
    struct kiln_error err;
    struct sim_process *leader = NULL;
    for (struct sim_process *at = sim_processes(); at; at = at->next)
        leader = at->alive && at->name[0] == 's' ? at : leader;
    if (!latest || !leader)
        snprintf(out, size, "nobody leads");
    else if (kiln_policy_why(latest, job, sim_monotonic_us(leader, sim_now()) / SIM_MS, &why, &err))
        snprintf(out, size, "%s", err.text);
    else
        snprintf(out, size, "%s", why.text);
}

int sim_scheduler_program(void *arg)
{
    struct sim_place *place = arg;
    struct kiln_scheduler_signals *signals = calloc(1, sizeof *signals);
    struct kiln_error err;
    if (!signals)
        return 1;
    place->stop = signals;
    if (sim_settings()->quick && place->which > 0) /* so that it is known who leads */
        sim_sleep(SIM_S);
    char *argv[] = {"kiln-scheduler",
                    "--pool",
                    SIM_POOL,
                    "--size",
                    "64x64",
                    "--max-attempts",
                    (char *)sim_settings()->max_attempts,
                    "--backoff-max-s",
                    "20",
                    "--statement-timeout-s",
                    "10",
                    "--scheduler-port", /* a port of the machine, which others may have */
                    "0",
                    "--log-level",
                    "debug",
                    NULL};
    int rc = kiln_scheduler_run((int)(sizeof argv / sizeof *argv) - 1, argv, signals, &err);
    if (rc)
        sim_log("kiln-scheduler: %s", err.text);
    return rc ? kiln_code_exit(rc) : 0;
}

void sim_scheduler_stop(void *stop)
{
    struct kiln_scheduler_signals *signals = stop;
    atomic_store(&signals->stop, true);
}
