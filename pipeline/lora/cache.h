/* cache.h - sets of LoRAs in host memory, ready to be copied to a device.
 *
 * An image is one set in its layout (layout.h), in memory that a GPU reads by itself.  Making
 * one reads, converts and folds the files, some tenths of a second for a large model; copying one
 * takes milliseconds.  So images are kept, the least recently used goes first, and a set that will
 * be needed soon can be asked for ahead: a thread of the cache then makes it while the GPU is at
 * work.
 *
 * All functions but new and free may be called on any thread.
 */
#ifndef KILN_LORA_CACHE_H
#define KILN_LORA_CACHE_H

#include "pipeline/lora/layout.h"
#include "pipeline/torch/staging.h"

/* Of all images together: about ten sets of rank 16 on every linear layer of the full model. */
#define KILN_LORA_CACHE_BYTES ((size_t)2 << 30)

struct kiln_lora_image {
    struct kiln_lora_stack stack;
    struct kiln_lora_layout layout;
    struct kt_staging *memory;
    bool *touched; /* by place of the layout */
};

struct kiln_lora_cache;

/* device, dtype (KT_F32 or KT_BF16): what the images are for.  params must outlive it.  NULL
 * without memory. */
struct kiln_lora_cache *kiln_lora_cache_new(const struct kiln_param_table *params, int device,
                                            enum kt_dtype dtype, size_t bytes_max);
void kiln_lora_cache_free(struct kiln_lora_cache *c); /* all images given back; accepts NULL */

/* The image of a set, made if need be; *ret is given back with kiln_lora_cache_give.  Waits where
 * another thread is already making it, at most for a minute: KILN_TIMEOUT.  KILN_UNSUPPORTED for
 * ranks beyond KILN_LORA_BESIDE_RANK_MAX, else what the files say. */
int kiln_lora_cache_take(struct kiln_lora_cache *c, const struct kiln_lora_stack *stack,
                         const struct kiln_lora_image **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_cache_give(struct kiln_lora_cache *c, const struct kiln_lora_image *image);

/* Whether the image of the set could be taken now without reading or waiting. */
bool kiln_lora_cache_ready(struct kiln_lora_cache *c, const struct kiln_lora_stack *stack);

/* Has the set made by the cache's own thread; returns at once.  Of several requests the last one
 * counts.  What goes wrong shows when the set is taken. */
void kiln_lora_cache_prefetch(struct kiln_lora_cache *c, const struct kiln_lora_use *uses,
                              size_t count);

/* For tests: another limit than the minute. */
void kiln_lora_cache_patience(struct kiln_lora_cache *c, int seconds);
/* For tests and logs. */
struct kiln_lora_cache_counts {
    size_t images, bytes, made, found; /* made: from files; found: taken without that */
};
struct kiln_lora_cache_counts kiln_lora_cache_count(struct kiln_lora_cache *c);

#endif
