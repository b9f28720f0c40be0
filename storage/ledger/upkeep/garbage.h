/* garbage.h - what gc may remove: orphaned objects, and rows that nobody needs.
 *
 * An object is claimed while a row references it, and while its job may still commit it: the
 * objects of a queued or assigned job are kept, however old they are.  A picture to start from
 * (inputs/) is claimed by the jobs that name it, and by done ones as long as their result is kept.
 * The file of a LoRA (loras/) is claimed by the registry as it is now, and by jobs in the same way.
 * A done job never commits again; a failed or cancelled job only after `kiln retry`, which
 * kiln_ledger_with_unclaimed() blocks while it removes objects of the job.
 */
#ifndef KILN_LEDGER_GARBAGE_H
#define KILN_LEDGER_GARBAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_ledger;

/* An object in the store. */
struct kiln_found {
    const char *key; /* lent */
    uint64_t job;    /* that its key names; 0: none */
};

enum kiln_claim {
    KILN_CLAIM_ROW,     /* a row references it */
    KILN_CLAIM_LIVE,    /* its job may still commit it */
    KILN_CLAIM_NONE,    /* its job has ended without it, or was removed */
    KILN_CLAIM_UNKNOWN, /* the ledger never had a job of that number */
};

/* The job in the key of a picture or a latent (worker/stages/object_key.h has the form), 0
 * for the object of a probe and for what jobs share (schemas/job/inputs.h).  False: no key
 * of Kiln's. */
bool kiln_found_job(const char *key, uint64_t *ret_job);

/* ret[count]: the claim of each now. */
int kiln_ledger_claims(struct kiln_ledger *ledger, const struct kiln_found *objects, size_t count,
                       enum kiln_claim *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Calls use(arg, at, n, err) with those of at most KILN_UNCLAIMED_MAX objects that are unclaimed,
 * objects[at[0..n)] in their order, n > 0, and keeps their jobs from
 * moving until it returns, so what use removes cannot be committed meanwhile.  A retry waits. */
#define KILN_UNCLAIMED_MAX 1000
typedef int kiln_use_unclaimed(void *arg, const size_t *at, size_t n, struct kiln_error *err);
int kiln_ledger_with_unclaimed(struct kiln_ledger *ledger, const struct kiln_found *objects,
                               size_t count, kiln_use_unclaimed *use, void *arg,
                               struct kiln_error *err) KILN_MUST_CHECK;

/* A page of the pool's jobs that were cancelled more than age_s ago, removed with their moves; with
 * dry_run only counted.  *cursor starts as 0; *ret_more: call again. */
int kiln_ledger_drop_cancelled(struct kiln_ledger *ledger, const char *pool, int64_t age_s,
                               bool dry_run, uint64_t *cursor, uint64_t *ret_count, bool *ret_more,
                               struct kiln_error *err) KILN_MUST_CHECK;

/* Called for every object whose row was removed. */
typedef int kiln_each_dropped(void *arg, uint64_t job, const char *key, uint64_t bytes,
                              struct kiln_error *err);
struct kiln_drop {
    const char *pool;
    int64_t age_s;
    bool dry_run; /* only look */
    kiln_each_dropped *each;
    void *arg;
};
/* Removes a page of pictures that are older than age_s, as is their batch, and not favourites:
 * their image, object and latent rows, in one transaction.  The jobs stay done, and their cost
 * stays in usage_removed.  *cursor starts as 0; *ret_more: call again. */
int kiln_ledger_drop_pictures(struct kiln_ledger *ledger, const struct kiln_drop *what,
                              uint64_t *cursor, uint64_t *ret_pictures, bool *ret_more,
                              struct kiln_error *err) KILN_MUST_CHECK;
/* The same for latents without a picture (jobs of kind latent-cache), by their own age.  A latent
 * stays while it is needed (latent_need of the ledger): a queued or assigned job begins from it, or
 * a favourite picture has its prompt, model, size and LoRA set. */
int kiln_ledger_drop_latents(struct kiln_ledger *ledger, const struct kiln_drop *what,
                             uint64_t *cursor, uint64_t *ret_latents, bool *ret_more,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* A stored latent, for eviction. */
struct kiln_latent_worth {
    uint64_t job, bytes;
    double seconds; /* of the device that runs which began from it saved */
    int64_t age_s;
    bool final; /* the finished latent alone; others hold states that somebody asked for */
};
typedef int kiln_each_worth(void *arg, const struct kiln_latent_worth *row, struct kiln_error *err);
/* A page of the pool's stored latents, of all modes.  *cursor starts as 0; *ret_more: call
 * again. */
int kiln_ledger_latent_worths(struct kiln_ledger *ledger, const char *pool, uint64_t *cursor,
                              kiln_each_worth *each, void *arg, bool *ret_more,
                              struct kiln_error *err) KILN_MUST_CHECK;
/* Removes the rows of the final latents of at most KILN_EVICT_MAX jobs, in one transaction, except
 * those that are needed, as above.  Calls each for what was removed; with dry_run for what would
 * be.  Pictures and their objects stay. */
#define KILN_EVICT_MAX 200
int kiln_ledger_evict_latents(struct kiln_ledger *ledger, const char *pool, const uint64_t *jobs,
                              size_t count, bool dry_run, kiln_each_dropped *each, void *arg,
                              struct kiln_error *err) KILN_MUST_CHECK;

/* Calls each for all objects of at most count jobs that have some, taken at random. */
int kiln_ledger_sample_objects(struct kiln_ledger *ledger, uint32_t count, kiln_each_dropped *each,
                               void *arg, struct kiln_error *err) KILN_MUST_CHECK;

#endif
