/* merge.h - merges a LoRA set into copies of a model's matrices, and undoes it exactly.
 *
 *     W' = W + sum of strength * scale * B A        in fp32, rounded once
 *
 * Only matrices that the set changes are copied.  The pristine matrices are kept and swapped back,
 * so repeated changes never drift.  A new set costs one pass over those matrices; the present set
 * again costs a stat of its files.
 */
#ifndef KILN_LORA_MERGE_H
#define KILN_LORA_MERGE_H

#include "pipeline/lora/stack.h"
#include "pipeline/torch/tensor.h"
#include "pipeline/weights/param_table.h"
#include "schemas/error.h"

struct kiln_lora_merge;

/* params and the slots they point to must outlive it. */
struct kiln_lora_merge *kiln_lora_merge_new(const struct kiln_param_table *params, int device);
void kiln_lora_merge_free(struct kiln_lora_merge *m); /* restores; accepts NULL */

/* Loads exactly this set; count 0: none.  On failure the set before stays.  *ret_changed: whether
 * any weight has changed. */
int kiln_lora_merge_set(struct kiln_lora_merge *m, const struct kiln_lora_use *uses, size_t count,
                        bool *ret_changed, struct kiln_error *err) KILN_MUST_CHECK;

#endif
