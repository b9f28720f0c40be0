/* layout.h - where the pairs of a set of LoRAs lie in one stretch of memory.
 *
 * A place is one matrix of the model with its modules (q, k and v; w1 and w3; or one).  For each,
 * the stretch holds
 *
 *     down  [parts * rank, in]      the modules' A, one under the other
 *     up    [out, parts * rank]     their B, each in the rows of its module and its own columns
 *
 * with several LoRAs side by side within a module's rank, and zero wherever nothing is.  So one
 * product with down and one with up serve all modules and all LoRAs of a layer, and one copy moves
 * a whole set.  Ranks are rounded up to classes; all sets of a class have the same layout.
 *
 * Nothing here needs a device: this is arithmetic and host memory.
 */
#ifndef KILN_LORA_LAYOUT_H
#define KILN_LORA_LAYOUT_H

#include "pipeline/lora/lora.h"
#include "pipeline/lora/stack.h"
#include "pipeline/weights/param_table.h"

/* The highest class.  No limit on a LoRA: a set of higher ranks is merged into the weights instead
 * of lying beside them. */
#define KILN_LORA_BESIDE_RANK_MAX 512

struct kiln_lora_place {
    kt *slot;
    struct kiln_linear_layer *layer; /* NULL: the product is not made by kiln_linear() */
    int64_t rows, cols, rank;        /* rank: of all its modules together */
    size_t down, up;                 /* offsets in bytes */
};

struct kiln_lora_layout {
    int64_t rank;        /* of one module: the class */
    enum kt_dtype dtype; /* KT_F32 or KT_BF16 */
    size_t bytes, count;
    struct kiln_lora_place *places;
    size_t *place_of; /* by module: its place, */
    int64_t *part_of; /* and which of the place's modules it is */
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
    int64_t rank; /* the most that one module gets from all of them */
};
int kiln_lora_files_open(struct kiln_lora_files *files, const struct kiln_lora_stack *stack,
                         const struct kiln_param_table *params,
                         struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_files_close(struct kiln_lora_files *files);

/* Writes the set to memory[l->bytes], strength and alpha folded into up.  touched[l->count] says
 * which places got anything.  KILN_CORRUPT for numbers that no finite weight could come of, and for
 * a file that was written into meanwhile. */
int kiln_lora_layout_fill(const struct kiln_lora_layout *l, const struct kiln_lora_files *files,
                          void *memory, bool *touched, struct kiln_error *err) KILN_MUST_CHECK;

#endif
