/* test_text_packed.c - how prompts are laid out in a pass, and which passes are recorded, with
 * doubles of what pipeline/text/packed.c asks of pipeline/torch.
 *
 * A tensor here is a number a row.  What a layer makes of a row depends on everything that it may
 * depend on: its block's size, and in attention the rows of its segment up to it with their angles.
 * So a prompt's features come out wrong as soon as one border is.  What is asked while a graph is
 * recorded is only noted, and done at every replay; the numbers of a scope are damaged when it
 * goes, and those of a recording before each replay, as their memory is used by others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/model/graph_cache.h"
#include "pipeline/text/encoder_parts.h"
#include "schemas/limits.h"

#define LAYERS 3
#define PROMPTS 20
#define SPOILT 0xdeadbeefULL

/* --- scopes and tensors ----------------------------------------------------------------------- */

struct kt_tensor {
    int64_t rows;
    uint64_t *at;
    bool view; /* of another's numbers */
    struct kt_tensor *next;
};

struct kt_scope {
    struct kt_scope *parent;
    struct kt_graph *recording;
    struct kiln_error error;
    struct kt_tensor *tensors; /* of a scope that is not recorded */
};

struct operation {
    enum { ROWS, PRODUCT, ATTENTION } kind;
    kt x, out;
    bool onto; /* a product that is added to out */
    int64_t blocks[PROMPTS];
    size_t count;
    kt cos, sin, starts;
    int64_t longest;
};

struct kt_graph {
    struct operation noted[LAYERS * 10];
    size_t count;
    struct kt_tensor *tensors; /* of what is noted */
};

static struct kt_tensor *gone; /* damaged, but where nobody else writes until they are freed */
static int scopes, recorded, replays, computed;
static bool fails_recording, fails_buffers;
static struct kiln_error unrecorded; /* of the last pass in company */

struct kt_scope *kt_scope_new(int device)
{
    struct kt_scope *s = calloc(1, sizeof *s);
    assert_int_equal(device, 0);
    scopes++;
    return s;
}

struct kt_scope *kt_scope_child(struct kt_scope *parent)
{
    struct kt_scope *s = kt_scope_new(0);
    s->parent = parent, s->recording = parent->recording, s->error = parent->error;
    return s;
}

int kt_scope_check(const struct kt_scope *s, struct kiln_error *err)
{
    if (s->error.code && err)
        *err = s->error;
    return s->error.code;
}

void kt_scope_fail(struct kt_scope *s, const struct kiln_error *err)
{
    if (!s->error.code)
        s->error = *err;
}

static void damage(const struct kt_tensor *t)
{
    for (int64_t i = 0; i < t->rows && !t->view; i++)
        t->at[i] = SPOILT;
}

void kt_scope_free(struct kt_scope *s)
{
    if (!s)
        return;
    while (s->tensors) {
        struct kt_tensor *t = s->tensors;
        s->tensors = t->next;
        damage(t);
        t->next = gone, gone = t;
    }
    if (s->parent && s->error.code)
        kt_scope_fail(s->parent, &s->error);
    free(s);
    scopes--;
}

static void free_tensors(struct kt_tensor **list)
{
    while (*list) {
        struct kt_tensor *t = *list;
        *list = t->next;
        if (!t->view)
            free(t->at);
        free(t);
    }
}

static kt tensor_of(struct kt_scope *s, int64_t rows, uint64_t *view)
{
    struct kt_tensor **list = s->recording ? &s->recording->tensors : &s->tensors;
    struct kt_tensor *t = malloc(sizeof *t);
    *t = (struct kt_tensor){rows, view, view != NULL, *list};
    if (!view)
        t->at = calloc((size_t)rows, sizeof *t->at);
    return *list = t;
}

int64_t kt_size(kt x, int dim)
{
    assert_int_equal(dim, 0);
    return x ? x->rows : 0;
}

