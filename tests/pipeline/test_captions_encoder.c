/* test_captions_encoder.c - the features of a caption's own tokens (diffusionz_captions.h) are
 * diffusers' text features without those of the chat template.
 */
#include <math.h>
#include <string.h>

#include "pipeline/diffusionz_batch.h"
#include "pipeline/diffusionz_captions.h"
#include "pipeline/embed/captions/library.h"
#include "pipeline/embed/captions/token_rows.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/tokens.h"
#include "tests/support/process.h"

#define TOKENS_MAX 512

static DiffusionZCaptions *open_captions(const char *model)
{
    DiffusionZCaptions *c = NULL;
    if (diffusionz_captions_open(golden(model), 1, &c))
        fail_msg("%s", diffusionz_last_error());
    return c;
}

/* Where the text's own ids are among those of the wrapped prompt, and how many they are. */
static size_t find_own(const json_t *item, const int32_t *wrapped, size_t count, size_t *ret_own)
{
    char dir[128];
    const json_t *prompt = json_object_get(item, "prompt");
    snprintf(dir, sizeof dir, "%s/tokenizer", json_string_value(json_object_get(item, "model")));
    struct kiln_tokenizer *t = open_tokenizer(golden(dir));
    int32_t *own;
    assert_int_equal(kiln_tokenizer_encode(t, json_string_value(prompt), json_string_length(prompt),
                                           true, &own, ret_own, NULL),
                     0);
    size_t at = 0;
    while (at + *ret_own <= count && memcmp(wrapped + at, own, *ret_own * sizeof *own) != 0)
        at++;
    assert_true(at + *ret_own <= count);
    free(own);
    kiln_tokenizer_free(t);
    return at;
}

static void compare_case(const json_t *item)
{
    DiffusionZCaptions *c = open_captions(json_string_value(json_object_get(item, "model")));
    const json_t *prompt = json_object_get(item, "prompt");
    struct kiln_st *st;
    assert_int_equal(
        kiln_st_open(golden(json_string_value(json_object_get(item, "vectors"))), &st, NULL), 0);
    const struct kiln_st_tensor *t = kiln_st_find(st, "text_features");
    const struct kiln_st_tensor *ids = kiln_st_find(st, "token_ids");
    assert_true(t && ids);
    const int64_t count = t->shape[0], width = t->shape[1];
    int32_t wrapped[TOKENS_MAX];
    size_t own;
    assert_true(count <= TOKENS_MAX && ids->size == (size_t)count * sizeof *wrapped);
    memcpy(wrapped, ids->data, ids->size);
    const int64_t before = (int64_t)find_own(item, wrapped, (size_t)count, &own);
    assert_int_equal(diffusionz_captions_width(c), width);
    float *features = malloc(TOKENS_MAX * (size_t)width * sizeof *features);
    int32_t tokens = -1;
    if (diffusionz_captions_encode(c, json_string_value(prompt), json_string_length(prompt),
                                   features, TOKENS_MAX, &tokens))
        fail_msg("%s", diffusionz_last_error());
    assert_int_equal(tokens, own);
    float largest = 0, off = 0;
    for (int64_t i = 0; i < tokens * width; i++) {
        float expected;
        memcpy(&expected, (const float *)t->data + before * width + i, sizeof expected);
        largest = fmaxf(largest, fabsf(expected));
        off = fmaxf(off, fabsf(expected - features[i]));
    }
    assert_true(tokens == 0 || off <= 1e-4f * largest);
    const int32_t all = tokens;
    assert_int_equal(diffusionz_captions_encode(c, json_string_value(prompt),
                                                json_string_length(prompt), features, 1, &tokens),
                     0);
    assert_int_equal(tokens, all > 0 ? 1 : 0);
    free(features);
    kiln_st_close(st);
    diffusionz_captions_free(c);
}

