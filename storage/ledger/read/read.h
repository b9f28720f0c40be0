/* read.h - what people ask the ledger: counts, lists, one job, a batch's results.
 *
 * Reading only, in any session; the verbs that only ask open one for reading (reader.h).  Lists run
 * through a cursor in one snapshot, so a batch of a million jobs costs no memory.  Rows are lent to
 * the callback until it returns; a non-zero return of it ends the walk and is what the call
 * returns.  Times are the database's clock, milliseconds since 1970, 0 for never.
 */
#ifndef KILN_LEDGER_READ_H
#define KILN_LEDGER_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/reuse/class.h"
#include "schemas/wire/wire.h"

struct kiln_ledger;

/* --- counts ----------------------------------------------------------------------------------- */
struct kiln_counts {
    uint64_t at[KILN_JOB_STATE_COUNT]; /* by enum kiln_job_state */
};
int kiln_ledger_counts(struct kiln_ledger *ledger, const char *pool, struct kiln_counts *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* How far a batch is.  It is whole once every enqueue call has announced its end and everything
 * announced is in the ledger; before that its counts still grow. */
struct kiln_progress {
    struct kiln_counts jobs;
    struct kiln_counts gone; /* of these; filled by kiln_ledger_gone_counts (queue/source.h) */
    uint64_t removed;        /* of the cancelled: gc has taken their rows */
    uint64_t announced, accepted, duplicate; /* over its enqueue calls */
    uint64_t refused; /* once it has ended: and not come in since, by another call */
    bool whole;
    int64_t created_ms;
};
/* KILN_NOT_FOUND: no such batch (yet). */
int kiln_ledger_progress(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         struct kiln_progress *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Refused jobs that have not come in since, each with its last reason. */
typedef int kiln_each_refusal(void *arg, const char *key, const char *reason,
                              struct kiln_error *err);
int kiln_ledger_refusals(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         kiln_each_refusal *each, void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* The first and the last refusal of an enqueue call; "" if there are none. */
struct kiln_refusal_ends {
    char first_key[KILN_INTAKE_KEY_MAX + 1], last_key[KILN_INTAKE_KEY_MAX + 1];
    char reason[KILN_ERROR_TEXT_MAX]; /* of the first */
};
int kiln_ledger_refusal_ends(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             const char *token, struct kiln_refusal_ends *ret,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* Jobs that can share a batch on a worker, with something left to do. */
struct kiln_group_row {
    char model[KILN_NAME_MAX + 1];
    char lora_set[KILN_LORA_SET_MAX], mode[KILN_MODE_MAX];
    uint32_t width, height, steps;
    uint64_t queued, assigned;
    int64_t oldest_ms; /* queued since; 0 when none waits */
};
typedef int kiln_each_group(void *arg, const struct kiln_group_row *group, struct kiln_error *err);
int kiln_ledger_groups(struct kiln_ledger *ledger, const char *pool, kiln_each_group *each,
                       void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* The models of the batch's queued jobs; "" is the pool's. */
typedef int kiln_each_model(void *arg, const char *model, struct kiln_error *err);
int kiln_ledger_waiting_models(struct kiln_ledger *ledger, const char *pool, const char *batch,
                               kiln_each_model *each, void *arg,
                               struct kiln_error *err) KILN_MUST_CHECK;

/* What a pause can match of queued jobs; each combination in the batch is reported once.  first: of
 * 2,000 queued jobs of the pool from the batch's job of index 0 on, or from its oldest if there is
 * none, those that are the batch's: maybe not all sorts, or none; else of all. */
struct kiln_waiting_row {
    uint64_t batch_id;
    char model[KILN_NAME_MAX + 1], tenant[KILN_NAME_MAX + 1], lora_set[KILN_LORA_SET_MAX];
    char mode[KILN_MODE_MAX];
    uint32_t width, height, steps;
    int32_t priority;
};
typedef int kiln_each_waiting(void *arg, const struct kiln_waiting_row *sort,
                              struct kiln_error *err);
int kiln_ledger_waiting_sorts(struct kiln_ledger *ledger, const char *pool, const char *batch,
                              bool first, kiln_each_waiting *each, void *arg,
                              struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_worker_row {
    char name[KILN_NAME_MAX + 1], host[KILN_NAME_MAX + 1], device[KILN_NAME_MAX + 1], state[32];
    int64_t first_seen_ms, last_seen_ms;
    uint64_t assigned;                 /* jobs it holds now */
    char trouble[KILN_ERROR_TEXT_MAX]; /* why it has not started; "" */
};
typedef int kiln_each_worker(void *arg, const struct kiln_worker_row *worker,
                             struct kiln_error *err);
int kiln_ledger_workers(struct kiln_ledger *ledger, const char *pool, kiln_each_worker *each,
                        void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* The database's wall clock and its version text, into version. */
int kiln_ledger_clock(struct kiln_ledger *ledger, int64_t *ret_ms, char *version, size_t size,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Whether a scheduler leads the pool now. */
int kiln_ledger_led(struct kiln_ledger *ledger, const char *pool, bool *ret_led,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* --- jobs ------------------------------------------------------------------------------------- */
#define KILN_ROLES_MAX 8
struct kiln_object_row {
    char role[16], key[KILN_OBJECT_KEY_MAX + 1], sha256[65];
    uint64_t bytes;
    uint32_t width, height;
};
struct kiln_job_row {
    struct kiln_job job;
    char worker[KILN_NAME_MAX + 1], assignment[80];
    uint32_t tries, crashes;
    int error_code;    /* of the last failure; 0 for none */
    const char *error; /* its text, NULL for none */
    int64_t created_ms, queued_ms, not_before_ms, assigned_ms, finished_ms;
    bool gone; /* its file was sent again without it (queue/source.h) */
    struct kiln_object_row objects[KILN_ROLES_MAX]; /* largest picture first, the latent last */
    uint32_t object_count;                          /* 0 unless asked for */
    char rendered_mode[KILN_MODE_MAX];              /* the same; "coarse=auto" is resolved */
    double forwards; /* what the run cost, in steps at full size; 0: not asked for, or not done */
    double start_sigma;  /* where a run from a start began; 0: from noise, or not known */
    double own_forwards; /* what the run would have cost without its donor */
    char fallback[16];   /* why it did not begin from job.donor; "": it did, or had none */
    char model_name[KILN_NAME_MAX + 1], model_hash[80]; /* of the run, likewise; "": not known */
};
/* Whether its run began from the latent of row->job.donor. */
static inline bool kiln_row_reused(const struct kiln_job_row *row)
{
    return row->job.donor.job != 0 && !row->fallback[0];
}
/* Steps of a run from that latent that was given up. */
static inline double kiln_row_wasted(const struct kiln_job_row *row)
{
    return strcmp(row->fallback, KILN_REUSE_UNLIKE) == 0 ? row->forwards - row->own_forwards : 0;
}
typedef int kiln_each_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err);

/* Jobs in the order they came; batch NULL: all; state -1: any.  Objects are left out.  Read in
 * pages, so that somebody who scrolls through them for an hour keeps no transaction open: a job is
 * listed once, as it is when its page is read. */
int kiln_ledger_jobs(struct kiln_ledger *ledger, const char *pool, const char *batch, int state,
                     kiln_each_job *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* The jobs of a batch that have these keys, in any order; keys without a job are left out. */
typedef int kiln_each_keyed(void *arg, const char *key, uint64_t id, struct kiln_error *err);
int kiln_ledger_keyed_jobs(struct kiln_ledger *ledger, const char *pool, const char *batch,
                           const char *const *keys, size_t count, kiln_each_keyed *each, void *arg,
                           struct kiln_error *err) KILN_MUST_CHECK;
/* A batch's jobs by index, with their objects. */
int kiln_ledger_results(struct kiln_ledger *ledger, const char *pool, const char *batch,
                        kiln_each_job *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

/* What the rows of the picture and the latent say of a job. */
struct kiln_made {
    bool image, latent;
    char model_name[KILN_NAME_MAX + 1], model_hash[80];
    double wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms;
    double sigma;
    uint32_t states;
    char encoding[32], shape[64]; /* shape "16,32,32" */
};
/* Calls each once; KILN_NOT_FOUND if there is no such job in the pool. */
int kiln_ledger_job(struct kiln_ledger *ledger, const char *pool, uint64_t id, kiln_each_job *each,
                    void *arg, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_ledger_made(struct kiln_ledger *ledger, uint64_t id, struct kiln_made *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_move_row {
    int64_t at_ms;
    int was, state, code; /* enum kiln_job_state twice, enum kiln_code */
    uint32_t attempt;
    const char *worker, *reason; /* NULL if none */
};
typedef int kiln_each_move(void *arg, const struct kiln_move_row *move, struct kiln_error *err);
int kiln_ledger_moves(struct kiln_ledger *ledger, uint64_t id, kiln_each_move *each, void *arg,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* Queued jobs of the pool that came before this one, and those of them in its group. */
int kiln_ledger_ahead(struct kiln_ledger *ledger, const char *pool, uint64_t id, uint64_t *ret_all,
                      uint64_t *ret_group, struct kiln_error *err) KILN_MUST_CHECK;

#endif
