/* feature_cache.h - caches the text features of the last few hundred prompts.
 *
 * Encoding a prompt costs as much as a step of a small picture, and jobs of one template or of
 * several seeds repeat it.  A cache belongs to one model; its key is the SHA-256 of the prompt.
 * Not thread-safe: the engine's lock covers it.
 */
#ifndef KILN_FEATURE_CACHE_H
#define KILN_FEATURE_CACHE_H

#include "pipeline/torch/tensor.h"

#define KILN_FEATURE_CACHE_ENTRIES 256
#define KILN_FEATURE_CACHE_BYTES (256u * 1024 * 1024)

struct kiln_feature_cache;

struct kiln_feature_cache *kiln_feature_cache_new(void);        /* NULL when memory is short */
void kiln_feature_cache_free(struct kiln_feature_cache *cache); /* accepts NULL */
void kiln_feature_cache_clear(struct kiln_feature_cache *cache);

/* A handle in s on the features of this prompt, or NULL. */
kt kiln_feature_cache_get(struct kiln_feature_cache *cache, struct kt_scope *s, const char *prompt,
                          size_t len);
/* Keeps a second handle on the features, and evicts the least recently used ones beyond the limits.
 * Without memory nothing is cached. */
void kiln_feature_cache_put(struct kiln_feature_cache *cache, const char *prompt, size_t len,
                            int device, kt features);

#endif
