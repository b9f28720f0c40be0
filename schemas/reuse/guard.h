/* guard.h - whether a latent rendered for one prompt may serve another, from the prompts alone.
 *
 * A donor serves a target if it states everything that the target states, and nothing that the
 * target could contradict: the same numbers, colours, places, negations, quoted text, names and
 * order of relations, the same capital letters (canonical.h).  Where the target is silent, the
 * donor may make one of the target's own things more exact (a size, a colour, a detail, a place in
 * the picture), but may add no thing, no background and no style.  Everything unsure is NONE, with
 * a reason.
 *
 * Pure and safe to call from several threads at once.  Measured in schemas/reuse/README.md.
 */
#ifndef KILN_REUSE_GUARD_H
#define KILN_REUSE_GUARD_H

#include "schemas/error.h"
#include "schemas/reuse/class.h"
#include "schemas/reuse/facts.h"
#include "schemas/reuse/lexicon.h"

#define KILN_REUSE_REASON_MAX 160

/* May a latent rendered for donor start a run for target?  reason receives one clause in plain
 * English, why not ("the colours differ: red, blue"), or "" if it may.  Prompts that are not UTF-8
 * or too long are NONE unless they are equal.  Fails only with KILN_NO_MEMORY; *ret
 * is NONE then. */
int kiln_reuse_judge(const struct kiln_reuse_words *words, const char *target, const char *donor,
                     enum kiln_reuse_class *ret, char reason[KILN_REUSE_REASON_MAX],
                     struct kiln_error *err) KILN_MUST_CHECK;

/* The same for one target and many donors: facts that are read once.  Both must be read with the
 * same words.  reason: NULL: not wanted, which is faster.  Never fails and does not allocate. */
enum kiln_reuse_class kiln_reuse_compare(const struct kiln_facts *target,
                                         const struct kiln_facts *donor, char *reason);

#endif
