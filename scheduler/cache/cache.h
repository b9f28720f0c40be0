/* cache.h - from which stored latent a waiting job may begin, asked by the leading scheduler.
 *
 * A thread with a session of its own keeps the index of donors in step with the ledger
 * (storage/ledger/read/donors.h).  It runs only once a job has asked for a donor and the model's
 * kiln.json has rows of teleport: until then nothing is read and every look-up is a miss.  The
 * thread also reads the model's words.txt where rows are for donors of other prompts, and all
 * donors again when it changes.  Look-ups are in memory and wait for nothing but a mutex; while the
 * index is not complete, they find what there is.
 *
 * Uses of a donor are counted here when it is given, and in the ledger when the picture is
 * committed; a leader that begins counts those of the ledger.  A fallback to a full run still
 * counts as a use until the next leader; that wastes a hit, never a picture.
 */
#ifndef KILN_CACHE_H
#define KILN_CACHE_H

#include "scheduler/cache/search.h"
#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/job.h"
#include "storage/ledger/ledger.h"

#define KILN_DONORS_MAX 1000000
#define KILN_DONORS_TEXT_MAX (256ull << 20) /* bytes of their prompts */

struct kiln_cache;

/* config must outlive the cache. */
int kiln_cache_open(const struct kiln_config *config, struct kiln_cache **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_cache_close(struct kiln_cache *cache); /* accepts NULL */
/* Once a job has asked: reads what the tenants' quotas say of teleport, once a second, and without
 * that no card; looks at the model's card now and then, if the setting `model` names a
 * directory that can be seen from here, but no rows for other number formats than that of the
 * setting `dtype`, unless that is auto; reads it if it is another file than before, and starts the
 * thread when the card has rows.  A card that is not valid counts as none and is logged. */
void kiln_cache_tend(struct kiln_cache *cache, struct kiln_ledger *ledger, const char *pool,
                     int64_t now_ms);
/* Instead of that, for a program that looks once: reads the quotas, the card and all donors, in the
 * caller's thread. */
int kiln_cache_load(struct kiln_cache *cache, struct kiln_ledger *ledger, const char *pool,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* The donor of a job, which counts as used; donor.job 0: none.  Of the job are read what it asks
 * for, its prompt and its size.  missed: of an earlier look that found none, or NULL; if it is not
 * outdated, that is the answer.  whole: the worker cannot begin at a small step of a coarse run, so
 * such starts are not looked for.  Any thread. */
struct kiln_donor kiln_cache_take(struct kiln_cache *cache, const struct kiln_job *job,
                                  const struct kiln_reuse_look *missed, bool whole);
/* What is in memory.  Begins to read the donors as a job that asks does.  For the thread that tends
 * the cache. */
enum kiln_cache_stage {
    KILN_CACHE_STARTING,
    KILN_CACHE_NO_TABLE,
    KILN_CACHE_READING,
    KILN_CACHE_COMPLETE
};
struct kiln_cache_state {
    enum kiln_cache_stage stage;
    uint32_t donors, prompts;
    uint64_t looks; /* for new donors, each to its end, since all were read first */
};
struct kiln_cache_state kiln_cache_warm(struct kiln_cache *cache);
/* Grows with every donor that is found, and whatever else may change what a look finds. */
uint64_t kiln_cache_turn(const struct kiln_cache *cache);
/* Whether the model's table has rows for jobs with this LoRA set (kiln_lora_set_key).  For the
 * thread that tends the cache. */
bool kiln_cache_serves(const struct kiln_cache *cache, const char *lora_set);
/* Whether looking again may find something else; waits for nothing. */
bool kiln_cache_outdated(const struct kiln_cache *cache, const struct kiln_reuse_look *look);
/* Whether all donors are in memory, one at least, and the model's table has rows: else a look-up
 * says little. */
bool kiln_cache_ready(struct kiln_cache *cache);
/* The same without the use.  *ret_silent: why nothing was looked for, or NULL.  watch (may be NULL)
 * is called with the lock held. */
struct kiln_donor kiln_cache_look(struct kiln_cache *cache, const struct kiln_job *job, bool whole,
                                  const struct kiln_search_watch *watch, const char **ret_silent,
                                  struct kiln_reuse_look *ret_look);

#endif
