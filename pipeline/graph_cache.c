/* graph_cache.c - see graph_cache.h.  So few entries that every search is a walk over all. */
#include "pipeline/graph_cache.h"

#include <stdlib.h>

struct kiln_graph_cache {
    int device;
    uint64_t clock;
    size_t bytes;           /* taken by graphs since there was none */
    int64_t refused_pixels; /* latents from this size on are not recorded; 0: all are */
    struct kiln_shape_plan plans[KILN_GRAPH_CACHE_SHAPES];
};

struct kiln_graph_cache *kiln_graph_cache_new(int device)
{
    struct kiln_graph_cache *cache = calloc(1, sizeof *cache);
    if (cache)
        cache->device = device;
    return cache;
}

size_t kiln_graph_cache_count(const struct kiln_graph_cache *cache)
{
    size_t count = 0;
    for (size_t i = 0; i < KILN_GRAPH_CACHE_SHAPES; i++)
        count += cache->plans[i].graph != NULL;
    return count;
}

static void drop_graph(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan)
{
    if (!plan->graph)
        return;
    kt_graph_free(plan->graph);
    plan->graph = NULL;
    if (kiln_graph_cache_count(cache) == 0)
        cache->bytes = 0;
}

static void drop_plan(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan)
{
    drop_graph(cache, plan);
    kt_scope_free(plan->scope);
    *plan = (struct kiln_shape_plan){.scope = NULL};
}

void kiln_graph_cache_stale(struct kiln_graph_cache *cache)
{
    for (size_t i = 0; i < KILN_GRAPH_CACHE_SHAPES; i++)
        drop_graph(cache, &cache->plans[i]);
}

void kiln_graph_cache_clear(struct kiln_graph_cache *cache)
{
    for (size_t i = 0; i < KILN_GRAPH_CACHE_SHAPES; i++)
        drop_plan(cache, &cache->plans[i]);
}

void kiln_graph_cache_free(struct kiln_graph_cache *cache)
{
    if (cache)
        kiln_graph_cache_clear(cache);
    free(cache);
}

static bool same_shape(const struct kiln_shape *a, const struct kiln_shape *b)
{
    return a->height == b->height && a->width == b->width && a->caption_rows == b->caption_rows &&
           a->negative_rows == b->negative_rows && a->guidance == b->guidance &&
           a->arrangement == b->arrangement;
}

/* The plan of the shape, else a free place, else the least recently used plan. */
static struct kiln_shape_plan *find(struct kiln_graph_cache *cache, const struct kiln_shape *shape)
{
    struct kiln_shape_plan *best = &cache->plans[0];
    for (size_t i = 0; i < KILN_GRAPH_CACHE_SHAPES; i++) {
        struct kiln_shape_plan *plan = &cache->plans[i];
        if (plan->scope && same_shape(&plan->shape, shape))
            return plan;
        if (best->scope && (!plan->scope || plan->used < best->used))
            best = plan;
    }
    return best;
}

struct kiln_shape_plan *kiln_graph_cache_get(struct kiln_graph_cache *cache,
                                             const struct kiln_shape *shape)
{
    struct kiln_shape_plan *plan = find(cache, shape);
    if (!plan->scope || !same_shape(&plan->shape, shape)) {
        drop_plan(cache, plan);
        plan->shape = *shape;
        plan->scope = kt_scope_new(cache->device);
    }
    plan->used = ++cache->clock;
    return plan;
}

static int64_t pixels_of(const struct kiln_shape *shape)
{
    return shape->height * shape->width;
}

void kiln_graph_cache_warm(struct kiln_shape_plan *plan)
{
    plan->warm = true;
    plan->warm_by = pthread_self();
}

bool kiln_graph_cache_wants(const struct kiln_graph_cache *cache,
                            const struct kiln_shape_plan *plan)
{
    return !plan->graph && plan->warm && pthread_equal(plan->warm_by, pthread_self()) &&
           kt_graphs(cache->device) &&
           (cache->refused_pixels == 0 || pixels_of(&plan->shape) < cache->refused_pixels);
}

void kiln_graph_cache_put(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan,
                          struct kt_graph *graph)
{
    plan->graph = graph;
    cache->bytes += kt_graph_bytes(graph);
    if (cache->bytes <= KILN_GRAPH_CACHE_BYTES)
        return;
    if (kiln_graph_cache_count(cache) == 1)
        kiln_graph_cache_refuse(cache, &plan->shape);
    kiln_graph_cache_stale(cache);
    kt_device_trim(cache->device);
}

void kiln_graph_cache_refuse(struct kiln_graph_cache *cache, const struct kiln_shape *shape)
{
    int64_t pixels = pixels_of(shape);
    if (cache->refused_pixels == 0 || pixels < cache->refused_pixels)
        cache->refused_pixels = pixels;
}