kt kt_narrow(struct kt_scope *s, kt x, int dim, int64_t start, int64_t length)
{
    assert_int_equal(dim, 0);
    assert_true(start >= 0 && length > 0 && start + length <= x->rows);
    return tensor_of(s, length, x->at + start);
}

kt kt_copy(struct kt_scope *s, kt x)
{
    if (fails_buffers && !s->parent)
        kiln_fail(&s->error, KILN_NO_MEMORY, "no room for it");
    if (s->error.code)
        return NULL;
    kt y = tensor_of(s, x->rows, NULL);
    memcpy(y->at, x->at, (size_t)x->rows * sizeof *y->at);
    return y;
}

kt kt_keep(struct kt_scope *to, kt x)
{
    return x ? kt_copy(to, x) : NULL;
}

void kt_copy_into(struct kt_scope *s, kt target, kt x)
{
    assert_false(s->recording);
    assert_int_equal(target->rows, x->rows);
    memcpy(target->at, x->at, (size_t)x->rows * sizeof *x->at);
}

kt kt_cat(struct kt_scope *s, const kt *xs, size_t count, int dim)
{
    int64_t rows = 0;
    assert_int_equal(dim, 0);
    for (size_t i = 0; i < count; i++)
        rows += xs[i]->rows;
    kt y = tensor_of(s, rows, NULL);
    for (size_t i = 0, row = 0; i < count; row += (size_t)xs[i++]->rows)
        memcpy(y->at + row, xs[i]->at, (size_t)xs[i]->rows * sizeof *y->at);
    return y;
}

kt kt_from_host(struct kt_scope *s, const void *data, enum kt_dtype from, enum kt_dtype dtype,
                int ndim, const int64_t *shape)
{
    assert_true(!s->recording && from == KT_I32 && dtype == KT_I32 && ndim == 1);
    kt y = tensor_of(s, shape[0], NULL);
    for (int64_t i = 0; i < y->rows; i++)
        y->at[i] = (uint64_t)((const int32_t *)data)[i];
    return y;
}

kt kt_embedding(struct kt_scope *s, kt table, const int32_t *ids, size_t count)
{
    (void)table;
    return kt_from_host(s, ids, KT_I32, KT_I32, 1, (int64_t[]){(int64_t)count});
}

struct kiln_rope kiln_rope_text(struct kt_scope *s, const struct kiln_text_config *config,
                                int64_t rows)
{
    (void)config;
    struct kiln_rope rope = {tensor_of(s, rows, NULL), tensor_of(s, rows, NULL)};
    for (int64_t i = 0; i < rows; i++)
        rope.cos->at[i] = (uint64_t)i + 1, rope.sin->at[i] = (uint64_t)i * 977 + 5;
    return rope;
}

struct kiln_rope kiln_rope_rows(struct kt_scope *s, struct kiln_rope rope, int64_t start,
                                int64_t rows)
{
    return (struct kiln_rope){kt_narrow(s, rope.cos, 0, start, rows),
                              kt_narrow(s, rope.sin, 0, start, rows)};
}

/* --- operations, done at once or noted -------------------------------------------------------- */

static void multiply(const struct operation *o)
{
    int64_t row = 0;
    for (size_t i = 0; i < o->count; i++)
        for (int64_t end = row + o->blocks[i]; row < end; row++)
            o->out->at[row] =
                (o->onto ? o->out->at[row] : 0) + o->x->at[row] * (uint64_t)(2 * o->blocks[i] + 1);
    assert_int_equal(row, o->x->rows);
}

/* Each row of an item from those in front of it; the sum says by which kernel. */
static void attend_item(const struct operation *o, uint64_t start, uint64_t end, uint64_t sum)
{
    for (uint64_t row = start; row < end; row++) {
        sum = sum * 31 + o->x->at[row] * o->cos->at[row] + o->sin->at[row];
        o->out->at[row] = sum;
    }
}

