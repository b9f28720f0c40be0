/* ledger.h - the ledger in Postgres: sessions, intake, moves of the scheduler, commits.
 *
 * A session is one connection, used by one thread.  Statements are prepared and have a time limit;
 * a lost connection is made again with backoff and jitter.  After KILN_UNAVAILABLE a write may or
 * may not have happened.  Every write may be repeated, because the identity and the attempt of a
 * job fence it.  Reading for people (status, jobs, show, export) is in ledger/read/read.h, sessions
 * made for it in ledger/read/reader.h; the schema in schemas/sql; the move of a job between states
 * in ledger/queue/move.c alone.
 */
#ifndef KILN_LEDGER_H
#define KILN_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/reuse/class.h" /* KILN_REUSE_UNLIKE */

struct kiln_ledger;

/* name: application_name ("kiln-worker w0").  Connects lazily. */
int kiln_ledger_open(const struct kiln_config *config, const char *name, struct kiln_ledger **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* A session for people's questions, for all functions of ledger/read: the server plans each
 * question with its values and refuses writes (KILN_INTERNAL).  No question takes longer than
 * limit_ms (0: the setting statement_timeout_s), or two seconds more if the server hangs. */
int kiln_ledger_open_reading(const struct kiln_config *config, const char *name, int64_t limit_ms,
                             struct kiln_ledger **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* For a session that only writes what can be made again from other tables; called right after it
 * was opened.  A crash of the server may lose its last commits, in order: never a commit without
 * those before it.  On this machine, its server process has a lower priority. */
void kiln_ledger_in_background(struct kiln_ledger *ledger);
void kiln_ledger_close(struct kiln_ledger *ledger); /* accepts NULL */
/* Connects if needed and refuses a schema older or newer than this program. */
int kiln_ledger_check(struct kiln_ledger *ledger, struct kiln_error *err) KILN_MUST_CHECK;

/* Tries to become (or confirms being) the only leader of the pool: an advisory lock of this
 * connection.  *ret_leader false = someone else leads.  From then on the lock goes with the
 * connection: once that is lost, every call fails with KILN_STALE or KILN_UNAVAILABLE and nothing
 * is sent to the server, until kiln_ledger_stand_down. */
int kiln_ledger_lead(struct kiln_ledger *ledger, const char *pool, bool *ret_leader,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* Ends a leadership: calls may connect again.  If the old connection still exists, it keeps the
 * lock until the next kiln_ledger_lead, which gets it again, or until it ends. */
void kiln_ledger_stand_down(struct kiln_ledger *ledger);
/* Whether the failure rc of the last call was the server's answer to that statement.  Then the
 * connection and its lock are fine, and only the same statement would fail again. */
bool kiln_ledger_refused(const struct kiln_ledger *ledger, int rc);

/* --- intake ---------------------------------------------------------------------------------- */
struct kiln_new_job {
    struct kiln_job job; /* batch (name), index, ...; id is ignored */
    const char *key;     /* identity within the batch, not empty */
    const char *token;   /* of the enqueue call, "" if none */
    const char *entry;   /* id of its stream entry ("ms-seq"): an entry delivered twice is counted
                          * once as a duplicate.  NULL: always counted */
    const char *source;  /* the name of the file that it came from, or NULL (source.h) */
};
/* Makes missing batch rows, then inserts the jobs in bulk (transactions of up to a few thousand)
 * and skips those whose (batch, key) exists.  *ret_inserted counts the new ones. */
int kiln_ledger_insert_jobs(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_new_job *jobs, size_t count, uint64_t *ret_inserted,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* Sends jobs that are probably all new and leaves the answer to kiln_ledger_insert_end; calls in
 * between wait for it.  false: nothing is under way, kiln_ledger_insert_jobs takes them. */
bool kiln_ledger_insert_begin(struct kiln_ledger *ledger, const char *pool,
                              const struct kiln_new_job *jobs, size_t count) KILN_MUST_CHECK;
/* All of them are in, or none, and then kiln_ledger_insert_jobs says why.  If the connection was
 * lost nobody knows; it is safe to insert them again. */
int kiln_ledger_insert_end(struct kiln_ledger *ledger, uint64_t *ret_inserted,
                           struct kiln_error *err) KILN_MUST_CHECK;
#define KILN_BATCH_FULL                                                                            \
    "the batch %s is full: no free index was found up to %u; use another batch name"
/* Gives each job its index in the batch: the one it names (wishes[i]; -1, or wishes NULL: none),
 * unless a job of the batch or an earlier one of the call has it; else the next number that neither
 * has.  A wish does not advance the numbers, so it cannot fill a batch.  -1: a bounded search
 * found no free number.  A job whose key exists gets 0, which its insertion ignores.  No number is
 * given out twice, by any caller, until all 2^32 were used; an unused number leaves a gap.  Others
 * see a granted wish once its job is inserted. */
int kiln_ledger_number(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       const char *const *keys, const int64_t *wishes, size_t count,
                       int64_t *ret_index, struct kiln_error *err) KILN_MUST_CHECK;
/* Records a refused intake entry (kept with the batch, shown by `kiln show`), once for a token and
 * key: key names the entry, by its stream id if it has no key of its own. */
int kiln_ledger_refuse(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       const char *token, const char *key, const char *reason,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The last entry of an enqueue call: the batch is whole once all `announced` jobs of the call are
 * accepted, duplicate or refused.  Fills the counts of the call; repeatable. */
int kiln_ledger_announce(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         const char *token, uint64_t announced, uint64_t *ret_accepted,
                         uint64_t *ret_duplicate, uint64_t *ret_refused,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* --- scheduling ------------------------------------------------------------------------------ */
/* What the policy needs to know of a queued job: no texts. */
struct kiln_waiting {
    uint64_t id;
    uint64_t batch_id;
    char model[KILN_NAME_MAX + 1], tenant[KILN_NAME_MAX + 1];
    char lora_set[KILN_LORA_SET_MAX]; /* canonical text */
    char mode[KILN_MODE_MAX];         /* its text */
    uint32_t width, height, steps, attempt, max_wait_s;
    uint32_t crashes; /* attempts whose worker died; such a job runs alone */
    double guidance;
    int32_t priority;
    enum kiln_job_kind kind;
    int64_t queued_ms, not_before_ms;  /* wall clock of the database, ms since 1970 */
    char failed_at[KILN_NAME_MAX + 1]; /* the worker of the last attempt, if it failed; "" */
    bool asks; /* it never ran and asks for a stored latent, without LoRAs and guidance */
};
typedef int kiln_ledger_each_waiting(void *arg, const struct kiln_waiting *job);
/* Queued jobs with id > after_id in id order, at most max.  An index scan. */
int kiln_ledger_waiting(struct kiln_ledger *ledger, const char *pool, uint64_t after_id,
                        uint32_t max, kiln_ledger_each_waiting *each, void *arg,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* Of the named jobs those that wait and ask for a stored latent: whole records, lent for the call.
 * Another return value than 0 of each ends it, and is returned. */
typedef int kiln_ledger_each_asking(void *arg, const struct kiln_job *job);
int kiln_ledger_asking(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                       size_t count, kiln_ledger_each_asking *each, void *arg,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* Moves the named queued jobs to assigned with attempt + 1, in one statement; those that are no
 * longer queued are left out.  Fills jobs[] (whole records, release each) and *ret_count. */
int kiln_ledger_assign(struct kiln_ledger *ledger, const char *worker, const char *assignment,
                       const uint64_t *ids, size_t count, struct kiln_job *jobs, size_t *ret_count,
                       struct kiln_error *err) KILN_MUST_CHECK;

#define KILN_NEW_ASSIGNMENTS_MAX 16 /* in one round trip; more take several */

/* The same for several assignments, each its own transaction, with one flush of the server's log
 * for all. After an error any number of them may be recorded, and no record is filled. */
struct kiln_new_assignment {
    const char *worker, *assignment;
    const uint64_t *ids;
    size_t count;
    struct kiln_job *jobs; /* [count] */
    size_t given;          /* records that were filled */
};
int kiln_ledger_assign_many(struct kiln_ledger *ledger, struct kiln_new_assignment *wanted,
                            size_t count, struct kiln_error *err) KILN_MUST_CHECK;
/* Notes from whose stored latents jobs of an assignment begin, so that these latents are not
 * evicted meanwhile.  ret_there[count]: which of them exist; the others must not be used. */
int kiln_ledger_note_donors(struct kiln_ledger *ledger, const char *pool, const char *assignment,
                            const uint64_t *donors, size_t count, bool *ret_there,
                            struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_assigned_job {
    uint64_t id;
    uint32_t attempt, crashes;
    char worker[KILN_NAME_MAX + 1];
    char assignment[80];
    int64_t assigned_ms;
};
typedef int kiln_ledger_each_assigned(void *arg, const struct kiln_assigned_job *held);
/* Every assigned job of the pool, for recovery to compare with the heartbeats.  Removes assignments
 * without assigned jobs. */
int kiln_ledger_assigned(struct kiln_ledger *ledger, const char *pool,
                         kiln_ledger_each_assigned *each, void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* Why an assigned job is returned. */
struct kiln_return {
    uint64_t id;
    uint32_t attempt; /* only if this is still its attempt */
    int code;         /* enum kiln_code; KILN_OK: not started, so the attempt is no try */
    const char *reason;
    bool crashed; /* its worker died: counts towards KILN_POISONED */
    bool final;   /* not worth retrying: straight to failed */
};
/* assigned -> queued with backoff and jitter, or failed when attempts are used up or final.
 * *ret_states[i] = the new state, or -1 if the attempt was no longer that one. */
int kiln_ledger_return(struct kiln_ledger *ledger, const struct kiln_return *returns, size_t count,
                       int *ret_states, struct kiln_error *err) KILN_MUST_CHECK;

/* Cancels queued and assigned jobs: one id, or a whole batch (id 0).  *ret_count = how many moved.
 */
int kiln_ledger_cancel(struct kiln_ledger *ledger, const char *pool, uint64_t id, const char *batch,
                       uint64_t *ret_count, struct kiln_error *err) KILN_MUST_CHECK;
/* The id of a batch by name; KILN_NOT_FOUND if the pool has none of that name. */
int kiln_ledger_batch_id(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         uint64_t *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* failed and cancelled -> queued, attempts start again. */
int kiln_ledger_retry(struct kiln_ledger *ledger, const char *pool, uint64_t id, const char *batch,
                      uint64_t *ret_count, struct kiln_error *err) KILN_MUST_CHECK;

/* Removes the events of jobs that ended more than keep_days ago, a page of jobs a call.  *cursor: 0
 * at first; *ret_more: call again. */
int kiln_ledger_forget(struct kiln_ledger *ledger, const char *pool, uint32_t keep_days,
                       uint64_t *cursor, uint64_t *ret_forgotten, bool *ret_more,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* --- the worker's commit --------------------------------------------------------------------- */
struct kiln_commit_object {
    const char *role; /* of a stored size, or the latent's (schemas/job/sizes.h) */
    const char *key;
    const char *sha256; /* hex */
    uint64_t bytes;
    uint32_t width, height; /* pixels; latent: of the latent */
    const char *content_type;
};
struct kiln_commit {
    const struct kiln_job *job; /* id and attempt fence the commit */
    const char *worker, *assignment;
    const char *model_hash, *model_name;
    const struct kiln_commit_object *objects;
    size_t object_count;
    double sigma;                /* of the latent; 0 = clean */
    const char *latent_encoding; /* NULL: no latent stored */
    const double *latent_sigmas; /* [latent_states]; NULL: sigma is that of each */
    uint32_t latent_states, latent_channels;
    const char *lora_files; /* "NAME:SHA256+...", "" without LoRAs; NULL: not known */
    struct kiln_mode mode;  /* as rendered: never COARSE_AUTO; zeroed: exact */
    const char *start;      /* what it began from: the key of a picture or "job:17"; NULL: noise */
    const char *fallback; /* why the run did not begin from job->donor; NULL: it did, or has none */
    /* What its steps cost, in steps at full size; 0: job->steps.  With KILN_REUSE_UNLIKE those of
     * the run that was given up are among them. */
    double forwards;
    double start_sigma;  /* the noise level at which it began from a start; 0: from noise */
    double own_forwards; /* from a donor: what the job's own mode would have cost; else 0 */
    double wait_ms, text_ms, denoise_ms, decode_ms, encode_ms, upload_ms;
};
/* One transaction: image (kind image), object and latent rows, the job to done where it is still
 * assigned at this attempt.  *ret_ours false: it was not; nothing was written. */
int kiln_ledger_commit(struct kiln_ledger *ledger, const struct kiln_commit *commit, bool *ret_ours,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The same for several pictures, each its own transaction, with one flush of the server's log for
 * all. After an error any number of them may be recorded; repeat them all. */
int kiln_ledger_commit_many(struct kiln_ledger *ledger, const struct kiln_commit *commits,
                            size_t count, bool *ret_ours, struct kiln_error *err) KILN_MUST_CHECK;
/* Which of the jobs are still assigned at their attempt (a worker asks before it starts). */
int kiln_ledger_still_ours(struct kiln_ledger *ledger, const struct kiln_job *jobs, size_t count,
                           bool *ret_ours, struct kiln_error *err) KILN_MUST_CHECK;

/* Upserts the worker row: what people see of workers that are gone, or that do not start.  trouble:
 * why not, as a sentence; NULL for nothing. */
int kiln_ledger_worker_seen(struct kiln_ledger *ledger, const char *pool, const char *worker,
                            const char *host, const char *device, const char *state,
                            const char *trouble, struct kiln_error *err) KILN_MUST_CHECK;
/* Records that a worker was lost silent_ms ago; a later start of it is left as it is. */
int kiln_ledger_worker_lost(struct kiln_ledger *ledger, const char *pool, const char *worker,
                            uint64_t silent_ms, struct kiln_error *err) KILN_MUST_CHECK;

#endif
