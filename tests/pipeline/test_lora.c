/* test_lora.c - one LoRA in every layout gives one set of deltas; what does not fit is named.
 *
 * The files of tests/golden/loras were made together (scripts/golden_loras.py); the modules are
 * those of tests/golden/models/plain.  Broken files are written here, for a model of one block.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/lora/file/strength.h"
#include "storage/formats/safetensors.h"
#include "tests/support/measure.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *golden(const char *name)
{
    static char path[4096];
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/%s", source ? source : ".", name);
    return path;
}

/* --- the golden layouts ----------------------------------------------------------------------- */

struct model {
    struct kiln_lora_module modules[128];
    char names[128][128];
    size_t count;
};

/* Every matrix "NAME.weight" of the transformer is a module. */
static void read_model(struct model *m)
{
    struct kiln_st *st;
    assert_int_equal(kiln_st_open(golden("models/plain/transformer"), &st, NULL), 0);
    m->count = 0;
    for (size_t i = 0; i < kiln_st_count(st); i++) {
        const struct kiln_st_tensor *t = kiln_st_at(st, i);
        size_t len = strlen(t->name);
        if (t->ndim != 2 || len < 8 || strcmp(t->name + len - 7, ".weight") != 0)
            continue;
        assert_in_range(m->count, 0, COUNT(m->modules) - 1);
        snprintf(m->names[m->count], sizeof m->names[0], "%.*s", (int)(len - 7), t->name);
        m->modules[m->count] =
            (struct kiln_lora_module){m->names[m->count], t->shape[0], t->shape[1]};
        m->count++;
    }
    kiln_st_close(st);
}

static float value_at(enum kiln_st_dtype dtype, const void *data, int64_t i)
{
    uint32_t bits = 0;
    float value;
    if (dtype == KILN_ST_F32)
        memcpy(&bits, (const uint8_t *)data + 4 * i, 4);
    else
        memcpy((uint8_t *)&bits + 2, (const uint8_t *)data + 2 * i, 2);
    assert_true(dtype == KILN_ST_F32 || dtype == KILN_ST_BF16);
    memcpy(&value, &bits, 4);
    return value;
}

/* The largest |scale B A - expected| of one module. */
static double delta_error(const struct kiln_lora_pair *p, const struct kiln_lora_module *m,
                          const float *expected)
{
    double worst = 0;
    for (int64_t row = 0; row < m->rows; row++) {
        for (int64_t col = 0; col < m->cols; col++) {
            double sum = 0;
            for (int64_t k = 0; k < p->rank; k++)
                sum += (double)value_at(p->b_dtype, p->b, row * p->rank + k) *
                       value_at(p->a_dtype, p->a, k * m->cols + col);
            worst = test_worse(worst, fabs(p->scale * sum - expected[row * m->cols + col]));
        }
    }
    return worst;
}

static const struct kiln_lora_pair *pair_of(const struct kiln_lora_file *f, size_t module)
{
    for (size_t i = 0; i < kiln_lora_count(f); i++)
        if (kiln_lora_at(f, i)->module == module)
            return kiln_lora_at(f, i);
    return NULL;
}

static void check_deltas(const struct kiln_lora_file *f, const struct model *m)
{
    struct kiln_st *st;
    assert_int_equal(kiln_st_open(golden("loras/deltas.safetensors"), &st, NULL), 0);
    assert_true(kiln_st_count(st) >= 8);
    for (size_t i = 0; i < kiln_st_count(st); i++) {
        const struct kiln_st_tensor *t = kiln_st_at(st, i);
        size_t module = 0;
        while (module < m->count && strcmp(m->modules[module].name, t->name) != 0)
            module++;
        assert_in_range(module, 0, m->count - 1);
        const struct kiln_lora_pair *p = pair_of(f, module);
        assert_non_null(p);
        float *expected = malloc(t->size);
        assert_non_null(expected);
        memcpy(expected, t->data, t->size);
        double error = delta_error(p, &m->modules[module], expected);
        free(expected);
        if (error > 1e-6)
            fail_msg("%s differs by %g", t->name, error);
    }
    kiln_st_close(st);
}