static void attend(const struct operation *o)
{
    const int64_t items = o->starts->rows - 1;
    uint64_t row = 0;
    assert_int_equal(o->cos->rows, o->x->rows);
    for (size_t i = 0; i < o->count; i++, row += (uint64_t)o->blocks[i - 1])
        attend_item(o, row, row + (uint64_t)o->blocks[i], (uint64_t)o->blocks[i]);
    assert_int_equal(o->starts->at[0], row);
    assert_int_equal(o->starts->at[items], o->x->rows);
    for (int64_t i = 0; i < items; i++) {
        assert_true(o->starts->at[i + 1] >= o->starts->at[i]);
        assert_true(o->starts->at[i + 1] - o->starts->at[i] <= (uint64_t)o->longest);
        attend_item(o, o->starts->at[i], o->starts->at[i + 1], 0);
    }
}

static void perform(const struct operation *o)
{
    if (o->kind == PRODUCT)
        multiply(o);
    else if (o->kind == ATTENTION)
        attend(o);
    else
        for (int64_t row = 0; row < o->x->rows; row++)
            o->out->at[row] = o->x->at[row] * 3 + 1;
}

static kt ask(struct kt_scope *s, struct operation o)
{
    if (s->error.code)
        return NULL;
    if (!o.out)
        o.out = tensor_of(s, o.x->rows, NULL);
    if (s->recording) {
        assert_true(s->recording->count < LAYERS * 10);
        s->recording->noted[s->recording->count++] = o;
    } else {
        perform(&o);
        computed++;
    }
    return o.out;
}

kt kt_rms_norm(struct kt_scope *s, kt x, kt gain, double eps, struct kt_form form)
{
    (void)gain, (void)eps, (void)form;
    return ask(s, (struct operation){.kind = ROWS, .x = x});
}

kt kt_swiglu(struct kt_scope *s, kt gate_up, struct kt_form form)
{
    (void)form;
    return ask(s, (struct operation){.kind = ROWS, .x = gate_up});
}

kt kt_linear_blocks(struct kt_scope *s, const struct kt_block_linear *args)
{
    struct operation o = {.kind = PRODUCT, .x = args->x, .out = args->into, .onto = args->into};
    assert_in_range(args->count, 1, PROMPTS);
    memcpy(o.blocks, args->blocks, args->count * sizeof *o.blocks);
    o.count = args->count;
    return ask(s, o);
}

kt kt_attention(struct kt_scope *s, const struct kt_attention_args *args)
{
    assert_true(args->causal);
    struct operation o = {.kind = ATTENTION,
                          .x = args->qkv,
                          .count = args->block_count,
                          .cos = args->cos,
                          .sin = args->sin,
                          .starts = args->starts,
                          .longest = args->longest};
    assert_in_range(args->block_count, 0, PROMPTS);
    memcpy(o.blocks, args->blocks, args->block_count * sizeof *o.blocks);
    return ask(s, o);
}

/* --- graphs ----------------------------------------------------------------------------------- */

bool kt_graphs(int device)
{
    return device == 0;
}

struct kt_graph *kt_graph_begin(struct kt_scope *s)
{
    return s->recording = calloc(1, sizeof *s->recording);
}

bool kt_graph_end(struct kt_graph *g, struct kt_scope *s)
{
    recorded++;
    s->recording = NULL;
    if (!fails_recording)
        return true;
    kiln_fail(&s->error, KILN_NO_MEMORY, "no room for a graph");
    kt_graph_free(g);
    return false;
}

void kt_graph_replay(struct kt_graph *g, struct kt_scope *s)
{
    assert_int_equal(s->error.code, 0);
    for (size_t i = 0; i < g->count; i++)
        if (!g->noted[i].onto)
            damage(g->noted[i].out);
    for (size_t i = 0; i < g->count; i++)
        perform(&g->noted[i]);
    replays++;
}

size_t kt_graph_bytes(const struct kt_graph *g)
{
    return g->count;
}

