/* loras.h - the LoRAs of an engine: makes exactly the asked set the one that the model runs with.
 *
 * On the CPU a set is merged into copies of the matrices it touches, from the files' own numbers
 * (merge.h).  On a GPU it comes from a cache in host memory (cache.h) into memory that
 * stays where it is (slots.h):
 *
 *     merged, if the device has room for a copy of the matrices: then a step costs nothing more
 *     beside the weights, if not
 *
 * A set whose ranks exceed KILN_LORA_BESIDE_RANK_MAX is merged there, too, as on the CPU.
 */
#ifndef KILN_LORAS_H
#define KILN_LORAS_H

#include "pipeline/diffusionz_batch.h"
#include "pipeline/lora/slots.h"

enum kiln_lora_mode { KILN_LORA_AUTO, KILN_LORA_FILES, KILN_LORA_MERGED, KILN_LORA_BESIDE };

struct kiln_loras;

/* params and the slots they point to must outlive it.  dtype: of the model's arithmetic, KT_F32 or
 * KT_BF16.  plain: see slots.h; may be NULL.  NULL without memory. */
struct kiln_loras *kiln_loras_new(const struct kiln_param_table *params, int device,
                                  enum kt_dtype dtype, const struct kiln_lora_plain *plain);
void kiln_loras_free(struct kiln_loras *l); /* restores the weights; accepts NULL */

/* How sets are put in place from now on; takes the present one away. */
void kiln_loras_mode(struct kiln_loras *l, enum kiln_lora_mode mode);

/* Makes exactly this set the one in place (count 0: none).  Where it fails for its files the one
 * before stays, else none.  *ret_changed says whether any weight is another one than before. */
int kiln_loras_set(struct kiln_loras *l, const struct kiln_lora_use *uses, size_t count,
                   bool *ret_changed, struct kiln_error *err) KILN_MUST_CHECK;

/* Where the set of the last kiln_loras_set came from. */
enum diffusionz_lora_from kiln_loras_from(const struct kiln_loras *l);

/* Prepares a set that will be needed soon, on a thread of its own; returns at once.  Any thread. */
void kiln_loras_prefetch(struct kiln_loras *l, const struct kiln_lora_use *uses, size_t count);

/* Whether a set is in place beside the weights. */
bool kiln_loras_beside(const struct kiln_loras *l);

/* What a recorded graph depends on: while this figure is the same, the model reads the same memory.
 * 0 without LoRAs. */
int kiln_loras_arrangement(const struct kiln_loras *l);

#endif
