/* plan.h - what a seed does to the fleet. */
#ifndef KILN_SIM_PLAN_H
#define KILN_SIM_PLAN_H

#include "tests/sim/fleet.h"

enum sim_class {
    SIM_CALM,       /* nothing at all */
    SIM_KILLS,      /* workers are killed */
    SIM_PAUSES,     /* workers are paused, some beyond their lease, some meet a successor */
    SIM_SCHEDULERS, /* schedulers are killed and paused */
    SIM_REDIS,      /* emptied, killed, hung, full, set back by a second */
    SIM_POSTGRES,   /* killed, hung, sessions ended */
    SIM_NETWORK,    /* requests and answers lost, entries lost and doubled */
    SIM_CLOCKS,     /* wall clocks jump */
    SIM_STORE,      /* the object store is away */
    SIM_EVERYTHING,
    SIM_CLASS_COUNT
};

struct sim_plan {
    enum sim_class class;
    bool faults[SIM_CLASS_COUNT];
    int64_t pause_ms; /* at most so long between faults */
    int64_t heals_at; /* from then on nothing happens any more */
    uint64_t single;  /* nothing happens but one blow, at this step of its victim */
    bool single_kills;
    struct sim_settings settings;
    /* The checks want to know: it is dead, or paused for a lease. */
    void (*on_kill)(const struct sim_process *process);
};
extern struct sim_plan sim_plan;

void sim_plan_make(uint64_t seed); /* after sim_world_init */
/* Instead of what the seed says: a small calm run in which the first worker or scheduler is struck
 * once, at that step.  kind: kill-worker, pause-worker, kill-scheduler, pause-scheduler. */
bool sim_plan_single(const char *kind, uint64_t step);
void sim_plan_start(void); /* after sim_fleet_start */
const char *sim_class_name(enum sim_class class);

#endif
