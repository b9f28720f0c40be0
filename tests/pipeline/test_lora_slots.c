/* test_lora_slots.c - LoRAs in slots: the layout, beside and merged against the exact merge, many
 * switches, the cache.  On the CPU, through the code that GPUs use. */
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>

#include "pipeline/lora/cache.h"
#include "pipeline/model/transformer_parts.h"
#include "pipeline/torch/low_rank.h"
#include "tests/pipeline/abi.h"
#include "tests/support/lora_rig.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SIDE 64

static struct kiln_engine *engine;  /* tests/golden/models/plain in fp32 */
static struct kiln_weight_set *own; /* its only one */

static int open_engine(void **state)
{
    (void)state;
    engine = lora_rig_open(golden("models/plain"), KT_CPU, DIFFUSIONZ_FP32);
    own = engine->sets;
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    kiln_engine_close(engine);
    return 0;
}

/* --- the layout ------------------------------------------------------------------------------- */

static void ranks_have_classes(void **state)
{
    (void)state;
    static const int64_t cases[][2] = {{1, 16},    {4, 16},    {16, 16},  {17, 32},   {48, 48},
                                       {49, 64},   {64, 64},   {65, 128}, {128, 128}, {129, 256},
                                       {257, 512}, {512, 512}, {513, 0}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(kiln_lora_class(cases[i][0]), cases[i][1]);
}

static void matrices_of_a_layout_lie_apart(void **state)
{
    (void)state;
    struct kiln_lora_layout l;
    struct kiln_error err;
    size_t end = 0, packed = 0, layers = 0;
    assert_int_equal(kiln_lora_layout_init(&l, &own->params, 32, KT_BF16, &err), 0);
    for (size_t i = 0; i < l.count; i++) {
        const struct kiln_lora_place *p = &l.places[i];
        assert_int_equal(p->rows, kt_size(*p->slot, 0));
        assert_int_equal(p->cols, kt_size(*p->slot, 1));
        assert_true(p->down >= end && p->down % 256 == 0 && p->up % 256 == 0);
        assert_true(p->up >= p->down + (size_t)(p->rank * p->cols) * 2);
        end = p->up + (size_t)(p->rows * p->rank) * 2;
        packed += p->rank > 32;
        layers += p->layer != NULL;
    }
    assert_true(end <= l.bytes);
    /* Each block has four layers, two of them packed; adaLN and the embedders have none. */
    size_t blocks =
        (size_t)(engine->config.transformer.layers + 2 * engine->config.transformer.refiner_layers);
    assert_int_equal(packed, 2 * blocks);
    assert_int_equal(layers, 4 * blocks);
    assert_true(l.count > layers);
    kiln_lora_layout_release(&l);
}

/* --- against the merge from files ------------------------------------------------------------- */

static void check_set(struct lora_draw draw)
{
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    draw.side = SIDE;
    draw.steps = 2;
    for (int i = 0; i < 2; i++) {
        double effect;
        struct lora_gap gap = lora_rig_compare(engine, draw, modes[i], KILN_LORA_FILES, &effect);
        assert_true(gap.relative < 1e-5);
        assert_true(effect > 100 * gap.relative);
    }
}

static void every_layout_of_keys_works_in_slots(void **state)
{
    (void)state;
    static const char *const names[] = {
        "diffusers",   "diffusers_alpha", "aitoolkit", "aitoolkit_alpha", "kohya",
        "kohya_fused", "comfy",           "dotted",    "default",         "peft"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char name[64];
        snprintf(name, sizeof name, "loras/%s.safetensors", names[i]);
        check_set((struct lora_draw){.loras = {{golden(name), 0.8f}}, .lora_count = 1});
    }
}

static void several_at_once_are_a_sum(void **state)
{
    (void)state;
    const char *first = golden("loras/kohya.safetensors");
    const char *second = golden("loras/second.safetensors");
    check_set((struct lora_draw){.loras = {{first, 0.5f}, {second, 0.5f}}, .lora_count = 2});
    check_set((struct lora_draw){.loras = {{first, 0.5f}, {second, -1}, {first, 0.25f}},
                                 .lora_count = 3});
}

/* --- switches --------------------------------------------------------------------------------- */

static void a_thousand_switches_leave_no_trace(void **state)
{
    (void)state;
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    for (int i = 0; i < 2; i++) {
        const struct lora_draw a = {.side = SIDE,
                                    .steps = 1,
                                    .mode = modes[i],
                                    .loras = {{golden("loras/kohya.safetensors"), 1}},
                                    .lora_count = 1};
        const struct lora_draw b = {.loras = {{golden("loras/second.safetensors"), -0.7f}},
                                    .lora_count = 1};
        printf("one switch: %.3f ms\n", lora_rig_switch(engine, &a, &b, i == 0 ? 1000 : 100));
    }
}

static int put(const char *name, float weight, bool *ret_changed, struct kiln_error *err)
{
    const struct kiln_lora_use use = {golden(name), weight};
    return kiln_loras_set(own->loras, &use, 1, ret_changed, err);
}

static void memory_stays_within_an_arrangement(void **state)
{
    (void)state;
    const enum kiln_lora_mode modes[2] = {KILN_LORA_BESIDE, KILN_LORA_MERGED};
    const struct kiln_block *b = kiln_joint_block(own->transformer, 0);
    struct kiln_error err;
    bool changed;
    for (int i = 0; i < 2; i++) {
        kiln_loras_mode(own->loras, modes[i]);
        assert_int_equal(kiln_loras_arrangement(own->loras), 0);
        const struct kiln_linear_layer bare = b->qkv;
        assert_null(bare.down);
        assert_int_equal(put("loras/kohya.safetensors", 1, &changed, &err), 0);
        assert_true(changed);
        const struct kiln_linear_layer first = b->qkv;
        const kt modulation = b->modulation;
        const int arrangement = kiln_loras_arrangement(own->loras);
        assert_int_not_equal(arrangement, 0);
        assert_int_equal(first.down != NULL, modes[i] == KILN_LORA_BESIDE);
        assert_int_equal(first.weight == bare.weight, modes[i] == KILN_LORA_BESIDE);
        assert_int_equal(put("loras/kohya.safetensors", 1, &changed, &err), 0);
        assert_false(changed);
        assert_int_equal(put("loras/second.safetensors", 0.5f, &changed, &err), 0);
        assert_true(changed);
        assert_int_equal(kiln_loras_arrangement(own->loras), arrangement);
        assert_memory_equal(&b->qkv, &first, sizeof first);
        assert_ptr_equal(b->modulation, modulation);
        kiln_loras_mode(own->loras, KILN_LORA_AUTO);
        assert_memory_equal(&b->qkv, &bare, sizeof bare);
    }
}

/* --- weights in other forms ------------------------------------------------------------------- */

/* The model once more, in bf16 or with its large matrices in e4m3. */
struct second {
    struct kt_scope *scope;
    struct kiln_param_table params;
    struct kiln_transformer *t;
    struct kiln_loras *loras;
    int loads; /* of the plain matrices */
};

static void load_transformer(struct kt_scope *scope, enum kt_dtype dtype,
                             struct kiln_param_table *params, struct kiln_transformer **ret)
{
    struct kiln_error err;
    if (kiln_transformer_load(golden("models/plain/transformer"), &engine->config.transformer,
                              scope, dtype, NULL, "", params, ret, &err))
        fail_msg("%s", err.text);
}

static int load_plain(void *arg, struct kt_scope *scope, kt *ret, struct kiln_error *err)
{
    struct second *q = arg;
    struct kiln_param_table params = {0};
    struct kiln_transformer *t;
    (void)err;
    load_transformer(scope, KT_BF16, &params, &t);
    for (size_t i = 0; i < params.count; i++)
        ret[i] = *params.items[i].slot;
    kiln_param_table_release(&params);
    kiln_transformer_free(t);
    q->loads++;
    return 0;
}

static float *values_of(struct kt_scope *s, kt x, size_t *ret_count)
{
    *ret_count = (size_t)(kt_size(x, 0) * kt_size(x, 1));
    float *values = malloc(*ret_count * sizeof *values);
    assert_non_null(values);
    kt_to_host_f32(s, x, values, *ret_count);
    return values;
}

/* Rows of noise, of the length that a norm gives them, through the first block's gate_up, which the
 * set of the engine is in, too. */
static struct lora_gap products_gap(const struct second *q, double *ret_effect)
{
    struct kt_scope *s = kt_scope_new(KT_CPU);
    struct kiln_error err;
    size_t n;
    const struct kiln_linear_layer *want = &kiln_joint_block(own->transformer, 0)->gate_up;
    const struct kiln_linear_layer *layer = &kiln_joint_block(q->t, 0)->gate_up;
    const int64_t width = kt_size(want->weight, 1);
    const kt noise = kt_to(s, kt_randn(s, 9, 2, (int64_t[]){64, width}), KT_BF16);
    const kt ones = kt_affine(s, kt_zeros(s, KT_F32, 1, &width), 1, 1);
    const kt x = kt_to(s, kt_rms_norm(s, noise, ones, 1e-5, KT_PLAIN), KT_F32);
    const kt rows = kt_rms_norm(s, noise, ones, 1e-5, kiln_linear_form(layer));
    float *b = values_of(s, kiln_linear(s, x, want, 1), &n);
    float *a = values_of(s, kiln_linear(s, rows, layer, 1), &n);
    kiln_loras_mode(own->loras, KILN_LORA_AUTO);
    float *without = values_of(s, kiln_linear(s, x, want, 1), &n);
    struct lora_gap gap = lora_rig_gap(a, b, n);
    *ret_effect = lora_rig_gap(without, b, n).relative;
    assert_int_equal(kt_scope_check(s, &err), 0);
    free(a);
    free(b);
    free(without);
    kt_scope_free(s);
    return gap;
}

static void quantised_weights_take_both_ways(void **state)
{
    (void)state;
    const enum kiln_lora_mode modes[3] = {KILN_LORA_BESIDE, KILN_LORA_MERGED, KILN_LORA_MERGED};
    const struct kiln_lora_use uses[2] = {{golden("loras/kohya.safetensors"), 1},
                                          {golden("loras/second.safetensors"), 1}};
    struct second q = {.scope = kt_scope_new(KT_CPU)};
    const struct kiln_lora_plain plain = {load_plain, &q};
    struct kiln_error err;
    bool changed;
    load_transformer(q.scope, KT_E4M3, &q.params, &q.t);
    q.loras = kiln_loras_new(&q.params, KT_CPU, KT_BF16, &plain);
    const struct kiln_linear_layer *layer = &kiln_joint_block(q.t, 0)->gate_up, bare = *layer;
    assert_int_equal(kt_dtype_of(bare.weight), KT_E4M3);
    for (int i = 0; i < 3; i++) {
        double effect;
        kiln_loras_mode(q.loras, modes[i]);
        if (kiln_loras_set(q.loras, uses, 2, &changed, &err))
            fail_msg("%s", err.text);
        assert_int_equal(kiln_loras_set(own->loras, uses, 2, &changed, &err), 0);
        struct lora_gap gap = products_gap(&q, &effect);
        printf("e4m3 %s: relative %.2e, cosine %.6f; the set moves it by %.2e\n",
               i ? "merged" : "beside", gap.relative, gap.cosine, effect);
        assert_true(gap.relative < 0.05 && gap.cosine > 0.999);
        assert_true(effect > 2 * gap.relative);
        assert_int_equal(kt_dtype_of(layer->weight), KT_E4M3);
        assert_int_equal(layer->weight == bare.weight, modes[i] == KILN_LORA_BESIDE);
    }
    kiln_loras_mode(q.loras, KILN_LORA_AUTO);
    assert_memory_equal(layer, &bare, sizeof bare);
    assert_int_equal(q.loads, 1);
    kiln_loras_free(q.loras);
    kiln_param_table_release(&q.params);
    kiln_transformer_free(q.t);
    kt_scope_free(q.scope);
}

/* As on a GPU: up goes behind the rows of a weight that has room for it, in plain numbers or in
 * codes. */
static void check_weight_with_room(enum kt_dtype dtype, int64_t room, double relative)
{
    const struct kiln_lora_use uses[2] = {{golden("loras/kohya.safetensors"), 1},
                                          {golden("loras/second.safetensors"), 1}};
    struct second q = {.scope = kt_scope_new(KT_CPU)};
    struct kiln_error err;
    double effect;
    bool changed;
    load_transformer(q.scope, dtype, &q.params, &q.t);
    const struct kiln_linear_layer *layer = &kiln_joint_block(q.t, 0)->gate_up;
    kt_make_room(q.scope, layer->weight, 32);
    const struct kiln_linear_layer bare = *layer;
    q.loras = kiln_loras_new(&q.params, KT_CPU, KT_BF16, NULL);
    kiln_loras_mode(q.loras, KILN_LORA_BESIDE);
    if (kiln_loras_set(q.loras, uses, 2, &changed, &err))
        fail_msg("%s", err.text);
    assert_int_equal(kiln_loras_set(own->loras, uses, 2, &changed, &err), 0);
    assert_int_equal(kt_size(layer->both, 1), kt_size(bare.weight, 1) + 32);
    assert_null(kiln_joint_block(q.t, 0)->out.both); /* which has none */
    assert_int_equal(kiln_linear_form(layer).room, room);
    assert_ptr_equal(kiln_linear_form(layer).down, layer->down);
    assert_null(kiln_linear_form(&kiln_joint_block(q.t, 0)->out).down);
    struct lora_gap gap = products_gap(&q, &effect);
    printf("with room: relative %.2e; the set moves it by %.2e\n", gap.relative, effect);
    assert_true(gap.relative < relative && effect > 2 * gap.relative);
    kiln_loras_mode(q.loras, KILN_LORA_AUTO);
    assert_memory_equal(layer, &bare, sizeof bare);
    assert_int_equal(kiln_linear_form(layer).room, 0);
    assert_null(kiln_linear_form(layer).down);
    kiln_loras_free(q.loras);
    kiln_param_table_release(&q.params);
    kiln_transformer_free(q.t);
    kt_scope_free(q.scope);
}

static void up_lies_behind_the_rows_of_a_weight(void **state)
{
    (void)state;
    check_weight_with_room(KT_BF16, 64, 5e-3);
    check_weight_with_room(KT_E4M3, 128, 0.05);
}

/* --- what does not fit ------------------------------------------------------------------------ */

/* A pair for one module of 48 inputs and 48 outputs; alpha 0: none. */
static void write_lora(const char *path, const char *module, int64_t rank, float value,
                       double alpha)
{
    char a[128], b[128], c[128];
    float *values = malloc((size_t)(rank * 48) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < rank * 48; i++)
        values[i] = value * (float)(i % 7 - 3);
    snprintf(a, sizeof a, "%s.lora_A.weight", module);
    snprintf(b, sizeof b, "%s.lora_B.weight", module);
    snprintf(c, sizeof c, "%s.alpha", module);
    const size_t size = (size_t)(rank * 48) * sizeof *values;
    const struct kiln_st_tensor tensors[] = {{a, KILN_ST_F32, 2, {rank, 48}, values, size},
                                             {b, KILN_ST_F32, 2, {48, rank}, values, size},
                                             {c, KILN_ST_F64, 0, {0}, &alpha, sizeof alpha}};
    struct kiln_error err;
    if (kiln_st_write(path, tensors, alpha != 0 ? 3 : 2, NULL, &err))
        fail_msg("%s", err.text);
    free(values);
}

static void a_rank_beyond_all_classes_is_merged_from_its_file(void **state)
{
    (void)state;
    double effect;
    write_lora("wide.safetensors", "layers.0.attention.to_out.0", 520, 1e-3f, 0);
    struct lora_draw draw = {
        .side = SIDE, .steps = 1, .loras = {{"wide.safetensors", 1}}, .lora_count = 1};
    struct lora_gap gap =
        lora_rig_compare(engine, draw, KILN_LORA_BESIDE, KILN_LORA_FILES, &effect);
    assert_true(gap.relative == 0 && effect > 0);
    /* From there to slots and back. */
    const struct kiln_lora_use wide = {"wide.safetensors", 1};
    const struct kiln_block *b = kiln_joint_block(own->transformer, 0);
    struct kiln_error err;
    bool changed;
    kiln_loras_mode(own->loras, KILN_LORA_BESIDE);
    const kt bare = b->out.weight;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kiln_loras_set(own->loras, &wide, 1, &changed, &err), 0);
        assert_true(changed && b->out.weight != bare && !b->out.down);
        assert_true(kiln_loras_arrangement(own->loras) < -1);
        assert_int_equal(put("loras/kohya.safetensors", 1, &changed, &err), 0);
        assert_true(changed && b->out.weight == bare && b->out.down);
    }
    kiln_loras_mode(own->loras, KILN_LORA_AUTO);
    assert_ptr_equal(b->out.weight, bare);
}

