/* keeper.h - search by meaning in a running gallery: opened when somebody needs it, kept in step.
 *
 * Which embedder is the setting `gallery_embedder`: "auto" is the model's own caption features if
 * its directory has a fit for them (pipeline/embed/captions), "none" is a search by words alone,
 * and anything else is the directory of an embedder.  It is opened in the thread that follows the
 * ledger, after the first search or OPEN_AFTER_MS of running, so that a start is not slower for it.
 */
#ifndef KILN_GALLERY_KEEPER_H
#define KILN_GALLERY_KEEPER_H

#include "scheduler/gallery/meaning/mixed.h"
#include "schemas/config/config.h"
#include "schemas/text/text.h"

struct kiln_keeper;

/* Opens nothing yet.  config must outlive it. */
int kiln_keeper_new(const struct kiln_config *config, struct kiln_keeper **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* For a program that only reads: opens and loads all of it now, in this thread, and makes no
 * vector. *ret_waiting of *ret_prompts distinct prompts have none yet; words alone find their
 * pictures. KILN_CONFIG: there is no search by meaning, and why. */
int kiln_keeper_open_reading(const struct kiln_config *config, struct kiln_keeper **ret,
                             uint32_t *ret_prompts, uint32_t *ret_waiting,
                             struct kiln_error *err) KILN_MUST_CHECK;
void kiln_keeper_free(struct kiln_keeper *keeper); /* no thread uses it; accepts NULL */

/* --- the thread that follows ------------------------------------------------------------------ */
/* A kiln_each_change; arg: the keeper. */
int kiln_keeper_note(void *arg, uint64_t job, bool gone, struct kiln_error *err) KILN_MUST_CHECK;
/* Whether it is still to be opened, and whether the next step will do so. */
bool kiln_keeper_waits(struct kiln_keeper *keeper);
bool kiln_keeper_is_due(struct kiln_keeper *keeper);
/* How long to rest after a step that took so long: searches and commits come before new
 * vectors. */
int kiln_keeper_rest_ms(const struct kiln_keeper *keeper, int64_t took_ms);
/* After a step of the follower.  replaced: of its progress.  *ret_more: call again at once.  An
 * embedder that cannot be opened is logged once and is no error: words are searched without it. */
int kiln_keeper_step(struct kiln_keeper *keeper, bool replaced, bool *ret_more,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* --- any thread ------------------------------------------------------------------------------- */
/* The search by words and meaning; NULL if there is none, or none yet.  Asking is what opens it. */
struct kiln_mixed *kiln_keeper_mixed(struct kiln_keeper *keeper);
/* A sentence for people on what a search looks at, static. */
const char *kiln_keeper_says(struct kiln_keeper *keeper);
/* Gauges for the page of metrics. */
void kiln_keeper_gauges(struct kiln_keeper *keeper, struct kiln_text *text);

#endif
