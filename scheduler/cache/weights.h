/* weights.h - which weights render a model now: those of its newest donors.
 *
 * Workers may have different files under one name, say while a model is exchanged.  Those of the
 * newest donor count, and others that made one within the minute before it.  No clock, no locks.
 */
#ifndef KILN_DONOR_WEIGHTS_H
#define KILN_DONOR_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#define KILN_DONOR_WEIGHTS_MAX 2 /* of one name; the oldest ones are left out */

/* Zeroed: none. */
struct kiln_donor_weights {
    struct {
        uint64_t hash;
        int64_t created_ms; /* of its newest donor */
    } at[KILN_DONOR_WEIGHTS_MAX]; /* the newest first */
    int count;
};

/* How many of them, from the first on, render the model now. */
int kiln_donor_weights_now(const struct kiln_donor_weights *weights);
bool kiln_donor_weights_have(const struct kiln_donor_weights *weights, uint64_t hash);
/* Notes a donor; whether its weights render the model now, and did not before. */
bool kiln_donor_weights_note(struct kiln_donor_weights *weights, uint64_t hash, int64_t created_ms);

#endif