void kt_graph_free(struct kt_graph *g)
{
    if (g)
        free_tensors(&g->tensors);
    free(g);
}

void kt_device_trim(int device)
{
    (void)device;
}

/* --- prompts ---------------------------------------------------------------------------------- */

static struct kiln_text_encoder *te;
static struct kiln_graph_cache *graphs;
static uint32_t drawn = 1;

static uint32_t draw(uint32_t below)
{
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % below;
}

/* The encoder's other way, which passes in blocks never take. */
kt kiln_text_encoder_run(const struct kiln_text_encoder *encoder, struct kt_scope *s,
                         const int32_t *ids, size_t count)
{
    (void)encoder, (void)s, (void)ids, (void)count;
    fail_msg("a pass in blocks asked for one without");
    return NULL;
}

static int begin(void **state)
{
    (void)state;
    te = calloc(1, sizeof *te + LAYERS * sizeof te->layers[0]);
    te->host = kt_scope_new(0);
    te->rope = kiln_rope_text(te->host, &te->config, KILN_TOKENS_MAX);
    te->packed = true, te->count = LAYERS;
    graphs = kiln_graph_cache_new(0);
    recorded = replays = computed = 0;
    fails_recording = fails_buffers = false;
    return graphs ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    kiln_graph_cache_free(graphs);
    kt_scope_free(te->host);
    free(te);
    free_tensors(&gone);
    return scopes;
}

/* Encodes prompts of these lengths with drawn ids in company, and each alone: all the same. */
static void expect_alone(const size_t *lengths, size_t n, struct kiln_graph_cache *in)
{
    static int32_t ids[PROMPTS][KILN_TOKENS_MAX];
    struct kiln_prompt_ids prompts[PROMPTS];
    kt together[PROMPTS], alone;
    struct kt_scope *s = kt_scope_new(0), *inner = kt_scope_child(s);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < lengths[i]; k++)
            ids[i][k] = (int32_t)draw(1000);
        prompts[i] = (struct kiln_prompt_ids){ids[i], lengths[i]};
    }
    kiln_text_encoder_run_many(te, inner, prompts, n, in, together, &unrecorded);
    const int before = computed;
    for (size_t i = 0; i < n; i++) {
        kiln_text_encoder_run_many(te, inner, &prompts[i], 1, NULL, &alone, NULL);
        assert_non_null(together[i]);
        assert_int_equal(together[i]->rows, lengths[i]);
        assert_memory_equal(together[i]->at, alone->at, lengths[i] * sizeof *alone->at);
    }
    computed = before;
    kt_scope_free(inner);
    kt_scope_free(s);
    free_tensors(&gone);
}

static void expect_one(size_t length)
{
    expect_alone(&length, 1, graphs);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void a_prompt_is_the_same_in_any_company(void **state)
{
    (void)state;
    size_t lengths[PROMPTS];
    static const size_t equal[] = {128, 129, 512, 1};
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
        for (size_t k = 0; k < PROMPTS; k++)
            lengths[k] = equal[i];
        expect_alone(lengths, PROMPTS, NULL);
        expect_alone(lengths, 1, NULL);
    }
    for (int i = 0; i < 200; i++) {
        const size_t n = 1 + draw(PROMPTS);
        for (size_t k = 0; k < n; k++)
            lengths[k] = 1 + draw(k % 3 ? 60 : KILN_TOKENS_MAX);
        expect_alone(lengths, n, NULL);
    }
    assert_int_equal(recorded, 0);
}

static void lengths_of_one_layout_share_a_graph(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 24, 64, 100, 127, 128, 1, 23};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int before = computed;
        expect_one(lengths[i]);
        assert_int_equal(recorded, i > 0);
        assert_int_equal(replays, i);
        assert_int_equal(computed > before, i == 0);
    }
    for (int i = 0; i < 3; i++)
        expect_one(129); /* a block of 256 */
    assert_int_equal(recorded, 2);
    assert_int_equal(kiln_graph_cache_count(graphs), 2);
}