static void test_every_layout_gives_the_same_deltas(void **state)
{
    (void)state;
    static const char *const layouts[] = {
        "diffusers",   "diffusers_alpha", "aitoolkit", "aitoolkit_alpha", "kohya",
        "kohya_fused", "comfy",           "dotted",    "default",         "peft"};
    static struct model m;
    size_t pairs = 0;
    read_model(&m);
    for (size_t i = 0; i < COUNT(layouts); i++) {
        char name[64];
        struct kiln_error err;
        struct kiln_lora_file *f;
        snprintf(name, sizeof name, "loras/%s.safetensors", layouts[i]);
        if (kiln_lora_open(golden(name), m.modules, m.count, &f, &err))
            fail_msg("%s", err.text);
        pairs = i == 0 ? kiln_lora_count(f) : pairs;
        assert_int_equal(kiln_lora_count(f), pairs);
        for (size_t k = 1; k < kiln_lora_count(f); k++)
            assert_true(kiln_lora_at(f, k - 1)->module < kiln_lora_at(f, k)->module);
        assert_null(kiln_lora_at(f, kiln_lora_count(f)));
        check_deltas(f, &m);
        kiln_lora_close(f);
    }
    assert_true(pairs > 20);
}

/* --- a model of one block, and files for it --------------------------------------------------- */

#define WIDTH 6
#define RANK 2
static const struct kiln_lora_module block[] = {
    {"layers.0.attention.to_q", WIDTH, WIDTH},
    {"layers.0.attention.to_k", WIDTH, WIDTH},
    {"layers.0.attention.to_v", WIDTH, WIDTH},
    {"layers.0.attention.to_out.0", WIDTH, WIDTH},
    {"layers.0.feed_forward.w1", 2 * WIDTH, WIDTH},
    {"context_refiner.0.feed_forward.w2", WIDTH, 8},
    {"all_x_embedder.2-1", WIDTH, 4},
    {"all_final_layer.2-1.linear", 4, WIDTH},
};

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static struct kiln_st_tensor matrix(const char *name, int64_t rows, int64_t cols)
{
    return (struct kiln_st_tensor){name,         KILN_ST_F32, 2,
                                   {rows, cols}, ones,        (size_t)(rows * cols) * 4};
}

static int open_tensors(const struct kiln_st_tensor *tensors, size_t count,
                        const char *const *metadata, struct kiln_lora_file **ret,
                        struct kiln_error *err)
{
    assert_int_equal(kiln_st_write("lora.safetensors", tensors, count, metadata, err), 0);
    return kiln_lora_open("lora.safetensors", block, COUNT(block), ret, err);
}

static void assert_refused(const struct kiln_st_tensor *tensors, size_t count,
                           const char *const *metadata, int code, const char *word)
{
    struct kiln_error err = {0};
    struct kiln_lora_file *f = NULL;
    int rc = open_tensors(tensors, count, metadata, &f, &err);
    if (rc != code || !strstr(err.text, word) || !strstr(err.text, "lora.safetensors"))
        fail_msg("expected code %d with \"%s\", got %d: %s", code, word, rc, err.text);
    assert_null(f);
}

#define A1 "diffusion_model.layers.0.attention.to_q.lora_A.weight"
#define B1 "diffusion_model.layers.0.attention.to_q.lora_B.weight"
#define ALPHA1 "diffusion_model.layers.0.attention.to_q.alpha"
#define PAIR matrix(A1, RANK, WIDTH), matrix(B1, WIDTH, RANK)

