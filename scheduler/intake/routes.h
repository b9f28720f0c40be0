/* routes.h - loras "auto" at the intake: which LoRAs a job gets, and the files behind names.
 *
 *     thread:  files of lora_dir            -> the registry (folder.h)
 *              registry of the ledger, when its version is new  -> a snapshot of the router
 *              with an embedder: vectors of the LoRAs' texts (scheduler/embedding/loras.h)
 *     intake:  kiln_routes_turn, once a page: takes the newest snapshot over
 *              kiln_routes_choose_all, for its jobs: with an embedder, vectors of prompts first
 *              kiln_routes_choose, for each job: in memory alone
 *
 * The route is a function of the line, the registry's version and the embedder, which the row keeps
 * with the reason, and of the settings: the model's base and variant, and router_licences.  A job
 * that is read twice from the stream, or queued again, keeps what it got first.  A change of the
 * registry is seen by every page that begins after it.  LoRAs whose texts this release cannot read
 * are left out and logged.
 */
#ifndef KILN_INTAKE_ROUTES_H
#define KILN_INTAKE_ROUTES_H

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/job.h"

#define KILN_ROUTES_FIRST_MS 10000 /* jobs wait so long for the first snapshot, */
#define KILN_ROUTES_NEXT_MS 2000   /* and a page for a newer one; then it takes the one before */
#define KILN_ROUTES_EMBED_MS 10000 /* a page waits so long for its vectors; then it fails */

struct kiln_new_job; /* storage/ledger/ledger.h */
struct kiln_routes;

/* KILN_CONFIG with a sentence if the setting router_embedder names a directory that cannot be used;
 * for the start of a scheduler. */
int kiln_routes_check(const struct kiln_config *config, struct kiln_error *err) KILN_MUST_CHECK;

/* Starts the threads.  config must outlive it. */
int kiln_routes_open(const struct kiln_config *config, struct kiln_routes **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
void kiln_routes_close(struct kiln_routes *routes); /* accepts NULL */

/* A page begins: its jobs are chosen for by the registry as it is from now on, and its wait for
 * vectors begins.  One thread at a time. */
void kiln_routes_turn(struct kiln_routes *routes);

/* Fills the LoRAs of a job of loras "auto", its drawn prompt and the reason; and of LoRAs that a
 * line names the hashes of their files.  A job that names none and has no "auto" stays as it is.
 * KILN_BAD_INPUT: a LoRA of another tenant.  KILN_UNAVAILABLE: the registry could not be read in
 * time: later may work. */
int kiln_routes_choose(struct kiln_routes *routes, struct kiln_job *job,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* Calls choose for each job; a code other than 0 ends it and is returned.  With an embedder the
 * prompts of some jobs at a time get their vectors first.  KILN_TIMEOUT, KILN_UNAVAILABLE: the
 * embedder is too slow or fails: later may work, and no job is chosen for without it. */
int kiln_routes_choose_all(struct kiln_routes *routes, const struct kiln_new_job *jobs,
                           size_t count, int (*choose)(void *arg, size_t at, struct kiln_error *),
                           void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* Whether any of the jobs has LoRAs to choose or to find; if none has, a page needs no turn. */
bool kiln_routes_are_wanted(const struct kiln_new_job *jobs, size_t count);

#endif
