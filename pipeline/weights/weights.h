/* weights.h - the tensors of a model folder, by their diffusers names.
 * A loader requests every tensor of its network with the shape that the config demands, and calls
 * kiln_weights_close at the end.  A missing tensor, another shape, an unsupported dtype, a NaN, or
 * a tensor that was not requested is an error that names it.  The first error is kept; later
 * requests do nothing.
 *
 * Files may be F32, F16 or BF16, one file or shards, keys with or without a common prefix
 * ("model.", "model.diffusion_model."), and the transformer may use the repacked names of ComfyUI
 * (attention.qkv fused, attention.out, q_norm, x_embedder, final_layer).
 *
 * Linear layers are noted in a table of parameters (param_table.h).
 */
#ifndef KILN_WEIGHTS_H
#define KILN_WEIGHTS_H

#include "pipeline/torch/tensor.h"
#include "pipeline/weights/param_table.h"
#include "schemas/error.h"

struct kiln_fp8_cache;
struct kiln_weights;

/* dir: a folder of the model, or NULL for random weights, for benchmarks.  probe: a tensor that
 * every such model has, to find the prefix.  scope: receives the tensors, converted to dtype.
 * params may be NULL. */
int kiln_weights_open(const char *dir, const char *probe, struct kt_scope *scope,
                      enum kt_dtype dtype, struct kiln_param_table *params,
                      struct kiln_weights **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Returns the first error; frees w in any case.  The scope owns the tensors in the slots. */
int kiln_weights_close(struct kiln_weights *w, struct kiln_error *err) KILN_MUST_CHECK;

/* Each fills *slot with tensor prefix + name (+ ".weight"), or leaves it NULL on error. */
void kiln_weights_vector(struct kiln_weights *w, kt *slot, const char *prefix, const char *name,
                         int64_t n);
/* The weight of a norm: rounded to the dtype, stored as fp32. */
void kiln_weights_gain(struct kiln_weights *w, kt *slot, const char *prefix, const char *name,
                       int64_t n);
void kiln_weights_table(struct kiln_weights *w, kt *slot, const char *prefix, const char *name,
                        int64_t rows, int64_t cols);
/* Tensor [1, rows, cols] of the file, as [rows, cols]. */
void kiln_weights_rows(struct kiln_weights *w, kt *slot, const char *prefix, const char *name,
                       int64_t rows, int64_t cols);
void kiln_weights_linear(struct kiln_weights *w, kt *slot, const char *prefix, const char *module,
                         int64_t rows, int64_t cols);
void kiln_weights_conv(struct kiln_weights *w, kt *slot, const char *prefix, const char *module,
                       int64_t out, int64_t in, int64_t kernel);

/* While on, linear and pack quantise their matrices (kt_quantise_rows). */
void kiln_weights_quantise(struct kiln_weights *w, bool on);
/* The cache of quantised rows (fp8_cache.h; NULL: none), in which names begin with the folder's. */
void kiln_weights_cache(struct kiln_weights *w, struct kiln_fp8_cache *cache, const char *folder);

/* Several linear layers of one input, stacked by rows into one matrix (and one bias). */
struct kiln_pack {
    const char *modules[3]; /* NULL ends the list */
    int64_t rows[3];
    const char *fused; /* the name the file may have for the whole stack, or NULL */
};
void kiln_weights_pack(struct kiln_weights *w, kt *slot, const char *prefix,
                       const struct kiln_pack *pack, int64_t cols);
void kiln_weights_pack_bias(struct kiln_weights *w, kt *slot, const char *prefix,
                            const struct kiln_pack *pack);

/* An error if the file has tensor `whole` but not `name`: it is another model's then. */
void kiln_weights_expect(struct kiln_weights *w, const char *name, const char *whole);
/* Whether the file has the tensor; random weights have any. */
bool kiln_weights_has(const struct kiln_weights *w, const char *name);
/* Allows tensors whose names start with this to stay unused. */
void kiln_weights_ignore(struct kiln_weights *w, const char *prefix);

#endif
