/* slots.h - a LoRA set on a device, at fixed addresses with changing contents.
 *
 * An image (cache.h) is copied in one piece into the bank of its rank class.  Then the set is
 * either
 *
 *     beside   layers multiply with the bank's pairs next to their own weights (linear.h).  If the
 *              weight has room, up lies behind its rows; for a quantised weight both are in codes.
 *     merged   layers multiply with copies of their weights, W + up down, rounded once.
 *
 * Modules that kiln_linear does not multiply (embedders, final layer, adaLN) are always merged. The
 * copy of a quantised weight is made from the plain matrix, which is loaded again for that:
 * rounding twice would lose small changes.  The loaded values of weights are never changed, only
 * the room behind their rows.  So unloading a set just restores the handles, bit for bit.
 *
 * Banks and copies are made when first needed and keep their addresses.  The arrangement alone says
 * which of them the model reads, so a recorded graph serves all sets of one arrangement.  On a GPU,
 * weights in bf16 and FP8 move once, when the first set goes beside them, to memory with room
 * behind their rows (linear.h).
 */
#ifndef KILN_LORA_SLOTS_H
#define KILN_LORA_SLOTS_H

#include "pipeline/lora/cache.h"

/* Source of the plain matrices behind quantised weights. */
struct kiln_lora_plain {
    /* Loads the model's matrices again, as plain numbers; ret[i] is that of module i. */
    int (*load)(void *arg, struct kt_scope *scope, kt *ret, struct kiln_error *err);
    void *arg;
};

struct kiln_lora_slots;

/* params and what their slots point to must outlive it; no set is loaded yet.  plain NULL:
 * quantised weights are never merged.  NULL without memory. */
struct kiln_lora_slots *kiln_lora_slots_new(const struct kiln_param_table *params, int device,
                                            const struct kiln_lora_plain *plain);
void kiln_lora_slots_free(struct kiln_lora_slots *l); /* clears first; accepts NULL */

/* Bytes of the copies that merging still needs; SIZE_MAX if weights cannot be merged. */
size_t kiln_lora_slots_missing(const struct kiln_lora_slots *l);

/* Loads the image's set in place of the one before; the image can be released at once.  On failure
 * no set is loaded. */
int kiln_lora_slots_load(struct kiln_lora_slots *l, const struct kiln_lora_image *image,
                         bool merged, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_slots_clear(struct kiln_lora_slots *l);

/* Whether weights have moved, which makes older graphs invalid. */
bool kiln_lora_slots_moved(const struct kiln_lora_slots *l);

#endif