static void test_names_of_repacks_find_their_modules(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t module;
    } cases[] = {
        {"x_embedder", 6},
        {"all_x_embedder.2-1", 6},
        {"lora_unet_all_x_embedder_2-1", 6},
        {"final_layer.linear", 7},
        {"lora_unet_final_layer_linear", 7},
        {"lora_unet_layers_0_attention_out", 3},
        {"lycoris_layers_0_attention_to_out_0", 3},
        {"base_model.model.transformer.layers.0.feed_forward.w1", 4},
        {"model.diffusion_model.context_refiner.0.feed_forward.w2", 5},
        {"lora_unet_context_refiner_0_feed_forward_w2", 5},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char a[128], b[128];
        struct kiln_error err;
        struct kiln_lora_file *f;
        const struct kiln_lora_module *m = &block[cases[i].module];
        snprintf(a, sizeof a, "%s.lora_down.weight", cases[i].name);
        snprintf(b, sizeof b, "%s.lora_up.weight", cases[i].name);
        struct kiln_st_tensor tensors[] = {matrix(a, RANK, m->cols), matrix(b, m->rows, RANK)};
        if (open_tensors(tensors, 2, NULL, &f, &err))
            fail_msg("%s: %s", cases[i].name, err.text);
        assert_int_equal(kiln_lora_count(f), 1);
        assert_int_equal(kiln_lora_at(f, 0)->module, cases[i].module);
        assert_int_equal(kiln_lora_at(f, 0)->rank, RANK);
        assert_true(kiln_lora_at(f, 0)->scale == 1);
        kiln_lora_close(f);
    }
}

/* Its strength would take memory and time by the square of the rank. */
static void test_a_rank_above_the_module_is_not_measured(void **state)
{
    (void)state;
    struct kiln_lora_modules modules;
    struct kiln_lora_measure measure;
    struct kiln_error err;
    if (kiln_lora_modules_open(golden("models/plain"), &modules, &err))
        fail_msg("%s", err.text);
    const struct kiln_lora_module *m = &modules.at[0];
    const int64_t most = m->rows > m->cols ? m->rows : m->cols;
    float *zeros = calloc((size_t)((most + 1) * most), sizeof *zeros);
    assert_non_null(zeros);
    for (int64_t rank = most; rank <= most + 1; rank++) {
        char a[KILN_ST_NAME_MAX + 32], b[KILN_ST_NAME_MAX + 32];
        struct kiln_lora_file *f;
        snprintf(a, sizeof a, "%s.lora_A.weight", m->name);
        snprintf(b, sizeof b, "%s.lora_B.weight", m->name);
        struct kiln_st_tensor tensors[] = {matrix(a, rank, m->cols), matrix(b, m->rows, rank)};
        tensors[0].data = tensors[1].data = zeros;
        assert_int_equal(kiln_st_write("high.safetensors", tensors, 2, NULL, &err), 0);
        if (kiln_lora_open("high.safetensors", modules.at, modules.count, &f, &err))
            fail_msg("%s", err.text);
        assert_int_equal(kiln_lora_measure(f, &modules, &measure, &err),
                         rank > most ? KILN_UNSUPPORTED : 0);
        assert_true(rank > most ? strstr(err.text, "more than its") != NULL : measure.rank == most);
        kiln_lora_close(f);
    }
    free(zeros);
    kiln_lora_modules_close(&modules);
}

static void test_alpha_of_every_dtype(void **state)
{
    (void)state;
    static const union {
        uint8_t bytes[8];
        float f32;
        double f64;
        int64_t i64;
    } six_f32 = {.f32 = 6}, six_f64 = {.f64 = 6}, six_i64 = {.i64 = 6},
      six_f16 = {.bytes = {0x00, 0x46}}, six_bf16 = {.bytes = {0xc0, 0x40}},
      tiny_f16 = {.bytes = {0x01, 0x00}};
    const struct {
        enum kiln_st_dtype dtype;
        const void *data;
        double alpha;
    } cases[] = {
        {KILN_ST_F32, &six_f32, 6},   {KILN_ST_F64, &six_f64, 6}, {KILN_ST_F16, &six_f16, 6},
        {KILN_ST_BF16, &six_bf16, 6}, {KILN_ST_I64, &six_i64, 6}, {KILN_ST_I32, &six_i64, 6},
        {KILN_ST_U8, &six_i64, 6},    {KILN_ST_I8, &six_i64, 6},  {KILN_ST_F16, &tiny_f16, 0x1p-24},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct kiln_error err;
        struct kiln_lora_file *f;
        struct kiln_st_tensor tensors[] = {PAIR,
                                           {ALPHA1,
                                            cases[i].dtype,
                                            i % 2,
                                            {1},
                                            cases[i].data,
                                            kiln_st_dtype_size(cases[i].dtype)}};
        if (open_tensors(tensors, 3, NULL, &f, &err))
            fail_msg("%s", err.text);
        assert_true(kiln_lora_at(f, 0)->scale == cases[i].alpha / RANK);
        kiln_lora_close(f);
    }
}

