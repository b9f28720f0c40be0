/* fleet.h - the simulated fleet: real schedulers and workers, clients, and who starts them again.
 */
#ifndef KILN_SIM_FLEET_H
#define KILN_SIM_FLEET_H

#include "tests/sim/servers.h"

#define SIM_SCHEDULER_COUNT 2
#define SIM_WORKER_COUNT 3
#define SIM_CLIENT_COUNT 3
#define SIM_POOL "sim"

/* What a run is like; filled from the seed (plan.c). */
struct sim_settings {
    const char *max_attempts;
    uint32_t workers;
    uint32_t jobs[SIM_CLIENT_COUNT]; /* entries that each client sends */
    bool poison, failing, orders;    /* prompts that crash or fail; cancel and retry */
    bool quick;                      /* clients begin at once */
    bool redis_keeps;                /* what it was told */
    bool hostile;                    /* somebody sends what nobody should */
};

/* One place of the fleet; a supervisor starts its process again when it has died. */
struct sim_place {
    struct sim_process *process;
    char name[32], host[16];
    uint32_t which;
    bool scheduler, watched; /* watched: by the supervisor */
    void *stop;              /* of a scheduler: what SIGTERM sets */
};

struct sim_place *sim_fleet_place(uint32_t which); /* schedulers first, then workers */
uint32_t sim_fleet_places(void);

/* Starts everything.  kiln_client_* below start at their own times. */
void sim_fleet_start(const struct sim_settings *settings);
/* A second process under a worker's id, on another host. */
void sim_fleet_twin(uint32_t worker);
/* SIGTERM. */
void sim_fleet_end(struct sim_place *place);

/* --- the programs ---------------------------------------------------------------------------- */
int sim_scheduler_program(void *place);
void sim_scheduler_stop(void *stop);
/* What the leading policy says of a waiting job. */
void sim_scheduler_why(uint64_t job, char *out, size_t size);
int sim_worker_program(void *place);
int sim_client_program(void *which);
int sim_operator_program(void *arg);
int sim_hostile_program(void *arg);

const struct sim_settings *sim_settings(void);
struct kiln_config *sim_config(void);

/* --- clients --------------------------------------------------------------------------------- */
struct sim_client {
    uint32_t which, sent, calls; /* pictures announced; calls made */
    char batch[32];
    bool numbered, ended; /* entries carry index and key */
};
extern struct sim_client sim_clients[SIM_CLIENT_COUNT];

#endif
