/* slots.h - a set of LoRAs under a model on a device: memory that stays, contents that change.
 *
 * An image (cache.h) is copied in one piece into the bank of its rank class, and then either
 *
 *     beside   the layers multiply with the bank's pairs next to their own weights (linear.h): up
 *              behind the rows of a weight that has room, both in codes for a quantised one, or
 *     merged   the layers multiply with copies of their weights, W + up down, rounded once
 *
 * Modules that are not multiplied by kiln_linear (the embedders, the final layer, adaLN) are merged
 * in both cases.  Behind a quantised weight a small change would be lost in the rounding: its copy
 * is made of the plain matrix, which is loaded once more for that.  The values of the weights as
 * they were loaded are never written to, only what lies behind their rows: taking a set away is
 * handing their handles out again, bit for bit.
 *
 * Banks and copies are made when first needed and keep their addresses from then on.  Which ones
 * the model reads follows from the arrangement alone, so a recorded graph is good for all sets of
 * one arrangement.  Weights on a GPU, unless in fp32, move once, when the first set goes beside
 * them, to where their rows have room for it (linear.h).
 */
#ifndef KILN_LORA_SLOTS_H
#define KILN_LORA_SLOTS_H

#include "pipeline/lora/cache.h"

/* Where the matrices behind quantised weights come from. */
struct kiln_lora_plain {
    /* Loads the model's matrices once more, as plain numbers: ret[i] is the one of module i. */
    int (*load)(void *arg, struct kt_scope *scope, kt *ret, struct kiln_error *err);
    void *arg;
};

struct kiln_lora_slots;

/* params and what their slots point to must outlive it; the weights are the loaded ones now.  plain
 * may be NULL: quantised weights are then never merged.  NULL without memory. */
struct kiln_lora_slots *kiln_lora_slots_new(const struct kiln_param_table *params, int device,
                                            const struct kiln_lora_plain *plain);
void kiln_lora_slots_free(struct kiln_lora_slots *l); /* clears first; accepts NULL */

/* Bytes of the copies that merging needs and that are not there yet; SIZE_MAX where weights cannot
 * be merged. */
size_t kiln_lora_slots_missing(const struct kiln_lora_slots *l);

/* Puts the image's set in place instead of the one before; the image can be given back at once.
 * On failure none is in place. */
int kiln_lora_slots_put(struct kiln_lora_slots *l, const struct kiln_lora_image *image, bool merged,
                        struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_slots_clear(struct kiln_lora_slots *l);

/* Whether weights have been moved: a graph that was recorded before is good for nothing then. */
bool kiln_lora_slots_moved(const struct kiln_lora_slots *l);

#endif
