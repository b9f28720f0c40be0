/* doctor.h - what `kiln doctor` asks Redis: our rights, its use of memory and disk, its clock.
 *
 * A user with least rights may lack the right to ask: KILN_DENIED is then not a fault.
 */
#ifndef KILN_BUS_DOCTOR_H
#define KILN_BUS_DOCTOR_H

#include "storage/bus/bus.h"

/* What each part of Kiln does with the bus. */
enum kiln_bus_ability {
    KILN_BUS_SCHEDULES,
    KILN_BUS_RENDERS,
    KILN_BUS_OPERATES,
    KILN_BUS_READS,
    KILN_BUS_ENQUEUES,
    KILN_BUS_ABILITIES
};
struct kiln_bus_rights {
    char user[64];
    bool able[KILN_BUS_ABILITIES];
    /* If an ability is incomplete: the first refused command, with its key. */
    char lacks[KILN_BUS_ABILITIES][128];
};
/* Tries every command of every part within a transaction that is never executed. */
int kiln_bus_rights(struct kiln_bus *bus, const char *pool, struct kiln_bus_rights *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_bus_state {
    char version[32], policy[32]; /* policy: of eviction */
    uint64_t used, max;           /* bytes; max 0: no limit */
    bool aof, aof_failed, save_failed;
    bool local; /* Redis runs on this machine */
    long pid;
};
int kiln_bus_state(struct kiln_bus *bus, struct kiln_bus_state *ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* The directory that Redis writes to, in its own words. */
int kiln_bus_dir(struct kiln_bus *bus, char *out, size_t size,
                 struct kiln_error *err) KILN_MUST_CHECK;
/* Its wall clock. */
int kiln_bus_time(struct kiln_bus *bus, int64_t *ret_ms, struct kiln_error *err) KILN_MUST_CHECK;

#endif
