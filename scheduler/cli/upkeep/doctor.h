/* doctor.h - the checks of `kiln doctor`, and the list of findings that they add to. */
#ifndef KILN_CLI_DOCTOR_H
#define KILN_CLI_DOCTOR_H

#include "scheduler/cli/core/cli.h"

/* ok; works, but needs attention; jobs cannot run, or something is lost. */
enum kiln_verdict { VERDICT_OK, VERDICT_WARNING, VERDICT_BAD };

struct kiln_doctor {
    struct kiln_cli *cli;
    json_t *findings;
    int worst;
    struct kiln_reader *reader; /* for the questions; NULL before the first */
};

/* --- doctor_finding.c ------------------------------------------------------------------------- */
/* Prints one finding, or keeps it for --json.  fmt says what was found, todo what to do about it
 * ("": nothing).  A check that cannot reach its server adds none: the server has a finding. */
void kiln_finding(struct kiln_doctor *doctor, const char *check, enum kiln_verdict verdict,
                  const char *todo, const char *fmt, ...) KILN_PRINTF(5, 6);
/* A session for questions to the ledger, checked; NULL after an error.  kiln_reader_give returns it
 * to doctor->reader. */
int kiln_doctor_ask(struct kiln_doctor *doctor, struct kiln_ledger **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* What is free on the file system of a path. */
void kiln_doctor_room(struct kiln_doctor *doctor, const char *check, const char *path);

#define KILN_FREE_SPACE "free some space: jobs wait while the disk is full"
/* S3 refuses signatures at 15 minutes; times in logs and lists are wrong before that. */
#define KILN_SKEW_WARNING_MS 2000
#define KILN_SKEW_BAD_MS 60000

/* --- doctor_bus.c ----------------------------------------------------------------------------- */
/* The rights of our Redis user, its streams, memory policy and persistence; the disks of Redis and
 * Postgres if they run on this machine. */
void kiln_doctor_bus(struct kiln_doctor *doctor);
/* What blocks the intake, what it has set aside, and a stream that accepts no more entries. */
void kiln_doctor_intake(struct kiln_doctor *doctor);

/* --- doctor_fleet.c --------------------------------------------------------------------------- */
/* The rights of our database user, orphaned assignments, batches whose lines stopped coming,
 * pauses of people.  fix: returns the jobs of orphaned assignments, as the scheduler would. */
void kiln_doctor_ledger(struct kiln_doctor *doctor, bool fix);
/* Queued jobs that no live worker can render; workers whose clocks are off. */
void kiln_doctor_needs(struct kiln_doctor *doctor);

/* --- doctor_store.c --------------------------------------------------------------------------- */
/* Whether we may write, read and remove objects, and whether the ledger's objects are there: a
 * sample of them, or with full each one. */
void kiln_doctor_store(struct kiln_doctor *doctor, bool full);

/* --- doctor_machine.c ------------------------------------------------------------------------- */
/* The model directory: its parts, and whether we may read them.  Not the weights: a worker refuses
 * a model whose weights are wrong, with the reason in its log. */
void kiln_doctor_model(struct kiln_doctor *doctor);
void kiln_doctor_device(struct kiln_doctor *doctor); /* the GPU, if one is configured */
void kiln_doctor_guard(struct kiln_doctor *doctor);  /* stopped workers of this machine */
/* A settings file with a password that others may read; fix: removes that right. */
void kiln_doctor_files(struct kiln_doctor *doctor, bool fix);

#endif
