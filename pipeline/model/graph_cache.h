/* graph_cache.h - what is kept for one shape of work, a step of the denoising loop or a short pass
 * of the text encoder: the buffers that it reads and writes, and, on a GPU, the work itself as a
 * recorded graph.
 *
 * A step depends on its shape alone; latent, caption, noise level and stride are contents of
 * buffers.  So the second picture of a shape finds everything in place; and so does a text, whose
 * embeddings, angles and place among its neighbours are contents, too.  The least recently used
 * shape goes first, of steps and of texts apart: however many layouts of texts come by, the steps
 * keep their places.  The graphs share the memory of their activations, which only comes back when
 * all of them go: that is what happens at the bound in bytes.
 */
#ifndef KILN_GRAPH_CACHE_H
#define KILN_GRAPH_CACHE_H

#include <pthread.h>

#include "pipeline/model/rope.h"
#include "pipeline/torch/lanes.h"
#include "pipeline/torch/tensor.h"

/* Captions are padded to 32 .. 512 rows: four sizes with six usual lengths each, of which the small
 * ones come as one, two or four pictures.  There are nine lists of blocks in a short text, some
 * with few prompts and with many.  A shape holds 2 to 10 MB of buffers, and 1,500 kernels'
 * arguments of 1 to 2 MB as a graph. */
#define KILN_GRAPH_CACHE_STEPS 48
#define KILN_GRAPH_CACHE_TEXTS 12
/* Blocks of a text pass that is recorded, at most. */
#define KILN_SHAPE_TEXT_BLOCKS 4
/* Of all activations together: 0.5 GB at 1024 px, 1.7 GB at 2048 px, and room for both. */
#define KILN_GRAPH_CACHE_BYTES ((size_t)4 << 30)

struct kiln_shape {
    int items;                           /* pictures that are drawn together */
    int64_t height, width;               /* of the latent */
    int64_t caption_rows, negative_rows; /* padded; the negative prompt's 0 without guidance */
    float guidance;                      /* a recorded step has it as a constant */
    int arrangement;                     /* of kiln_loras_arrangement */
    /* A pass of the engine's one text encoder has nothing of the above, but these. */
    int64_t text_blocks[KILN_SHAPE_TEXT_BLOCKS]; /* rows of each; 0: there is none */
    int64_t text_segments;
};

struct kiln_shape_plan {
    struct kiln_shape shape;
    /* Owns the buffers, which whoever gets the plan first makes: NULL before. */
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

/* The plan of a shape, an empty one with nothing but its scope if it is new.  Valid until the next
 * call that may drop it: get, drop, clear. */
struct kiln_shape_plan *kiln_graph_cache_get(struct kiln_graph_cache *cache,
                                             const struct kiln_shape *shape);
/* Drops one, whose buffers could not be made. */
void kiln_graph_cache_drop(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan);
/* Notes that this thread has computed the plan's work. */
void kiln_graph_cache_warm(struct kiln_shape_plan *plan);
/* Whether the plan's work should be recorded the next time, by this thread. */
bool kiln_graph_cache_wants(const struct kiln_graph_cache *cache,
                            const struct kiln_shape_plan *plan);
/* Records what work asks of a scope on the plan's buffers.  The plan has no graph afterwards if
 * that fails, which refuses the shape, if the graph is larger than all graphs may be, and if all
 * together are: then they are all dropped. */
typedef void kiln_graph_work(struct kt_scope *s, const void *arg);
int kiln_graph_cache_record(struct kiln_graph_cache *cache, struct kiln_shape_plan *plan,
                            kiln_graph_work *work, const void *arg,
                            struct kiln_error *err) KILN_MUST_CHECK;
/* Shapes of this many latent pixels and more are not recorded any more; or texts of this many rows
 * and more. */
void kiln_graph_cache_refuse(struct kiln_graph_cache *cache, const struct kiln_shape *shape);
/* Drops the graphs: for when the weights they read have moved.  The buffers stay. */
void kiln_graph_cache_stale(struct kiln_graph_cache *cache);
void kiln_graph_cache_clear(struct kiln_graph_cache *cache); /* drops everything */
size_t
kiln_graph_cache_count(const struct kiln_graph_cache *cache); /* graphs, for tests and logs */

#endif