static void short_passes_are_replayed_in_any_company(void **state)
{
    (void)state;
    size_t lengths[PROMPTS];
    for (int i = 0; i < 600; i++) {
        const size_t n = 1 + draw(5);
        for (size_t k = 0; k < n; k++)
            lengths[k] = 1 + draw(k % 3 ? 40 : 140);
        expect_alone(lengths, n, graphs);
    }
    assert_true(replays > 300);
    assert_in_range(kiln_graph_cache_count(graphs), 5, KILN_GRAPH_CACHE_TEXTS);
}

static void passes_of_many_rows_are_computed(void **state)
{
    (void)state;
    static const size_t wide[] = {300, 100}, many[] = {100, 100, 100, 100, 100};
    for (int i = 0; i < 3; i++) {
        expect_alone(wide, 2, graphs);
        expect_alone(many, 5, graphs);
    }
    assert_int_equal(recorded, 0);
    for (int i = 0; i < 3; i++)
        expect_alone(many, 4, graphs);
    assert_int_equal(recorded, 1);
    assert_int_equal(replays, 2);
}

static void what_cannot_be_recorded_is_computed(void **state)
{
    (void)state;
    fails_recording = true;
    for (int i = 0; i < 4; i++) {
        expect_one(200);
        assert_int_equal(unrecorded.code, i == 1 ? KILN_NO_MEMORY : 0); /* said once */
        if (i == 1)
            assert_string_equal(unrecorded.text, "texts of 256 rows and more are not recorded as "
                                                 "graphs: no room for a graph");
    }
    assert_int_equal(recorded, 1);
    assert_int_equal(replays, 0);
    fails_recording = false;
    for (int i = 0; i < 3; i++) {
        expect_one(300); /* larger ones are not tried any more, smaller ones are */
        expect_one(20);
        assert_int_equal(unrecorded.code, 0);
    }
    assert_int_equal(recorded, 2);
    assert_int_equal(replays, 2);
}

/* More prompts than a pass takes: what the first one had to say is not lost in the second. */
static void a_pass_that_is_not_recorded_is_told_behind_others(void **state)
{
    (void)state;
    size_t lengths[PROMPTS];
    for (size_t i = 0; i < PROMPTS; i++)
        lengths[i] = i < 16 ? 20 : 1;
    fails_recording = true;
    expect_alone(lengths, PROMPTS, graphs);
    assert_int_equal(unrecorded.code, 0);
    expect_alone(lengths, PROMPTS, graphs);
    assert_int_equal(unrecorded.code, KILN_NO_MEMORY);
}

static void without_room_for_buffers_nothing_is_kept(void **state)
{
    (void)state;
    const int before = scopes;
    fails_buffers = true;
    for (int i = 0; i < 3; i++)
        expect_one(20);
    assert_int_equal(scopes, before);
    assert_int_equal(recorded, 0);
    fails_buffers = false;
    for (int i = 0; i < 3; i++)
        expect_one(20);
    assert_int_equal(recorded, 1);
    assert_int_equal(replays, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_prompt_is_the_same_in_any_company, begin, end),
        cmocka_unit_test_setup_teardown(lengths_of_one_layout_share_a_graph, begin, end),
        cmocka_unit_test_setup_teardown(short_passes_are_replayed_in_any_company, begin, end),
        cmocka_unit_test_setup_teardown(passes_of_many_rows_are_computed, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_recorded_is_computed, begin, end),
        cmocka_unit_test_setup_teardown(a_pass_that_is_not_recorded_is_told_behind_others, begin,
                                        end),
        cmocka_unit_test_setup_teardown(without_room_for_buffers_nothing_is_kept, begin, end),
    };
    return cmocka_run_group_tests_name("text_packed", tests, NULL, NULL);
}
