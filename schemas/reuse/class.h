/* class.h - how alike the prompts of a donor and a target are.
 *
 * guard.h judges it; a program that only stores or prints a class needs no more than this.
 */
#ifndef KILN_REUSE_CLASS_H
#define KILN_REUSE_CLASS_H

#include <stddef.h>

/* In order of trust.  The numbers are stored and never change meaning; add at the end, and raise
 * KILN_WIRE_MINOR: older workers refuse assignments with a class that they do not know. */
enum kiln_reuse_class {
    KILN_REUSE_NONE = 0,            /* must not be used */
    KILN_REUSE_SAME_PROMPT = 1,     /* equal to the byte */
    KILN_REUSE_CANONICAL = 2,       /* equal canonical forms */
    KILN_REUSE_REWORDED = 3,        /* other words, the same facts */
    KILN_REUSE_DONOR_SAYS_MORE = 4, /* all facts of the target, and more about its things */
    KILN_REUSE_CLASS_COUNT
};

/* "none", "same_prompt", "canonical", "reworded", "donor_says_more"; stable. */
const char *kiln_reuse_class_name(enum kiln_reuse_class class);

/* Why a run did not begin from the latent that was chosen ("missing", ...), as a clause about that
 * latent, into out, which is returned.  wasted: the cost of a run from it that was given up, in
 * steps at full size. */
#define KILN_REUSE_UNLIKE "unlike"
#define KILN_REUSE_SLOWER "slower"
const char *kiln_reuse_fallback(const char *why, double wasted, char *out, size_t size);

#endif