static void test_alpha_of_saved_settings(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        double scale;
    } cases[] = {
        {"{}", 1},
        {"{\"transformer.lora_alpha\": 8}", 4},
        {"{\"transformer.lora_alpha\": 8, \"transformer.use_rslora\": true}", 8 / M_SQRT2},
        {"{\"transformer.lora_alpha\": 8, \"transformer.alpha_pattern\": {\"to_q\": 3}}", 1.5},
        {"{\"transformer.lora_alpha\": 8, \"transformer.alpha_pattern\": {\"o_q\": 3}}", 4},
    };
    struct kiln_st_tensor tensors[] = {PAIR};
    const char *metadata[] = {"lora_adapter_metadata", NULL, NULL};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct kiln_error err;
        struct kiln_lora_file *f;
        metadata[1] = cases[i].json;
        if (open_tensors(tensors, 2, metadata, &f, &err))
            fail_msg("%s", err.text);
        assert_true(fabs(kiln_lora_at(f, 0)->scale - cases[i].scale) < 1e-12);
        kiln_lora_close(f);
    }
    metadata[1] = "{\"transformer.alpha_pattern\": {\"to_[qk]\": 3}}";
    assert_refused(tensors, 2, metadata, KILN_UNSUPPORTED, "to_[qk]");
    char *long_text = malloc((2 << 20) + 1);
    assert_non_null(long_text);
    memset(long_text, '[', 2 << 20);
    long_text[2 << 20] = '\0';
    metadata[1] = long_text;
    assert_refused(tensors, 2, metadata, KILN_UNSUPPORTED, "lora_adapter_metadata has 2097152");
    free(long_text);
    metadata[1] = "{\"transformer.lora_alpha\": \"8\"}";
    assert_refused(tensors, 2, metadata, KILN_CORRUPT, "lora_alpha");
    metadata[1] = "[";
    assert_refused(tensors, 2, metadata, KILN_CORRUPT, "lora_adapter_metadata");
}

static void test_refuses_other_kinds_by_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"lycoris_layers_0_attention_to_q.lokr_w1", "LoKr"},
        {"layers.0.attention.to_q.hada_w1_a", "LoHa"},
        {"transformer.layers.0.attention.to_q.dora_scale", "DoRA"},
        {"layers.0.attention.to_q.lora_magnitude_vector.weight", "DoRA"},
        {"diffusion_model.layers.0.attention.to_q.diff", "full difference"},
        {"diffusion_model.layers.0.attention.to_q.diff_b", "full difference"},
        {"diffusion_model.layers.0.attention.to_q.set_weight", "replaced weight"},
        {"t_embedder_2.mlp.0.weight", "TwinFlow"},
        {"lora_te_model_layers_0_mlp_up_proj.lora_up.weight", "text encoder"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct kiln_st_tensor tensors[] = {PAIR, matrix(cases[i][0], 2, 2)};
        assert_refused(tensors, 3, NULL, KILN_UNSUPPORTED, cases[i][1]);
    }
}

