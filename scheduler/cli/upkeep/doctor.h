/* doctor.h - what the checks of `kiln doctor` share, and those that live in files of their own. */
#ifndef KILN_CLI_DOCTOR_H
#define KILN_CLI_DOCTOR_H

#include "scheduler/cli/core/cli.h"

/* ok; works, but look at it; jobs will not run, or something is lost. */
enum kiln_finding { KILN_FINDING_OK, KILN_FINDING_WARNING, KILN_FINDING_BAD };

struct kiln_doctor {
    struct kiln_cli *cli;
    json_t *findings;
    int worst;
};

/* todo "" when there is nothing to do; fmt describes what was found. */
void kiln_find(struct kiln_doctor *doctor, const char *what, enum kiln_finding verdict,
               const char *todo, const char *fmt, ...) KILN_PRINTF(5, 6);
bool kiln_doctor_has_store(const struct kiln_doctor *doctor);

#define KILN_MAKE_ROOM "make room: jobs wait while the disk is full"
/* S3 refuses signatures at 15 minutes; what people read in logs and lists is wrong before. */
#define KILN_SKEW_WARNING_MS 2000
#define KILN_SKEW_BAD_MS 60000

/* --- doctor_bus.c ----------------------------------------------------------------------------- */
/* Rights of our Redis user, what Redis does when memory is short and what it keeps on disk; room
 * where Redis and Postgres write, if they do that on this machine. */
void kiln_doctor_bus(struct kiln_doctor *doctor);

/* --- doctor_intake.c -------------------------------------------------------------------------- */
/* Whether lines come in: what keeps the intake waiting, what it has set aside, a stream that takes
 * nothing any more. */
void kiln_doctor_intake(struct kiln_doctor *doctor);

/* --- doctor_needs.c --------------------------------------------------------------------------- */
/* Waiting jobs that no live worker can draw; workers whose clocks are off. */
void kiln_doctor_needs(struct kiln_doctor *doctor);

/* --- doctor_fleet.c --------------------------------------------------------------------------- */
/* Rights of our database user, leases without a holder, batches whose lines stopped coming.  fix:
 * gives the jobs of such leases back, as the scheduler would. */
void kiln_doctor_ledger(struct kiln_doctor *doctor, bool fix);
/* Every object of the ledger against the store. */
void kiln_doctor_objects(struct kiln_doctor *doctor);

/* --- doctor_machine.c ------------------------------------------------------------------------- */
/* What is free of the file system that holds path. */
void kiln_doctor_room(struct kiln_doctor *doctor, const char *what, const char *path);
/* The parts of a model directory, and whether we may read them.  Not what is in the weights: a
 * model that lies is refused by the worker, with the reason in its log. */
void kiln_doctor_model(struct kiln_doctor *doctor, const char *model);
void kiln_doctor_device(struct kiln_doctor *doctor); /* the GPU, if one is configured */
void kiln_doctor_crew(struct kiln_doctor *doctor); /* workers of this machine that were given up */
/* Settings with a password that others may read; fix: takes that right away. */
void kiln_doctor_files(struct kiln_doctor *doctor, bool fix);

#endif