/* One that cannot be merged leaves the set that was in the slots, at the addresses it had. */
static void a_failed_merge_brings_back_what_was_in_place(void **state)
{
    (void)state;
    const struct kiln_lora_use wide = {"wide_huge.safetensors", 1};
    const struct kiln_block *b = kiln_joint_block(own->transformer, 0);
    struct kiln_error err;
    bool changed;
    write_lora(wide.path, "layers.0.attention.to_out.0", 520, 1e30f, 0);
    for (int mode = KILN_LORA_MERGED; mode <= KILN_LORA_BESIDE; mode++) {
        kiln_loras_mode(own->loras, mode);
        assert_int_equal(put("loras/kohya.safetensors", 1, &changed, &err), 0);
        const struct kiln_linear_layer before = b->out;
        const int arrangement = kiln_loras_arrangement(own->loras);
        assert_int_equal(kiln_loras_set(own->loras, &wide, 1, &changed, &err), KILN_CORRUPT);
        assert_true(
            changed); /* for a while: what was computed from the weights is computed again */
        assert_memory_equal(&b->out, &before, sizeof before);
        assert_int_equal(kiln_loras_arrangement(own->loras), arrangement);
        assert_int_equal(put("loras/kohya.safetensors", 1, &changed, &err), 0);
        assert_false(changed);
    }
    kiln_loras_mode(own->loras, KILN_LORA_AUTO);
    assert_int_equal(kiln_loras_arrangement(own->loras), 0);
}