static void test_counts_and_lists_unmatched_keys(void **state)
{
    (void)state;
    struct kiln_st_tensor tensors[] = {PAIR, matrix("layers.7.attention.to_q.lora_A.weight", 2, 6),
                                       matrix("layers.0.attention.to_x.alpha", 1, 1),
                                       matrix("something", 1, 1)};
    assert_refused(tensors, COUNT(tensors), NULL, KILN_BAD_INPUT,
                   "2 keys fit modules of this model, 3 do not: layers.0.attention.to_x.alpha, "
                   "layers.7.attention.to_q.lora_A.weight, something");
    assert_refused(tensors, 0, NULL, KILN_BAD_INPUT, "no tensor");

    /* A list longer than an error can hold is cut between keys; the count stays true. */
    static struct kiln_st_tensor many[200];
    static char names[200][64];
    for (size_t i = 0; i < COUNT(many); i++) {
        snprintf(names[i], sizeof names[i], "layers.%zu.unknown.lora_A.weight", i);
        many[i] = matrix(names[i], 1, 1);
    }
    assert_refused(
        many, COUNT(many), NULL, KILN_BAD_INPUT,
        "LoRA lora.safetensors is of another model: 0 keys fit modules of this model, 200");
    assert_refused(many, COUNT(many), NULL, KILN_BAD_INPUT, ".unknown.lora_A.weight, ...");
}

static void test_names_wrong_shapes(void **state)
{
    (void)state;
    struct kiln_st_tensor a = matrix(A1, RANK, WIDTH), b = matrix(B1, WIDTH, RANK);
    struct kiln_st_tensor wide[] = {matrix(A1, RANK, WIDTH + 1), b};
    assert_refused(wide, 2, NULL, KILN_BAD_INPUT,
                   "LoRA lora.safetensors is of another model: its layers_0_attention_to_q goes "
                   "from 7 values to 6, this model's from 6 to 6");
    struct kiln_st_tensor high[] = {a, matrix(B1, WIDTH + 1, RANK)};
    assert_refused(high, 2, NULL, KILN_BAD_INPUT,
                   "layers_0_attention_to_q goes from 6 values to 7");
    struct kiln_st_tensor ranks[] = {a, matrix(B1, WIDTH, RANK + 1)};
    assert_refused(ranks, 2, NULL, KILN_BAD_INPUT, "rank 2 in A and 3 in B");
    struct kiln_st_tensor none[] = {matrix(A1, 0, WIDTH), matrix(B1, WIDTH, 0)};
    assert_refused(none, 2, NULL, KILN_BAD_INPUT, "rank 0");
    struct kiln_st_tensor cube[] = {{A1, KILN_ST_F32, 3, {1, RANK, WIDTH}, ones, 48}, b};
    assert_refused(cube, 2, NULL, KILN_BAD_INPUT, "3 dimensions");
    struct kiln_st_tensor eight[] = {{A1, KILN_ST_F8_E4M3, 2, {RANK, WIDTH}, ones, 12}, b};
    assert_refused(eight, 2, NULL, KILN_UNSUPPORTED, "F8_E4M3");
    assert_refused(&a, 1, NULL, KILN_BAD_INPUT, "no lora_B (up)");
    assert_refused(&b, 1, NULL, KILN_BAD_INPUT, "no lora_A (down)");
    struct kiln_st_tensor alpha = {ALPHA1, KILN_ST_F32, 0, {0}, ones, 4};
    assert_refused(&alpha, 1, NULL, KILN_BAD_INPUT, "only an alpha");
}

static void test_names_bad_values(void **state)
{
    (void)state;
    static const uint16_t bf16_nan[12] = {[11] = 0x7fc1}, f16_infinity[12] = {[3] = 0xfc00};
    static const float f32_nan[12] = {[5] = NAN};
    const struct kiln_st_tensor bad[] = {{A1, KILN_ST_BF16, 2, {RANK, WIDTH}, bf16_nan, 24},
                                         {A1, KILN_ST_F16, 2, {RANK, WIDTH}, f16_infinity, 24},
                                         {A1, KILN_ST_F32, 2, {RANK, WIDTH}, f32_nan, 48}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct kiln_st_tensor tensors[] = {bad[i], matrix(B1, WIDTH, RANK)};
        assert_refused(tensors, 2, NULL, KILN_BAD_INPUT, "NaN or infinity");
    }
    struct kiln_st_tensor two[] = {PAIR, {ALPHA1, KILN_ST_F32, 1, {2}, ones, 8}};
    assert_refused(two, 3, NULL, KILN_BAD_INPUT, "not one finite number");
    struct kiln_st_tensor nan[] = {PAIR, {ALPHA1, KILN_ST_F32, 0, {0}, f32_nan + 5, 4}};
    assert_refused(nan, 3, NULL, KILN_BAD_INPUT, "not one finite number");
}

