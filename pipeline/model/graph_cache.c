/* graph_cache.c - see graph_cache.h.  There are few entries, so searches are linear. */
#include "pipeline/model/graph_cache.h"

#include <stdlib.h>
#include <string.h>

#define PLACES (KILN_GRAPH_CACHE_STEPS + KILN_GRAPH_CACHE_TEXTS)

/* Kinds of work; each has places and a limit of its own. */
enum kind { STEP, TEXT, KINDS };

struct kiln_graph_cache {
    int device;
    uint64_t clock;
    size_t bytes;                         /* of the graphs' activations */
    int64_t refused[KINDS];               /* sizes from this on are not recorded; 0: no limit */
    struct kiln_shape_plan plans[PLACES]; /* steps first, then texts */
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
    for (size_t i = 0; i < PLACES; i++)
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

void kiln_graph_cache_drop(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan)
{
    drop_graph(cache, plan);
    kt_scope_free(plan->scope);
    *plan = (struct kiln_shape_plan){.scope = NULL};
}

void kiln_graph_cache_drop_graphs(struct kiln_graph_cache *cache)
{
    for (size_t i = 0; i < PLACES; i++)
        drop_graph(cache, &cache->plans[i]);
}

void kiln_graph_cache_clear(struct kiln_graph_cache *cache)
{
    for (size_t i = 0; i < PLACES; i++)
        kiln_graph_cache_drop(cache, &cache->plans[i]);
}

void kiln_graph_cache_free(struct kiln_graph_cache *cache)
{
    if (cache)
        kiln_graph_cache_clear(cache);
    free(cache);
}

static bool same_shape(const struct kiln_shape *a, const struct kiln_shape *b)
{
    return a->items == b->items && a->height == b->height && a->width == b->width &&
           a->caption_rows == b->caption_rows && a->negative_rows == b->negative_rows &&
           a->guidance == b->guidance && a->set == b->set && a->arrangement == b->arrangement &&
           a->text_segments == b->text_segments &&
           memcmp(a->text_blocks, b->text_blocks, sizeof a->text_blocks) == 0;
}

static enum kind kind_of(const struct kiln_shape *shape)
{
    return shape->text_blocks[0] > 0 ? TEXT : STEP;
}

struct kiln_shape_plan *kiln_graph_cache_get(struct kiln_graph_cache *cache,
                                             const struct kiln_shape *shape)
{
    const bool text = kind_of(shape) == TEXT;
    const size_t begin = text ? KILN_GRAPH_CACHE_STEPS : 0;
    const size_t end = text ? PLACES : KILN_GRAPH_CACHE_STEPS;
    /* The plan of the shape, else a free place, else the least recently used plan of its kind. */
    struct kiln_shape_plan *best = &cache->plans[begin];
    for (size_t i = begin; i < end; i++) {
        struct kiln_shape_plan *plan = &cache->plans[i];
        if (plan->scope && same_shape(&plan->shape, shape)) {
            plan->used = ++cache->clock;
            return plan;
        }
        if (best->scope && (!plan->scope || plan->used < best->used))
            best = plan;
    }
    kiln_graph_cache_drop(cache, best);
    *best = (struct kiln_shape_plan){
        .shape = *shape, .scope = kt_scope_new(cache->device), .used = ++cache->clock};
    return best;
}

/* In latent pixels, or rows of text. */
static int64_t size_of(const struct kiln_shape *shape)
{
    int64_t size = shape->items * shape->height * shape->width;
    for (size_t i = 0; i < KILN_SHAPE_TEXT_BLOCKS; i++)
        size += shape->text_blocks[i];
    return size;
}

void kiln_graph_cache_warm(struct kiln_shape_plan *plan)
{
    plan->warm = true;
    plan->warm_by = pthread_self();
}

bool kiln_graph_cache_should_record(const struct kiln_graph_cache *cache,
                                    const struct kiln_shape_plan *plan)
{
    const int64_t refused = cache->refused[kind_of(&plan->shape)];
    return !plan->graph && plan->warm && pthread_equal(plan->warm_by, pthread_self()) &&
           kt_graphs(cache->device) && (refused == 0 || size_of(&plan->shape) < refused);
}

int kiln_graph_cache_record(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan,
                            kiln_graph_work *work, const void *arg, struct kiln_error *err)
{
    struct kt_scope *s = kt_scope_new(cache->device);
    struct kt_graph *graph = kt_graph_begin(s);
    work(s, arg);
    const bool recorded = kt_graph_end(graph, s);
    if (recorded) {
        plan->graph = graph;
        cache->bytes += kt_graph_bytes(graph);
    }
    if (!recorded || kt_graph_bytes(graph) > KILN_GRAPH_CACHE_BYTES)
        kiln_graph_cache_refuse(cache, &plan->shape);
    if (cache->bytes > KILN_GRAPH_CACHE_BYTES) {
        kiln_graph_cache_drop_graphs(cache);
        kt_device_trim(cache->device);
    }
    int code = kt_scope_check(s, err);
    kt_scope_free(s);
    return code;
}

void kiln_graph_cache_refuse(struct kiln_graph_cache *cache, const struct kiln_shape *shape)
{
    const int64_t size = size_of(shape);
    int64_t *refused = &cache->refused[kind_of(shape)];
    if (*refused == 0 || size < *refused)
        *refused = size;
}