static void refuse(const char *path, int code, const char *word)
{
    const struct kiln_lora_use use = {path, 1};
    const struct kiln_block *b = kiln_joint_block(own->transformer, 0);
    const struct kiln_linear_layer before = b->out;
    struct kiln_error err;
    bool changed = false;
    int got = kiln_loras_set(own->loras, &use, 1, &changed, &err);
    if (got != code || !strstr(err.text, word) || !strstr(err.text, path))
        fail_msg("expected code %d with \"%s\", got %d: %s", code, word, got, err.text);
    assert_false(changed);
    assert_memory_equal(&b->out, &before, sizeof before);
}

static void what_cannot_be_used_is_named_and_changes_nothing(void **state)
{
    (void)state;
    struct kiln_error err;
    bool changed;
    write_lora("other.safetensors", "layers.7.attention.to_out.0", 4, 1, 0);
    write_lora("huge.safetensors", "layers.0.attention.to_out.0", 4, 1e30f, 0);
    write_lora("zeros.safetensors", "layers.0.attention.to_out.0", 1, 0, 1e300);
    kiln_loras_mode(own->loras, KILN_LORA_BESIDE);
    assert_int_equal(put("loras/kohya.safetensors", 1, &changed, &err), 0);
    refuse("other.safetensors", KILN_BAD_INPUT, "layers.7.attention.to_out.0");
    refuse("huge.safetensors", KILN_CORRUPT, "not finite");
    refuse("zeros.safetensors", KILN_CORRUPT, "not finite");
    refuse("absent.safetensors", KILN_NOT_FOUND, "no such file");
    kiln_loras_mode(own->loras, KILN_LORA_AUTO);
}