static void test_refuses_one_module_twice(void **state)
{
    (void)state;
    struct kiln_st_tensor spelled[] = {
        PAIR, matrix("lora_unet_layers_0_attention_to_q.lora_down.weight", RANK, WIDTH)};
    assert_refused(spelled, 3, NULL, KILN_BAD_INPUT, "mean the same");
    struct kiln_st_tensor part[] = {
        PAIR, matrix("layers.0.attention.qkv.lora_A.weight", RANK, WIDTH),
        matrix("layers.0.attention.qkv.lora_B.weight", 3 * WIDTH, RANK)};
    assert_refused(part, 4, NULL, KILN_BAD_INPUT, "as a whole and again in part");
}

/* The rows of a fused B go to q, k and v in this order, in any dtype. */
static void test_splits_a_fused_pair_by_rows(void **state)
{
    (void)state;
    uint16_t b[3 * WIDTH * RANK], a[RANK * WIDTH] = {0};
    for (size_t i = 0; i < COUNT(b); i++)
        b[i] = (uint16_t)(0x3f80 + i); /* bf16, near 1 */
    struct kiln_st_tensor tensors[] = {
        {"layers.0.attention.qkv.lora_A.weight", KILN_ST_BF16, 2, {RANK, WIDTH}, a, sizeof a},
        {"layers.0.attention.qkv.lora_B.weight", KILN_ST_BF16, 2, {3 * WIDTH, RANK}, b, sizeof b}};
    struct kiln_lora_file *f;
    assert_int_equal(open_tensors(tensors, 2, NULL, &f, NULL), 0);
    assert_int_equal(kiln_lora_count(f), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct kiln_lora_pair *p = kiln_lora_at(f, i);
        assert_int_equal(p->module, i);
        assert_int_equal(p->b_dtype, KILN_ST_BF16);
        assert_memory_equal(p->b, b + i * WIDTH * RANK, WIDTH * RANK * sizeof *b);
        assert_ptr_equal(p->a, kiln_lora_at(f, 0)->a);
    }
    kiln_lora_close(f);
}

static void test_passes_on_what_the_file_reader_says(void **state)
{
    (void)state;
    struct kiln_error err;
    struct kiln_lora_file *f = NULL;
    assert_int_equal(kiln_lora_open("none.safetensors", block, COUNT(block), &f, &err),
                     KILN_NOT_FOUND);
    FILE *file = fopen("junk.safetensors", "w");
    assert_non_null(file);
    fputs("PK\3\4 this is a zip archive with a pickle in it", file);
    fclose(file);
    assert_int_equal(kiln_lora_open("junk.safetensors", block, COUNT(block), &f, &err),
                     KILN_CORRUPT);
    assert_null(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout_gives_the_same_deltas),
        cmocka_unit_test(test_names_of_repacks_find_their_modules),
        cmocka_unit_test(test_a_rank_above_the_module_is_not_measured),
        cmocka_unit_test(test_alpha_of_every_dtype),
        cmocka_unit_test(test_alpha_of_saved_settings),
        cmocka_unit_test(test_refuses_other_kinds_by_name),
        cmocka_unit_test(test_counts_and_lists_unmatched_keys),
        cmocka_unit_test(test_names_wrong_shapes),
        cmocka_unit_test(test_names_bad_values),
        cmocka_unit_test(test_refuses_one_module_twice),
        cmocka_unit_test(test_splits_a_fused_pair_by_rows),
        cmocka_unit_test(test_passes_on_what_the_file_reader_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
