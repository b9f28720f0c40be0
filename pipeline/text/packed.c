/* packed.c - several prompts through the text encoder at once, on a GPU in bf16.
 * The rows of all prompts follow one another, and attention stays within a prompt.  Everything else
 * works row by row, except that a GPU's library chooses the kernel of a product, and so the order
 * of its sums, by the number of rows.  So products run in blocks of a few fixed sizes, and a
 * prompt's length alone decides the size of its block: short prompts share blocks of 128, others
 * have a block of 256, 512, ... of their own.  Then a prompt's features have the same bits alone
 * and beside any other prompts.  The price is unused rows behind prompts that do not fill their
 * block.
 *
 * With 128 rows, reading the weights takes longer than computing; on a busy host, launching some
 * 400 kernels takes longer than both.  So a pass of few rows is recorded as a graph when its layout
 * comes for the second time.  Blocks and the number of segments are constants of the graph;
 * embeddings, angles and borders are contents of buffers, and segments at the end may be empty.  So
 * one layout serves prompts of any lengths that fill the same blocks.
 */
#include "pipeline/model/graph_cache.h"
#include "pipeline/text/encoder_parts.h"
#include <stdlib.h>
#include <string.h>

#define SHARED_BLOCK 128
#define PROMPTS_MAX 16 /* of one pass */
#define SEGMENTS_MAX (2 * PROMPTS_MAX)
/* Rows of a recorded pass at most.  Above, the GPU takes longer than launching its kernels. */
#define RECORDED_ROWS (KILN_SHAPE_TEXT_BLOCKS * SHARED_BLOCK)

/* The rows of a pass. */
struct layout {
    int64_t rows;
    int64_t blocks[PROMPTS_MAX]; /* rows of each */
    size_t block_count;
    /* Prompts and the rows between them, in order; the end of the last one is rows. */
    int64_t starts[SEGMENTS_MAX];
    size_t segment_count;
    /* The blocks in front with one prompt each, and their segments. */
    size_t large_count, large_segments;
    int64_t widest;             /* block */
    int64_t start[PROMPTS_MAX]; /* of each prompt */
};

static int64_t block_of(size_t count)
{
    int64_t rows = SHARED_BLOCK;
    while (rows < (int64_t)count)
        rows *= 2;
    return rows;
}

static void add_segment(struct layout *l, int64_t start, int64_t rows)
{
    if (rows > 0)
        l->starts[l->segment_count++] = start;
}

static void add_block(struct layout *l, int64_t rows)
{
    l->blocks[l->block_count++] = rows;
    l->rows += rows;
    l->widest = rows > l->widest ? rows : l->widest;
}

/* The largest blocks first, whose products may be joined; then shared blocks, one by one. */
static void place(struct layout *l, const struct kiln_prompt_ids *prompts, size_t n)
{
    int64_t largest = SHARED_BLOCK, room = 0; /* room: rows left in the last shared block */
    for (size_t i = 0; i < n; i++)
        if (block_of(prompts[i].count) > largest)
            largest = block_of(prompts[i].count);
    for (int64_t block = largest; block > SHARED_BLOCK; block /= 2)
        for (size_t i = 0; i < n; i++) {
            const int64_t count = (int64_t)prompts[i].count;
            if (block_of(prompts[i].count) != block)
                continue;
            l->start[i] = l->rows;
            add_segment(l, l->rows, count);
            add_segment(l, l->rows + count, block - count);
            add_block(l, block);
        }
    l->large_count = l->block_count;
    l->large_segments = l->segment_count;
    for (size_t i = 0; i < n; i++) {
        const int64_t count = (int64_t)prompts[i].count;
        if (block_of(prompts[i].count) != SHARED_BLOCK)
            continue;
        if (count > room) {
            add_segment(l, l->rows - room, room);
            add_block(l, SHARED_BLOCK);
            room = SHARED_BLOCK;
        }
        l->start[i] = l->rows - room;
        add_segment(l, l->start[i], count);
        room -= count;
    }
    add_segment(l, l->rows - room, room);
}