static void test_features_are_those_of_diffusers(void **state)
{
    (void)state;
    json_t *root = json_load_file(golden("cases.json"), 0, NULL);
    const json_t *cases = json_object_get(root, "cases");
    size_t compared = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *item = json_array_get(cases, i);
        const char *model = json_string_value(json_object_get(item, "model"));
        if (!json_object_get(item, "loras") || json_array_size(json_object_get(item, "loras")) == 0)
            if (strcmp(model, "models/plain") == 0 ||
                strcmp(json_string_value(json_object_get(item, "name")), "fused") == 0) {
                compare_case(item);
                compared++;
            }
    }
    assert_true(compared >= 2);
    json_decref(root);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    DiffusionZCaptions *c = NULL;
    float feature[4096];
    int32_t tokens;
    assert_int_not_equal(diffusionz_captions_open("none", 1, &c), 0);
    assert_null(c);
    assert_non_null(strstr(diffusionz_last_error(), "none"));
    assert_int_not_equal(diffusionz_captions_open(NULL, 1, &c), 0);
    c = open_captions("models/plain");
    assert_int_not_equal(diffusionz_captions_encode(c, "\xff", 1, feature, 1, &tokens), 0);
    assert_int_equal(diffusionz_captions_encode(c, "", 0, feature, 1, &tokens), 0);
    assert_int_equal(tokens, 0);
    assert_int_equal(strlen(diffusionz_captions_model(c)), 16);
    diffusionz_captions_free(c);
}

/* How well the tokens of a query are found in those of a line. */
static float token_score(const struct kiln_embedder *e, const char *query, const char *line)
{
    enum { TOKENS = KILN_TOKEN_ROWS_MAX, DIMS = 512 };
    static float row[DIMS], features[TOKENS * DIMS];
    static uint8_t stored[4 + TOKENS * (8 + DIMS)];
    const struct kiln_embed_text asked = {query, strlen(query)}, said = {line, strlen(line)};
    const size_t dims = kiln_embedder_info(e)->token_dims;
    struct kiln_token_query *q;
    struct kiln_error err;
    size_t count;
    assert_true(dims >= 1 && dims <= DIMS);
    assert_int_equal(kiln_embedder_embed_tokens(e, KILN_EMBED_PASSAGE, &said, row, features, TOKENS,
                                                &count, &err),
                     0);
    const size_t size = kiln_token_rows_size(count, dims);
    kiln_token_rows_encode(features, count, dims, stored);
    assert_int_equal(kiln_embedder_embed_tokens(e, KILN_EMBED_QUERY, &asked, row, features, TOKENS,
                                                &count, &err),
                     0);
    assert_int_equal(kiln_token_query_new(features, count, dims, &q, &err), 0);
    const float score = kiln_token_query_score(q, stored, size);
    kiln_token_query_free(q);
    return score;
}

/* As the gallery does: the library by dlopen, the demo model, and the fit and head beside it. */
static void test_the_demo_model_is_searched_by_its_captions(void **state)
{
    (void)state;
    char library[4096], model[4096], fit[4200], head[4200];
    snprintf(model, sizeof model, "%s", golden("../../pipeline/models/sketch"));
    snprintf(fit, sizeof fit, "%s/" KILN_CAPTION_FIT_NAME, model);
    snprintf(head, sizeof head, "%s/" KILN_CAPTION_HEAD_NAME, model);
    assert_true(kiln_test_built("libdiffusionz.so", library, sizeof library));
    struct kiln_caption_encoder encoder;
    struct kiln_embedder *e;
    struct kiln_error err;
    assert_int_equal(kiln_caption_library_open("./none.so", model, 1, &encoder, &err),
                     KILN_UNAVAILABLE);
    assert_int_not_equal(kiln_caption_library_open(library, "./none", 1, &encoder, &err), 0);
    if (kiln_caption_library_open(library, model, 1, &encoder, &err) ||
        kiln_captions_open(&encoder, fit, head, &e, &err))
        fail_msg("%s", err.text);
    static const char *const lines[] = {"a crimson disc on grass", "red circle, a meadow",
                                        "a blue star at night", ""};
    struct kiln_embed_text texts[4];
    const size_t dims = kiln_embedder_info(e)->dims;
    float rows[4 * 512];
    assert_true(dims <= 512);
    for (size_t i = 0; i < 4; i++)
        texts[i] = (struct kiln_embed_text){lines[i], strlen(lines[i])};
    assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, texts, 4, rows, &err), 0);
    float alike = 0, other = 0, none = 0;
    for (size_t d = 0; d < dims; d++) {
        alike += rows[d] * rows[dims + d];
        other += rows[d] * rows[2 * dims + d];
        none += fabsf(rows[3 * dims + d]);
    }
    assert_true(alike > other + 0.2f);
    assert_true(none == 0);
    assert_true(kiln_embedder_info(e)->learned);
    const float right = token_score(e, "a crimson disc", lines[1]);
    assert_true(right > token_score(e, "a crimson disc", lines[2]) + 0.2f);
    assert_true(right > token_score(e, "a crimson disc", "a red star and a blue circle") + 0.02f);
    kiln_embedder_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_are_those_of_diffusers),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_the_demo_model_is_searched_by_its_captions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
