/* loras.h - the LoRA set that a model runs with.
 *
 * On the CPU a set is merged into copies of the matrices that it changes, from its files (merge.h).
 * On a GPU it goes from a cache in host memory (cache.h) to fixed addresses on the device
 * (slots.h):
 *
 *     merged              if the device has memory for a copy of the matrices; steps cost no more
 *     beside the weights  otherwise
 *
 * A set with ranks above KILN_LORA_BESIDE_RANK_MAX is merged as on the CPU.
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
/* The same for another transformer of the same shape: what `first` has read of a file serves both.
 * first must outlive it. */
struct kiln_loras *kiln_loras_new_beside(struct kiln_loras *first,
                                         const struct kiln_param_table *params,
                                         const struct kiln_lora_plain *plain);
void kiln_loras_free(struct kiln_loras *l); /* restores the weights; accepts NULL */

/* How later sets are applied; unloads the present one. */
void kiln_loras_mode(struct kiln_loras *l, enum kiln_lora_mode mode);

/* Loads exactly this set; count 0: none.  After an error of its files the set before stays; after
 * other errors none is loaded.  *ret_changed: whether any weight has changed. */
int kiln_loras_set(struct kiln_loras *l, const struct kiln_lora_use *uses, size_t count,
                   bool *ret_changed, struct kiln_error *err) KILN_MUST_CHECK;

/* Where kiln_loras_set last took its set from. */
enum diffusionz_lora_from kiln_loras_source(const struct kiln_loras *l);

/* Prefetches a set on a thread of its own; returns at once.  Any thread. */
void kiln_loras_prefetch(struct kiln_loras *l, const struct kiln_lora_use *uses, size_t count);

/* Whether a set is loaded beside the weights. */
bool kiln_loras_beside(const struct kiln_loras *l);

/* Identifies the memory that the model reads: a recorded graph stays valid while this is unchanged.
 * 0 without LoRAs. */
int kiln_loras_arrangement(const struct kiln_loras *l);

#endif