static int64_t segment_rows(const struct layout *l, size_t i)
{
    return (i + 1 < l->segment_count ? l->starts[i + 1] : l->rows) - l->starts[i];
}

/* Angles of every row by its place in its own prompt. */
static struct kiln_rope angles(const struct kiln_text_encoder *te, struct kt_scope *s,
                               const struct layout *l)
{
    struct kiln_rope whole = te->rope, parts[SEGMENTS_MAX];
    kt cos[SEGMENTS_MAX], sin[SEGMENTS_MAX];
    if (l->widest > kt_size(whole.cos, 0))
        whole = kiln_rope_text(s, &te->config, l->widest);
    for (size_t i = 0; i < l->segment_count; i++) {
        parts[i] = kiln_rope_rows(s, whole, 0, segment_rows(l, i));
        cos[i] = parts[i].cos;
        sin[i] = parts[i].sin;
    }
    return (struct kiln_rope){kt_cat(s, cos, l->segment_count, 0),
                              kt_cat(s, sin, l->segment_count, 0)};
}

/* --- a pass ----------------------------------------------------------------------------------- */

struct pass {
    const struct kiln_text_encoder *te;
    const struct layout *layout;
    kt x; /* rows: embeddings, and at last the features */
    struct kiln_rope rope;
    /* The borders of the segments in shared blocks: [segments + 1]. */
    kt starts;
    int64_t segments;
};

/* x weight^T + bias by blocks; added to `into` unless that is NULL. */
static kt product(const struct pass *p, struct kt_scope *s, kt x, kt weight, kt bias, kt into)
{
    const struct kt_block_linear args = {.x = x,
                                         .weight = weight,
                                         .bias = bias,
                                         .into = into,
                                         .blocks = p->layout->blocks,
                                         .count = p->layout->block_count};
    return kt_linear_blocks(s, &args);
}

/* Changes x, the residual stream. */
static void run_layer(const struct pass *p, const struct kiln_text_layer *l, struct kt_scope *s,
                      kt x)
{
    const struct kiln_text_config *c = &p->te->config;
    kt h = kt_rms_norm(s, x, l->norm_attention, c->norm_eps, l->form);
    const struct kt_attention_args attention = {.qkv = product(p, s, h, l->qkv, l->qkv_bias, NULL),
                                                .q_norm = l->q_norm,
                                                .k_norm = l->k_norm,
                                                .cos = p->rope.cos,
                                                .sin = p->rope.sin,
                                                .heads = c->heads,
                                                .kv_heads = c->kv_heads,
                                                .head_dim = c->head_dim,
                                                .causal = true,
                                                .eps = c->norm_eps,
                                                .blocks = p->layout->blocks,
                                                .block_count = p->layout->large_count,
                                                .starts = p->starts,
                                                .longest = SHARED_BLOCK};
    (void)product(p, s, kt_attention(s, &attention), l->out, l->out_bias, x);
    h = kt_rms_norm(s, x, l->norm_ffn, c->norm_eps, l->form);
    h = kt_swiglu(s, product(p, s, h, l->gate_up, NULL, NULL), l->form);
    (void)product(p, s, h, l->down, NULL, x);
}

/* The part of a pass that can be recorded: it neither waits nor reads host memory. */
static void run_layers(struct kt_scope *s, const void *arg)
{
    const struct pass *p = arg;
    for (int i = 0; i < p->te->count; i++) {
        struct kt_scope *layer = kt_scope_child(s);
        run_layer(p, &p->te->layers[i], layer, p->x);
        kt_scope_free(layer);
    }
}

/* --- recorded passes -------------------------------------------------------------------------- */

/* Copies *x into a buffer of the plan, made at the first call; *x becomes the buffer. */
static void put(struct kiln_shape_plan *plan, struct kt_scope *s, kt *buffer, kt *x)
{
    if (*buffer)
        kt_copy_into(s, *buffer, *x);
    else
        *buffer = kt_copy(plan->scope, *x);
    *x = *buffer;
}

/* Moves the pass into the buffers of its plan.  NULL, with the pass unchanged, if it should not be
 * recorded or lacks memory. */
