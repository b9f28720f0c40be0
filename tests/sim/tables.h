/* tables.h - the ledger in memory: the rules of storage/ledger and schemas/sql without
 * Postgres.
 *
 * Each function is one statement of the real ledger, hence one transaction: it happens whole, at
 * the moment it is called.  Time comes in as the database's wall clock.  test_tables.c runs the
 * same random statements here and on Postgres and compares every answer and every row.
 *
 * Whatever breaks a guarantee on the way (an illegal move, a second commit, an attempt that does
 * not grow) ends the run through `broken`.
 */
#ifndef KILN_SIM_TABLES_H
#define KILN_SIM_TABLES_H

#include "schemas/wire/wire.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/read.h"

#define SIM_BATCHES_MAX 64
#define SIM_CALLS_MAX 256

struct sim_row {
    struct kiln_job job; /* texts are the row's own; batch is the batch's name */
    char pool[KILN_NAME_MAX + 1];
    char *key, *token;
    uint32_t tries, crashes, commits;
    int error_code;
    char worker[KILN_NAME_MAX + 1], assignment[80];
    int64_t queued_ms, not_before_ms, assigned_ms;
    char objects[4][KILN_OBJECT_KEY_MAX + 1]; /* of the committed picture */
    size_t object_count;
};

struct sim_call { /* intake_call */
    uint64_t batch_id;
    char token[KILN_WIRE_ID_MAX + 1];
    uint64_t announced, accepted, duplicate, refused;
    int64_t entry;
    bool open; /* announced is NULL */
};

struct sim_refusal {
    uint64_t batch_id;
    char token[KILN_WIRE_ID_MAX + 1];
    char *key, *reason;
};

struct sim_batch {
    uint64_t id, next_index;
    char pool[KILN_NAME_MAX + 1], name[KILN_BATCH_NAME_MAX + 1];
};

struct sim_tables {
    struct sim_row **rows; /* by id - 1; NULL where an id was reserved and not used */
    size_t row_count;
    struct sim_batch batches[SIM_BATCHES_MAX];
    size_t batch_count;
    struct sim_call calls[SIM_CALLS_MAX];
    size_t call_count;
    struct sim_refusal refusals[SIM_CALLS_MAX];
    size_t refusal_count;
    /* Faults of the ledger itself, for showing that the checks see them. */
    bool no_fencing;
    /* Chance, and whether somebody else has a row locked just now (NULL: never). */
    uint32_t (*random)(uint32_t bound);
    bool (*locked)(void);
    void (*broken)(const char *fmt, ...);
    void (*moved)(struct sim_row *row, enum kiln_job_state from, const struct kiln_return *why);
};

struct sim_row *sim_tables_row(struct sim_tables *tables, uint64_t id); /* NULL: none */
struct sim_batch *sim_tables_batch(struct sim_tables *tables, const char *pool, const char *name);
struct sim_batch *sim_tables_make_batch(struct sim_tables *tables, const char *pool,
                                        const char *name);

/* --- intake ---------------------------------------------------------------------------------- */
/* Ids are drawn when a statement begins and seen when it commits, so two insertions may be seen in
 * another order than that of their ids.  Returns the first of count. */
uint64_t sim_tables_reserve(struct sim_tables *tables, size_t count);
/* The batches exist.  Returns how many jobs are new. */
uint64_t sim_tables_insert(struct sim_tables *tables, const char *pool,
                           const struct kiln_new_job *jobs, size_t count, uint64_t first_id,
                           int64_t now_ms);
void sim_tables_number(struct sim_tables *tables, struct sim_batch *batch, const char *const *keys,
                       const int64_t *wishes, size_t count, int64_t *ret_index);
void sim_tables_refuse(struct sim_tables *tables, const struct sim_batch *batch, const char *token,
                       const char *key, const char *reason);
struct sim_call *sim_tables_announce(struct sim_tables *tables, const struct sim_batch *batch,
                                     const char *token, uint64_t announced);

/* --- scheduling ------------------------------------------------------------------------------ */
/* Fills at most max rows, in order of id. */
size_t sim_tables_waiting(struct sim_tables *tables, const char *pool, uint64_t after, size_t max,
                          struct kiln_waiting *ret);
size_t sim_tables_held(struct sim_tables *tables, const char *pool, struct kiln_assigned_job *ret,
                       size_t max);
/* ret[i] are borrowed rows. */
size_t sim_tables_assign(struct sim_tables *tables, const char *worker, const char *assignment,
                         const uint64_t *ids, size_t count, int64_t now_ms, struct sim_row **ret);
struct sim_limits {
    int64_t max_attempts;
    double base_s, max_s;
};
int sim_tables_return(struct sim_tables *tables, const struct kiln_return *how,
                      const struct sim_limits *limits, int64_t now_ms);
/* id 0: the whole batch.  -1: there is no such job or batch. */
int64_t sim_tables_cancel(struct sim_tables *tables, const char *pool, uint64_t id,
                          const char *batch);
int64_t sim_tables_retry(struct sim_tables *tables, const char *pool, uint64_t id,
                         const char *batch, int64_t now_ms);

/* --- the worker ------------------------------------------------------------------------------ */
bool sim_tables_commit(struct sim_tables *tables, const struct kiln_commit *commit);
bool sim_tables_still_ours(struct sim_tables *tables, uint64_t id, uint32_t attempt);

/* --- reading --------------------------------------------------------------------------------- */
void sim_tables_progress(struct sim_tables *tables, const struct sim_batch *batch,
                         struct kiln_progress *ret);

void sim_tables_release(struct sim_tables *tables);

#endif
