/* transformer.h - Z-Image's single-stream transformer: latent, caption and time to a velocity.
 *
 *     image:   patches -> embed -> noise refiner --+
 *                                                  +-> joint layers -> final layer -> patches
 *     caption: features -> embed -> context refiner+
 * Work that is the same in every step is done once: the caption branch per prompt (kiln_caption),
 * all that depends on time alone per schedule (kiln_time_table), the rotation angles per shape
 * (kiln_rope_joint).  A forward pass neither waits for the device nor copies from the host, so that
 * a GPU can record it.
 */
#ifndef KILN_TRANSFORMER_H
#define KILN_TRANSFORMER_H

#include "pipeline/model/config.h"
#include "pipeline/model/rope.h"
#include "pipeline/torch/tensor.h"
#include "pipeline/weights/weights.h"

#define KILN_ROWS_MULTIPLE 32 /* both branches are padded to multiples of this */

struct kiln_fp8_cache;
struct kiln_transformer;

/* dir: the transformer's folder, or NULL for random weights.  The weights live in scope.  dtype
 * KT_E4M3: the large matrices of joint layers and noise refiner are quantised rows, from the cache
 * (may be NULL) if it has them under this name, without plain copies; small or sensitive weights
 * are bf16, those of norms fp32.  params receives the linear layers that a LoRA may change; its
 * slots point into *ret. */
int kiln_transformer_load(const char *dir, const struct kiln_transformer_config *config,
                          struct kt_scope *scope, enum kt_dtype dtype, struct kiln_fp8_cache *cache,
                          const char *name, struct kiln_param_table *params,
                          struct kiln_transformer **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_transformer_free(struct kiln_transformer *t); /* accepts NULL */

/* Columns of the residual stream's rows: the width, plus tails if these rows have any. */
int64_t kiln_residual_columns(const struct kiln_transformer *t);

/* Text features [tokens, caption_width] to the refined caption [padded tokens, residual columns].
 */
kt kiln_caption(const struct kiln_transformer *t, struct kt_scope *s, kt features);

/* All that depends on time alone, for `steps` model times in 0..1 (0 = noise), at most
 * 2 * KILN_STEPS_MAX: a row of kiln_time_width values in fp32 for each step. */
kt kiln_time_table(const struct kiln_transformer *t, struct kt_scope *s, const float *times,
                   int steps);
int64_t kiln_time_width(const struct kiln_transformer *t);

/* One picture, or several of one size and caption length; each gets the bits that it would get
 * alone. */
struct kiln_forward {
    int items;
    kt latent;             /* [items, channels, height, width] fp32; or of one without items */
    kt caption;            /* of kiln_caption, one behind the other */
    struct kiln_rope rope; /* kiln_rope_joint of this size and caption length */
    kt modulation;         /* [1, kiln_time_width], a row of the time table */
};
/* The model's output as token rows, in the order of kt_patchify; the velocity is MINUS this. */
kt kiln_transformer_run(const struct kiln_transformer *t, struct kt_scope *s,
                        const struct kiln_forward *args);

/* Rows that pad `rows` to a multiple of 32. */
int64_t kiln_pad_rows(int64_t rows);

#endif