/* --- the cache -------------------------------------------------------------------------------- */

static void take(struct kiln_lora_cache *c, const char *name, float weight)
{
    const struct kiln_lora_use use = {golden(name), weight};
    const struct kiln_lora_image *image;
    struct kiln_lora_stack stack;
    struct kiln_error err;
    assert_int_equal(kiln_lora_stack_read(&use, 1, &stack, &err), 0);
    if (kiln_lora_cache_acquire(c, &stack, &image, &err))
        fail_msg("%s", err.text);
    assert_true(kiln_lora_stack_same(&image->stack, &stack));
    kiln_lora_cache_release(c, image);
    kiln_lora_stack_release(&stack);
}

static void the_cache_keeps_what_was_used_last(void **state)
{
    (void)state;
    struct kiln_lora_cache *c = kiln_lora_cache_new(&own->params, KT_CPU, KT_F32, SIZE_MAX);
    take(c, "loras/kohya.safetensors", 1);
    const size_t one = kiln_lora_cache_count(c).bytes;
    kiln_lora_cache_free(c);
    c = kiln_lora_cache_new(&own->params, KT_CPU, KT_F32, 2 * one);
    static const struct {
        const char *name;
        float weight;
        size_t made, found;
    } steps[] = {
        {"loras/kohya.safetensors", 1, 1, 0},  {"loras/second.safetensors", 1, 2, 0},
        {"loras/kohya.safetensors", 1, 2, 1},  {"loras/kohya.safetensors", 0.5f, 3, 1},
        {"loras/kohya.safetensors", 1, 3, 2},  {"loras/second.safetensors", 1, 4, 2},
        {"loras/second.safetensors", 1, 4, 3},
    };
    for (size_t i = 0; i < COUNT(steps); i++) {
        take(c, steps[i].name, steps[i].weight);
        struct kiln_lora_cache_counts counts = kiln_lora_cache_count(c);
        assert_int_equal(counts.made, steps[i].made);
        assert_int_equal(counts.found, steps[i].found);
        assert_true(counts.images <= 2 && counts.bytes <= 2 * one);
    }
    kiln_lora_cache_free(c);
}

