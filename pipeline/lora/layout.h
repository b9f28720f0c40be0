/* layout.h - the layout of a LoRA set in one block of memory.
 * A place is one matrix of the model with its modules (q, k and v; w1 and w3; or one).  For each
 * place, the block holds
 *     down  [parts * rank, in]      the modules' A, one under the other
 *     up    [out, parts * rank]     their B, each in the rows of its module and in its own columns
 *
 * Several LoRAs share a module's rank side by side; the rest is zero.  So one product with down and
 * one with up serve all modules and all LoRAs of a layer, and one copy moves a whole set.  Ranks
 * are rounded up to classes; all sets of a class have the same layout.  Host memory only, no
 * device.
 */
#ifndef KILN_LORA_LAYOUT_H
#define KILN_LORA_LAYOUT_H

#include "pipeline/lora/file/lora.h"
#include "pipeline/lora/stack.h"
#include "pipeline/weights/param_table.h"

/* The highest rank class beside the weights.  A set of higher ranks is merged instead. */
#define KILN_LORA_BESIDE_RANK_MAX 512

struct kiln_lora_place {
    kt *slot;
    struct kiln_linear_layer *layer; /* NULL: kiln_linear() does not compute the product */
    int64_t rows, cols, rank;        /* rank: of all its modules together */
    size_t down, up;                 /* offsets in bytes */
};

struct kiln_lora_layout {
    int64_t rank;        /* of one module: the class */
    enum kt_dtype dtype; /* KT_F32 or KT_BF16 */
    size_t bytes, count;
    struct kiln_lora_place *places;
    size_t *place_of; /* by module: its place */
    int64_t *part_of; /* by module: which of the place's modules it is */
    const struct kiln_param_table *params;
};

/* The class of a rank: a multiple of 16 up to 64, then 128, 256 and 512; 0 beyond that. */
int64_t kiln_lora_class(int64_t rank);

/* rank: a class.  params must outlive it. */
int kiln_lora_layout_init(struct kiln_lora_layout *l, const struct kiln_param_table *params,
                          int64_t rank, enum kt_dtype dtype,
                          struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_layout_release(struct kiln_lora_layout *l);

/* The files of a set, open. */
struct kiln_lora_files {
    const struct kiln_lora_stack *stack;
    struct kiln_lora_file *at[KILN_LORA_STACK_MAX];
    int64_t rank; /* the highest sum of ranks in one module */
};
int kiln_lora_files_open(struct kiln_lora_files *files, const struct kiln_lora_stack *stack,
                         const struct kiln_param_table *params,
                         struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_files_close(struct kiln_lora_files *files);

/* Writes the set to memory[l->bytes], with strength and alpha folded into up.  touched[l->count]:
 * the places that the set changes.  KILN_CORRUPT for values that would make weights that are not
 * finite, and for a file that was changed meanwhile. */
int kiln_lora_layout_fill(const struct kiln_lora_layout *l, const struct kiln_lora_files *files,
                          void *memory, bool *touched, struct kiln_error *err) KILN_MUST_CHECK;

#endif
