/* merge.h - puts a set of LoRAs under a model, and takes it away without a trace.
 *
 * A set is merged into copies of the touched matrices: W' = W + sum of strength * scale * B A, in
 * fp32 and rounded once.  The pristine matrices are kept, and "removing" swaps the pointers back,
 * so that toggling never drifts.  Changing the set costs one pass over the touched weights; a set
 * that is in place already costs a look at the files' times.
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

/* Makes exactly this set the one in place (count 0: none).  On failure the one before stays.
 * *ret_changed says whether any weight is another one than before. */
int kiln_lora_merge_set(struct kiln_lora_merge *m, const struct kiln_lora_use *uses, size_t count,
                        bool *ret_changed, struct kiln_error *err) KILN_MUST_CHECK;

#endif