static void a_set_asked_for_ahead_is_there(void **state)
{
    (void)state;
    struct kiln_lora_cache *c = kiln_lora_cache_new(&own->params, KT_CPU, KT_F32, SIZE_MAX);
    const struct kiln_lora_use use = {golden("loras/kohya.safetensors"), 1};
    const struct kiln_lora_use absent = {"absent.safetensors", 1};
    kiln_lora_cache_prefetch(c, &absent, 1);
    kiln_lora_cache_prefetch(c, &use, 1);
    for (int i = 0; i < 1000 && kiln_lora_cache_count(c).made == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    assert_int_equal(kiln_lora_cache_count(c).made, 1);
    take(c, "loras/kohya.safetensors", 1);
    assert_int_equal(kiln_lora_cache_count(c).made, 1);
    assert_int_equal(kiln_lora_cache_count(c).found, 1);
    kiln_lora_cache_prefetch(c, &use, 1); /* may be under way when the cache goes */
    kiln_lora_cache_free(c);
}

/* With no patience at all, taking a set while the cache's thread makes it is refused by name; it is
 * there a moment later.  Each try is another set, until one is met half made. */
static void waiting_for_a_set_has_an_end(void **state)
{
    (void)state;
    struct kiln_lora_cache *c = kiln_lora_cache_new(&own->params, KT_CPU, KT_F32, SIZE_MAX);
    struct kiln_lora_stack stack;
    struct kiln_error err;
    int code = 0;
    kiln_lora_cache_wait_limit(c, 0);
    for (int i = 0; i < 200 && code == 0; i++) {
        const struct kiln_lora_use use = {golden("loras/kohya.safetensors"), 1 + (float)i / 256};
        const struct kiln_lora_image *image;
        const size_t before = kiln_lora_cache_count(c).images;
        assert_int_equal(kiln_lora_stack_read(&use, 1, &stack, &err), 0);
        kiln_lora_cache_prefetch(c, &use, 1);
        while (kiln_lora_cache_count(c).images == before)
            sched_yield();
        code = kiln_lora_cache_acquire(c, &stack, &image, &err);
        if (code == 0) {
            kiln_lora_cache_release(c, image);
            kiln_lora_stack_release(&stack);
        }
    }
    assert_int_equal(code, KILN_TIMEOUT);
    assert_non_null(strstr(err.text, "kohya.safetensors: its files are still being read"));
    const struct kiln_lora_image *image;
    kiln_lora_cache_wait_limit(c, 60);
    assert_int_equal(kiln_lora_cache_acquire(c, &stack, &image, &err), 0);
    kiln_lora_cache_release(c, image);
    kiln_lora_stack_release(&stack);
    kiln_lora_cache_free(c);
}

static void the_library_takes_wishes_and_refuses_nonsense(void **state)
{
    (void)state;
    DiffusionZContext *ctx = open_plain();
    const DiffusionZLora set[2] = {{golden("loras/kohya.safetensors"), 1}, {"absent", 1}};
    const DiffusionZItem item = {.prompt = "a star"};
    DiffusionZBatch next = {.items = &item,
                            .item_count = 1,
                            .width = 64,
                            .height = 64,
                            .num_steps = 1,
                            .loras = set,
                            .lora_count = 2};
    assert_int_equal(diffusionz_prefetch(ctx, &next), 0);
    assert_int_equal(diffusionz_prefetch(NULL, &next), KILN_BAD_INPUT);
    assert_int_equal(diffusionz_prefetch(ctx, NULL), KILN_BAD_INPUT);
    next.lora_count = KILN_LORAS_MAX + 1;
    assert_int_equal(diffusionz_prefetch(ctx, &next), KILN_BAD_INPUT);
    assert_non_null(strstr(diffusionz_last_error(), "LoRAs"));
    diffusionz_free(ctx);
    /* As on a GPU: the wish and the batch meet in the cache. */
    const struct kiln_lora_use use = {golden("loras/second.safetensors"), 0.3f};
    struct kiln_error err;
    bool changed;
    kiln_loras_mode(own->loras, KILN_LORA_BESIDE);
    for (int i = 0; i < 20; i++) {
        kiln_loras_prefetch(own->loras, &use, 1);
        assert_int_equal(kiln_loras_set(own->loras, &use, 1, &changed, &err), 0);
        assert_int_equal(changed, i == 0);
    }
    kiln_loras_mode(own->loras, KILN_LORA_AUTO);
}

/* A file that is exchanged under its name is another set. */
static void an_exchanged_file_is_read_again(void **state)
{
    (void)state;
    struct kiln_error err;
    bool changed;
    const struct kiln_lora_use use = {"mine.safetensors", 1};
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    kiln_loras_mode(own->loras, KILN_LORA_BESIDE);
    write_lora(use.path, "layers.0.attention.to_out.0", 4, 0.1f, 0);
    assert_int_equal(utimensat(AT_FDCWD, use.path, times, 0), 0);
    assert_int_equal(kiln_loras_set(own->loras, &use, 1, &changed, &err), 0);
    assert_true(changed);
    write_lora(use.path, "layers.0.attention.to_out.0", 4, 0.2f, 0);
    assert_int_equal(kiln_loras_set(own->loras, &use, 1, &changed, &err), 0);
    assert_true(changed);
    kiln_loras_mode(own->loras, KILN_LORA_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_classes),
        cmocka_unit_test(matrices_of_a_layout_lie_apart),
        cmocka_unit_test(every_layout_of_keys_works_in_slots),
        cmocka_unit_test(several_at_once_are_a_sum),
        cmocka_unit_test(a_thousand_switches_leave_no_trace),
        cmocka_unit_test(memory_stays_within_an_arrangement),
        cmocka_unit_test(quantised_weights_take_both_ways),
        cmocka_unit_test(up_lies_behind_the_rows_of_a_weight),
        cmocka_unit_test(a_rank_beyond_all_classes_is_merged_from_its_file),
        cmocka_unit_test(a_failed_merge_brings_back_what_was_in_place),
        cmocka_unit_test(what_cannot_be_used_is_named_and_changes_nothing),
        cmocka_unit_test(the_cache_keeps_what_was_used_last),
        cmocka_unit_test(a_set_asked_for_ahead_is_there),
        cmocka_unit_test(waiting_for_a_set_has_an_end),
        cmocka_unit_test(the_library_takes_wishes_and_refuses_nonsense),
        cmocka_unit_test(an_exchanged_file_is_read_again),
    };
    return cmocka_run_group_tests_name("lora_slots", tests, open_engine, close_engine);
}