static struct kiln_shape_plan *take_plan(struct kiln_graph_cache *graphs, struct kt_scope *s,
                                         struct pass *p)
{
    const struct layout *l = p->layout;
    if (!graphs || l->rows > RECORDED_ROWS || kt_scope_check(s, NULL))
        return NULL;
    struct kiln_shape shape = {.text_segments = p->segments};
    for (size_t i = 0; i < l->block_count; i++)
        shape.text_blocks[i] = l->blocks[i];
    struct kiln_shape_plan *plan = kiln_graph_cache_get(graphs, &shape);
    struct pass placed = *p;
    put(plan, s, &plan->text, &placed.x);
    put(plan, s, &plan->rope.cos, &placed.rope.cos);
    put(plan, s, &plan->rope.sin, &placed.rope.sin);
    put(plan, s, &plan->text_starts, &placed.starts);
    if (kt_scope_check(plan->scope, NULL)) {
        kiln_graph_cache_drop(graphs, plan);
        return NULL;
    }
    *p = placed;
    return plan;
}

static void run_pass(const struct kiln_text_encoder *te, struct kt_scope *s,
                     const struct kiln_prompt_ids *prompts, size_t n,
                     struct kiln_graph_cache *graphs, kt *ret_features,
                     struct kiln_error *ret_unrecorded)
{
    struct layout l = {0};
    struct kiln_error err;
    place(&l, prompts, n);
    int32_t *ids = malloc((size_t)l.rows * sizeof *ids);
    if (!ids) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for a prompt");
        kt_scope_fail(s, &err);
        return;
    }
    for (int64_t row = 0; row < l.rows; row++)
        ids[row] = prompts[0].ids[0]; /* unused rows have some id */
    for (size_t i = 0; i < n; i++)
        memcpy(ids + l.start[i], prompts[i].ids, prompts[i].count * sizeof *ids);
    struct kt_scope *inner = kt_scope_child(s);
    struct pass p = {
        te,   &l, kt_embedding(inner, te->embed, ids, (size_t)l.rows), angles(te, inner, &l),
        NULL, 2};
    free(ids);
    /* With empty segments up to a power of two, so that there are few layouts. */
    while (p.segments < (int64_t)(l.segment_count - l.large_segments))
        p.segments *= 2;
    int32_t borders[SEGMENTS_MAX + 1];
    for (int64_t i = 0; i <= p.segments; i++) {
        const size_t segment = l.large_segments + (size_t)i;
        borders[i] = (int32_t)(segment < l.segment_count ? l.starts[segment] : l.rows);
    }
    p.starts = kt_from_host(inner, borders, KT_I32, KT_I32, 1, (int64_t[]){p.segments + 1});
    struct kiln_shape_plan *plan = take_plan(graphs, inner, &p);
    if (plan && kiln_graph_cache_should_record(graphs, plan)) {
        int code = kiln_graph_cache_record(graphs, plan, run_layers, &p, &err);
        if (code)
            kiln_fail(ret_unrecorded, code,
                      "texts of %lld rows and more are not recorded as graphs: %s",
                      (long long)l.rows, err.text);
    }
    if (plan && plan->graph) {
        kt_graph_replay(plan->graph, inner);
    } else {
        run_layers(inner, &p);
        if (plan && !kt_scope_check(inner, NULL))
            kiln_graph_cache_warm(plan);
    }
    for (size_t i = 0; i < n; i++) {
        kt rows = kt_narrow(inner, p.x, 0, l.start[i], (int64_t)prompts[i].count);
        ret_features[i] = kt_keep(s, kt_copy(inner, rows));
    }
    kt_scope_free(inner);
}

void kiln_text_packed_run(const struct kiln_text_encoder *te, struct kt_scope *s,
                          const struct kiln_prompt_ids *prompts, size_t n,
                          struct kiln_graph_cache *graphs, kt *ret_features,
                          struct kiln_error *ret_unrecorded)
{
    for (size_t i = 0; i < n; i += PROMPTS_MAX) {
        size_t some = n - i < PROMPTS_MAX ? n - i : PROMPTS_MAX;
        run_pass(te, s, prompts + i, some, graphs, ret_features + i, ret_unrecorded);
    }
}
