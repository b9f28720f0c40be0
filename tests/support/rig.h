/* rig.h - a ledger on a private Postgres, and the steps that its tests share. */
#ifndef KILN_TEST_RIG_H
#define KILN_TEST_RIG_H

#include "tests/support/jobs.h"
#include "tests/support/stack.h"

struct kiln_rig {
    struct kiln_test_stack *stack;
    struct kiln_ledger *ledger; /* "test" */
    struct kiln_error err;
};
extern struct kiln_rig rig;

/* Group setup and teardown. */
int kiln_rig_start(void **state);
int kiln_rig_stop(void **state);

/* Jobs of the batch in a state, as the rows say and as the batch's sums say; state names the column
 * of the sums, number the state. */
void kiln_rig_expect(const char *batch, const char *state, int number, long long expected);
/* The sums of every batch are those of its rows. */
void kiln_rig_expect_sums(void);
/* Rows of a table with this job_id. */
long long kiln_rig_rows(const char *table, uint64_t id);

struct kiln_rig_found {
    uint64_t at[64];
    struct kiln_waiting jobs[64];
    size_t count;
    char batch[32];
};
/* For kiln_ledger_waiting; arg is a struct kiln_rig_found. */
int kiln_rig_collect(void *arg, const struct kiln_waiting *job);

/* Inserts a batch of up to 64 jobs and assigns all of it to w0; the assignment has its name. */
size_t kiln_rig_assigned(const char *batch, size_t count, struct kiln_job *jobs);
void kiln_rig_release(struct kiln_job *jobs, size_t count);
/* Commits a picture; whether the job was ours. */
bool kiln_rig_commit(const struct kiln_job *job);
/* Returns the job as `how` says; its new state. */
int kiln_rig_return(const struct kiln_job *job, struct kiln_return how);

#endif
