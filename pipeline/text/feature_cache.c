/* feature_cache.c - a small LRU: 256 entries are searched in order; see feature_cache.h. */
#include "pipeline/text/feature_cache.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    unsigned char key[SHA256_DIGEST_LENGTH];
    struct kt_scope *scope; /* owns the one handle; NULL: the entry is free */
    kt features;
    size_t bytes;
    uint64_t used; /* the cache's clock at the last use */
};

struct kiln_feature_cache {
    struct entry entries[KILN_FEATURE_CACHE_ENTRIES];
    size_t bytes;
    uint64_t clock;
};

struct kiln_feature_cache *kiln_feature_cache_new(void)
{
    return calloc(1, sizeof(struct kiln_feature_cache));
}

static void evict(struct kiln_feature_cache *cache, struct entry *e)
{
    kt_scope_free(e->scope);
    cache->bytes -= e->bytes;
    *e = (struct entry){.scope = NULL};
}

void kiln_feature_cache_clear(struct kiln_feature_cache *cache)
{
    for (size_t i = 0; i < KILN_FEATURE_CACHE_ENTRIES; i++)
        evict(cache, &cache->entries[i]);
}

void kiln_feature_cache_free(struct kiln_feature_cache *cache)
{
    if (cache)
        kiln_feature_cache_clear(cache);
    free(cache);
}

static struct entry *find(struct kiln_feature_cache *cache, const unsigned char *key)
{
    for (size_t i = 0; i < KILN_FEATURE_CACHE_ENTRIES; i++) {
        struct entry *e = &cache->entries[i];
        if (e->scope && memcmp(e->key, key, sizeof e->key) == 0)
            return e;
    }
    return NULL;
}

kt kiln_feature_cache_get(struct kiln_feature_cache *cache, struct kt_scope *s, const char *prompt,
                          size_t len)
{
    unsigned char key[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)prompt, len, key);
    struct entry *e = find(cache, key);
    if (!e)
        return NULL;
    e->used = ++cache->clock;
    return kt_keep(s, e->features);
}

/* The least recently used entry; a free one, whose `used` is 0, only if free_too. */
static struct entry *oldest(struct kiln_feature_cache *cache, bool free_too)
{
    struct entry *oldest = NULL;
    for (size_t i = 0; i < KILN_FEATURE_CACHE_ENTRIES; i++) {
        struct entry *e = &cache->entries[i];
        if ((e->scope || free_too) && (!oldest || e->used < oldest->used))
            oldest = e;
    }
    return oldest;
}

void kiln_feature_cache_put(struct kiln_feature_cache *cache, const char *prompt, size_t len,
                            int device, kt features)
{
    struct entry fresh = {.scope = features ? kt_scope_new(device) : NULL};
    SHA256((const unsigned char *)prompt, len, fresh.key);
    fresh.features = kt_keep(fresh.scope, features);
    if (!fresh.features || find(cache, fresh.key)) {
        kt_scope_free(fresh.scope);
        return;
    }
    size_t width = kt_dtype_of(features) == KT_F32 ? 4 : 2;
    fresh.bytes = (size_t)kt_size(features, 0) * (size_t)kt_size(features, 1) * width;
    fresh.used = ++cache->clock;
    cache->bytes += fresh.bytes;
    struct entry *place = oldest(cache, true);
    evict(cache, place);
    *place = fresh;
    while (cache->bytes > KILN_FEATURE_CACHE_BYTES)
        evict(cache, oldest(cache, false));
}
