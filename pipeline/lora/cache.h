/* cache.h - LoRA sets in host memory, ready to be copied to a device.
 *
 * An image is one set in its layout (layout.h), in page-locked memory.  Making an image reads and
 * converts the files, some tenths of a second for a large model; copying it takes milliseconds.  So
 * images are cached, and the least recently used is evicted.  A thread of the cache prefetches a
 * set while the GPU works.
 *
 * Any thread may call all functions but new and free.
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

/* device and dtype (KT_F32 or KT_BF16) of the images.  params must outlive the cache.  NULL without
 * memory. */
struct kiln_lora_cache *kiln_lora_cache_new(const struct kiln_param_table *params, int device,
                                            enum kt_dtype dtype, size_t bytes_max);
void kiln_lora_cache_free(struct kiln_lora_cache *c); /* all images are released; accepts NULL */

/* The image of a set, made if need be; the caller releases *ret.  If another thread is making it,
 * waits for a minute at most: KILN_TIMEOUT.  KILN_UNSUPPORTED for ranks above
 * KILN_LORA_BESIDE_RANK_MAX; else errors of the files. */
int kiln_lora_cache_acquire(struct kiln_lora_cache *c, const struct kiln_lora_stack *stack,
                            const struct kiln_lora_image **ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_cache_release(struct kiln_lora_cache *c, const struct kiln_lora_image *image);

/* Whether the set can be acquired without reading or waiting. */
bool kiln_lora_cache_ready(struct kiln_lora_cache *c, const struct kiln_lora_stack *stack);

/* Makes the set's image on the cache's thread; returns at once.  Only the last request counts.
 * Errors are reported when the set is acquired. */
void kiln_lora_cache_prefetch(struct kiln_lora_cache *c, const struct kiln_lora_use *uses,
                              size_t count);

/* For tests: how long acquire waits, instead of a minute. */
void kiln_lora_cache_wait_limit(struct kiln_lora_cache *c, int seconds);
/* For tests and logs. */
struct kiln_lora_cache_counts {
    size_t images, bytes, made, found; /* made: from files; found: cached */
};
struct kiln_lora_cache_counts kiln_lora_cache_count(struct kiln_lora_cache *c);

#endif
