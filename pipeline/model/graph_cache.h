/* graph_cache.h - buffers and the CUDA graph of one shape of work: a step of the sampler, or a
 * short pass of the text encoder.
 *
 * A step depends on its shape alone; latent, caption, sigma and stride are contents of buffers.  So
 * the second picture of a shape finds buffers and graph in place.  The same holds for a text pass:
 * embeddings, angles and the borders of prompts are contents of buffers.  The least recently used
 * shape is evicted, among steps and among text passes apart, so that texts never evict steps.
 *
 * All graphs share the memory of their activations, which is only freed with the last graph.  So at
 * the limit in bytes all graphs are dropped.
 */
#ifndef KILN_GRAPH_CACHE_H
#define KILN_GRAPH_CACHE_H

#include <pthread.h>

#include "pipeline/model/rope.h"
#include "pipeline/torch/async.h"
#include "pipeline/torch/tensor.h"

/* How many shapes are kept.  Steps: four sizes with six usual caption lengths (32 .. 512 rows),
 * small sizes in groups of one, two or four.  Text passes: short texts yield nine block layouts;
 * some occur with few prompts and with many.  A shape has 2 to 10 MB of buffers; a graph of 1,500
 * kernels has 1 to 2 MB of arguments. */
#define KILN_GRAPH_CACHE_STEPS 48
#define KILN_GRAPH_CACHE_TEXTS 12
/* Blocks of a recorded text pass, at most. */
#define KILN_SHAPE_TEXT_BLOCKS 4
/* Limit of the graphs' activations: 0.5 GB at 1024 px, 1.7 GB at 2048 px, both must fit. */
#define KILN_GRAPH_CACHE_BYTES ((size_t)4 << 30)

struct kiln_shape {
    int items;                           /* pictures of the group */
    int64_t height, width;               /* of the latent */
    int64_t caption_rows, negative_rows; /* padded; the negative prompt's 0 without guidance */
    float guidance;                      /* a constant of the graph */
    int set;                             /* of the model's weight sets */
    int arrangement;                     /* of kiln_loras_arrangement */
    /* Of a text pass; all of the above is 0 then. */
    int64_t text_blocks[KILN_SHAPE_TEXT_BLOCKS]; /* rows of each block; 0: no block */
    int64_t text_segments;
};

struct kiln_shape_plan {
    struct kiln_shape shape;
    /* Owns the buffers.  They are NULL until the first user of the plan makes them. */
    struct kt_scope *scope;
    kt latent, caption, negative, stride, bad; /* item by item */
    kt modulation;                             /* of all items */
    kt text, text_starts; /* rows in and out, and the borders of the segments */
    struct kiln_rope rope, negative_rope;
    struct kt_graph *graph; /* NULL until recorded */
    bool warm;              /* has been computed, by this thread: */
    pthread_t warm_by;      /* libraries set themselves up for each thread and shape */
    uint64_t used;
};

struct kiln_graph_cache;

/* NULL without memory. */
struct kiln_graph_cache *kiln_graph_cache_new(int device);
void kiln_graph_cache_free(struct kiln_graph_cache *cache); /* accepts NULL */

/* The plan of a shape; a new one has only its scope.  Valid until the next call that may drop it:
 * get, drop, clear. */
struct kiln_shape_plan *kiln_graph_cache_get(struct kiln_graph_cache *cache,
                                             const struct kiln_shape *shape);
/* Drops a plan, for one whose buffers could not be made. */
void kiln_graph_cache_drop(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan);
/* Notes that this thread has computed the plan's work. */
void kiln_graph_cache_warm(struct kiln_shape_plan *plan);
/* Whether this thread should record the plan's work now. */
bool kiln_graph_cache_should_record(const struct kiln_graph_cache *cache,
                                    const struct kiln_shape_plan *plan);
/* Records the operations of work, on the plan's buffers, as its graph.  A failure, or a graph above
 * KILN_GRAPH_CACHE_BYTES, refuses the shape.  If all graphs together exceed that limit, all are
 * dropped, this one too. */
typedef void kiln_graph_work(struct kt_scope *s, const void *arg);
int kiln_graph_cache_record(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan,
                            kiln_graph_work *work, const void *arg,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* Stops recording shapes of this many latent pixels and more; or texts of this many rows and more.
 */
void kiln_graph_cache_refuse(struct kiln_graph_cache *cache, const struct kiln_shape *shape);
/* Drops all graphs, as after weights have moved.  The buffers stay. */
void kiln_graph_cache_drop_graphs(struct kiln_graph_cache *cache);
void kiln_graph_cache_clear(struct kiln_graph_cache *cache); /* drops everything */
size_t
kiln_graph_cache_count(const struct kiln_graph_cache *cache); /* graphs, for tests and logs */

#endif
