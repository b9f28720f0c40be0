/* plan.h - what goes wrong in a run, drawn from its seed before it begins.
 *
 * The same seed gives the same plan, on every machine.  What comes of it is not the same: real
 * processes meet the faults at other moments of their work each time.
 */
#ifndef KILN_TEST_CHAOS_PLAN_H
#define KILN_TEST_CHAOS_PLAN_H

#include <stdint.h>

#define CHAOS_WORKERS 3
#define CHAOS_SCHEDULERS 2
#define CHAOS_FAULTS 10

enum chaos_kind {
    CHAOS_WORKER_KILL,  /* kill -9; started again after a while */
    CHAOS_WORKER_PAUSE, /* SIGSTOP for longer than the lease */
    CHAOS_WORKER_DRAIN, /* SIGTERM; started again */
    CHAOS_WORKER_CUT,   /* its network to Redis, Postgres and the store */
    CHAOS_WORKER_NO_REDIS,
    CHAOS_WORKER_NO_POSTGRES,
    CHAOS_WORKER_NO_STORE,
    CHAOS_WORKER_RESET, /* all its connections break */
    CHAOS_SCHEDULER_KILL,
    CHAOS_SCHEDULER_PAUSE,
    CHAOS_SCHEDULER_CUT,
    CHAOS_SCHEDULER_NO_REDIS,
    CHAOS_SCHEDULER_NO_POSTGRES,
    CHAOS_REDIS_KILL,
    CHAOS_REDIS_RESTART, /* SIGTERM, and started again */
    CHAOS_REDIS_FREEZE,
    CHAOS_REDIS_FLUSH,
    CHAOS_POSTGRES_KILL,
    CHAOS_POSTGRES_RESTART,
    CHAOS_POSTGRES_FREEZE,
    CHAOS_STORE_503,
    CHAOS_STORE_BREAKS, /* resets, cut-off and late answers, lies */
    CHAOS_STORE_HANGS,
    CHAOS_DISK_FULL, /* the file system under Redis and Postgres */
    CHAOS_KINDS
};
const char *chaos_kind_name(enum chaos_kind kind);

struct chaos_fault {
    enum chaos_kind kind;
    int target;        /* which worker or scheduler; 0 for the others */
    int at_ms, for_ms; /* since the first batch was sent */
};

/* In order of time.  Faults of one target do not overlap; those of different ones do. */
struct chaos_plan {
    uint64_t seed;
    struct chaos_fault faults[CHAOS_FAULTS];
    int end_ms; /* when the last one is over */
};

void chaos_plan_make(struct chaos_plan *plan, uint64_t seed);
void chaos_plan_print(const struct chaos_plan *plan);

#endif
