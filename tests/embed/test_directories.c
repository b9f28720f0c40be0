/* test_directories.c - embedder directories in other spellings, and directories that lie: each is
 * refused with the name of the part, and nothing is read out of bounds.
 */
#include "tests/embed/golden_files.h"

#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/embed/embedder.h"
#include "pipeline/embed/table.h"
#include "pipeline/embed/tokens/subwords.h"

/* --- a directory to change -------------------------------------------------------------------- */

static void copy(const char *from, const char *name)
{
    char path[256], *bytes;
    size_t size;
    struct kiln_error err;
    snprintf(path, sizeof path, "%s/%s", from, name);
    if (kiln_regular_read(golden(path), 64 << 20, &bytes, &size, &err))
        return; /* not every checkpoint has every file */
    snprintf(path, sizeof path, "copy/%s", name);
    write_file(path, bytes, size);
    free(bytes);
}

/* A copy of a golden checkpoint in copy/. */
static void copy_checkpoint(const char *name)
{
    static const char *const files[] = {"config.json",
                                        "model.safetensors",
                                        "modules.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "sentence_bert_config.json",
                                        "config_sentence_transformers.json",
                                        "1_Pooling/config.json"};
    mkdir("copy", 0700);
    mkdir("copy/1_Pooling", 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "copy/%s", files[i]);
        unlink(path);
        copy(name, files[i]);
    }
}

/* Puts value (JSON) at a place such as "model.vocab"; "+" appends, NULL removes. */
static void change(const char *file, const char *place, const char *value)
{
    char path[128], keys[128], *save = NULL;
    snprintf(path, sizeof path, "copy/%s", file);
    snprintf(keys, sizeof keys, "%s", place);
    json_t *root = json_load_file(path, 0, NULL), *at = root;
    assert_non_null(root);
    char *last = strrchr(keys, '.');
    if (last)
        *last++ = '\0';
    for (char *key = last ? strtok_r(keys, ".", &save) : NULL; key;
         key = strtok_r(NULL, ".", &save))
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
    const char *key = last ? last : keys;
    json_t *json = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_non_null(at);
    if (!value)
        json_object_del(at, key);
    else if (strcmp(key, "+") == 0)
        json_array_append_new(at, json);
    else if (json_is_array(at))
        json_array_set_new(at, (size_t)atoi(key), json);
    else
        json_object_set_new(at, key, json);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
}

static void assert_refused(int code, const char *word)
{
    struct kiln_embedder *e = NULL;
    struct kiln_error err = {0};
    const int rc = kiln_embedder_open("copy", NULL, &e, &err);
    if (rc != code || !strstr(err.text, word))
        fail_msg("expected code %d with \"%s\", got %d: %s", code, word, rc, err.text);
    assert_null(e);
}

static struct kiln_embedder *open_copy(void)
{
    struct kiln_embedder *e = NULL;
    struct kiln_error err;
    if (kiln_embedder_open("copy", NULL, &e, &err))
        fail_msg("%s", err.text);
    return e;
}

/* --- what is refused -------------------------------------------------------------------------- */

struct wrong {
    const char *file, *place, *value;
    int code;
    const char *word;
};

static void refuse_all(const char *checkpoint, const struct wrong *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        copy_checkpoint(checkpoint);
        change(cases[i].file, cases[i].place, cases[i].value);
        assert_refused(cases[i].code, cases[i].word);
    }
}

static void test_unknown_parts_are_refused_by_name(void **state)
{
    (void)state;
    static const struct wrong cases[] = {
        {"modules.json", "+", "{\"type\": \"a.models.Dense\", \"path\": \"2_Dense\"}",
         KILN_UNSUPPORTED, "Dense"},
        {"modules.json", "+", "{\"type\": \"a.models.Pooling\", \"path\": \"2_Pooling\"}",
         KILN_UNSUPPORTED, "two modules Pooling"},
        {"modules.json", "0", "{\"type\": \"a.models.Normalize\", \"path\": \"\"}",
         KILN_UNSUPPORTED, "neither"},
        {"modules.json", "1.path", "\"../1_Pooling\"", KILN_CORRUPT, "../1_Pooling"},
        {"modules.json", "1.path", "\"none\"", KILN_CORRUPT, "none"},
        {"modules.json", "1.type", "3", KILN_CORRUPT, "no type"},
        {"1_Pooling/config.json", "pooling_mode_max_tokens", "true", KILN_UNSUPPORTED,
         "max_tokens"},
        {"1_Pooling/config.json", "pooling_mode_cls_token", "true", KILN_UNSUPPORTED, "together"},
        {"1_Pooling/config.json", "pooling_mode_mean_tokens", "false", KILN_UNSUPPORTED, "none"},
        {"1_Pooling/config.json", "pooling_mode", "\"lasttoken\"", KILN_UNSUPPORTED, "lasttoken"},
        {"1_Pooling/config.json", "pooling_mode", "[\"cls\", \"mean\"]", KILN_UNSUPPORTED,
         "pooling"},
        {"1_Pooling/config.json", "include_prompt", "false", KILN_UNSUPPORTED, "include_prompt"},
        {"config.json", "model_type", "\"mpnet\"", KILN_UNSUPPORTED, "mpnet"},
        {"config.json", "hidden_act", "\"relu\"", KILN_UNSUPPORTED, "relu"},
        {"config.json", "position_embedding_type", "\"relative_key\"", KILN_UNSUPPORTED,
         "relative_key"},
        {"sentence_bert_config.json", "do_lower_case", "true", KILN_UNSUPPORTED, "do_lower_case"},
        {"tokenizer_config.json", "do_lower_case", "false", KILN_CORRUPT, "do_lower_case"},
        {"tokenizer.json", "normalizer.type", "\"NFKC\"", KILN_UNSUPPORTED, "NFKC"},
        {"tokenizer.json", "pre_tokenizer.type", "\"Digits\"", KILN_UNSUPPORTED, "Digits"},
        {"tokenizer.json", "post_processor.type", "\"ByteLevel\"", KILN_UNSUPPORTED, "ByteLevel"},
        {"tokenizer.json", "model.type", "\"BPE\"", KILN_UNSUPPORTED, "BPE"},
        {"tokenizer.json", "added_tokens.0.single_word", "true", KILN_UNSUPPORTED, "single_word"},
        {"tokenizer.json", "post_processor.single", "[]", KILN_UNSUPPORTED, "0 times"},
        {"tokenizer.json", "post_processor.special_tokens", "{}", KILN_CORRUPT, "[CLS]"},
    };
    refuse_all("minilm", cases, sizeof cases / sizeof *cases);
}

static void test_sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct wrong cases[] = {
        {"config.json", "hidden_size", "0", KILN_UNSUPPORTED, "hidden_size"},
        {"config.json", "hidden_size", "1000000000000", KILN_UNSUPPORTED, "hidden_size"},
        {"config.json", "hidden_size", "\"48\"", KILN_UNSUPPORTED, "hidden_size"},
        {"config.json", "hidden_size", "52", KILN_CORRUPT, "word_embeddings"},
        {"config.json", "num_attention_heads", "5", KILN_CORRUPT, "multiple"},
        {"config.json", "num_attention_heads", "-4", KILN_UNSUPPORTED, "num_attention_heads"},
        {"config.json", "num_hidden_layers", "3", KILN_CORRUPT, "encoder.layer.2"},
        {"config.json", "num_hidden_layers", "49", KILN_UNSUPPORTED, "num_hidden_layers"},
        {"config.json", "intermediate_size", "81", KILN_CORRUPT, "intermediate"},
        {"config.json", "max_position_embeddings", "65", KILN_CORRUPT, "position_embeddings"},
        {"config.json", "layer_norm_eps", "2", KILN_CORRUPT, "layer_norm_eps"},
        {"tokenizer.json", "model.vocab.zzz", "1048576", KILN_CORRUPT, "zzz"},
        {"tokenizer.json", "model.vocab.zzz", "-1", KILN_CORRUPT, "zzz"},
        {"tokenizer.json", "model.vocab.zzz", "900000", KILN_CORRUPT, "word embeddings"},
        {"tokenizer.json", "model.vocab", "{}", KILN_CORRUPT, "0 pieces"},
        {"tokenizer.json", "model.vocab", "3", KILN_CORRUPT, "pieces"},
        {"tokenizer.json", "model", NULL, KILN_CORRUPT, "no model"},
        {"tokenizer.json", "added_tokens.0.id", "900000", KILN_CORRUPT, "word embeddings"},
        {"tokenizer.json", "added_tokens.0.id", "-3", KILN_CORRUPT, "added token"},
        {"tokenizer.json", "added_tokens", "{}", KILN_CORRUPT, "added tokens"},
        {"tokenizer.json", "post_processor.special_tokens.[CLS].ids", "[-1]", KILN_CORRUPT,
         "template"},
    };
    refuse_all("minilm", cases, sizeof cases / sizeof *cases);
    copy_checkpoint("minilm");
    write_file("copy/tokenizer.json", "{\"a\": [", 7);
    assert_refused(KILN_CORRUPT, "tokenizer.json:1");
    write_file("copy/config.json", "[]", 2);
    assert_refused(KILN_CORRUPT, "config.json");
    unlink("copy/model.safetensors");
    copy("minilm", "config.json");
    assert_refused(KILN_NOT_FOUND, "model.safetensors");
}

static void test_unigram_files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct wrong cases[] = {
        {"tokenizer.json", "model.vocab.+", "[\"a\", 1e300]", KILN_CORRUPT, "score"},
        {"tokenizer.json", "model.vocab.+", "[\"a\"]", KILN_CORRUPT, "score"},
        {"tokenizer.json", "model.vocab.+", "3", KILN_CORRUPT, "score"},
        {"tokenizer.json", "model.unk_id", "900000", KILN_CORRUPT, "unk_id"},
        {"tokenizer.json", "model.byte_fallback", "true", KILN_UNSUPPORTED, "byte_fallback"},
        {"tokenizer.json", "pre_tokenizer.pretokenizers.1.prepend_scheme", "\"first\"",
         KILN_UNSUPPORTED, "first"},
        {"tokenizer.json", "pre_tokenizer.pretokenizers.1.replacement", "\"_\"", KILN_UNSUPPORTED,
         "replacement"},
        {"tokenizer.json", "normalizer",
         "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAAAA==\"}", KILN_CORRUPT,
         "character map"},
        {"tokenizer.json", "normalizer",
         "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"/////w==\"}", KILN_CORRUPT,
         "character map"},
        {"tokenizer.json", "normalizer",
         "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"a b\"}", KILN_CORRUPT,
         "character map"},
        {"tokenizer.json", "normalizer",
         "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a+\"}, \"content\": \"\"}",
         KILN_UNSUPPORTED, "a+"},
        {"tokenizer.json", "normalizer",
         "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"a\"}",
         KILN_UNSUPPORTED, "pattern"},
    };
    refuse_all("multilingual-e5-tiny", cases, sizeof cases / sizeof *cases);
}

/* A text that each of many steps makes longer is cut off, not computed. */
static void test_texts_cannot_grow_without_end(void **state)
{
    (void)state;
    struct kiln_error err;
    float row[KILN_EMBED_DIMS_MAX];
    copy_checkpoint("multilingual-e5-tiny");
    change("tokenizer.json", "normalizer", "{\"type\": \"Sequence\", \"normalizers\": []}");
    for (int i = 0; i < 40; i++)
        change("tokenizer.json", "normalizer.normalizers.+",
               "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaa\"}");
    struct kiln_embedder *e = open_copy();
    assert_int_equal(
        kiln_embedder_embed(e, KILN_EMBED_QUERY, &(struct kiln_embed_text){"a", 1}, 1, row, &err),
        KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "grows"));
    kiln_embedder_close(e);
}

/* --- static tables ---------------------------------------------------------------------------- */

static void write_table(const struct kiln_st_tensor *tensors, size_t count)
{
    struct kiln_error err;
    copy_checkpoint("potion");
    if (kiln_st_write("copy/model.safetensors", tensors, count, NULL, &err))
        fail_msg("%s", err.text);
}

static void test_tables_that_lie_are_refused(void **state)
{
    (void)state;
    enum { ROWS = 2000, WIDTH = 4 };
    static float values[ROWS * WIDTH];
    static int32_t mapping[ROWS];
    struct kiln_embedder *e;
    struct kiln_error err;
    float row[WIDTH];
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        values[i] = (float)(i % 7) - 3;
    struct kiln_st_tensor table = {"embeddings",  KILN_ST_F32, 2,
                                   {ROWS, WIDTH}, values,      sizeof values};
    struct kiln_st_tensor map = {"mapping", KILN_ST_I32, 1, {ROWS}, mapping, sizeof mapping};
    write_table(&table, 1);
    kiln_embedder_close(open_copy());

    table.shape[0] = 100, table.size = 100 * WIDTH * sizeof *values;
    write_table(&table, 1);
    assert_refused(KILN_CORRUPT, "ids up to");
    struct kiln_st_tensor both[] = {table, map};
    mapping[1999] = 100;
    write_table(both, 2);
    assert_refused(KILN_CORRUPT, "row 100 of 100");
    mapping[1999] = -1;
    write_table(both, 2);
    assert_refused(KILN_CORRUPT, "row -1");
    mapping[1999] = 99;
    write_table(both, 2);
    kiln_embedder_close(open_copy());
    both[1].dtype = KILN_ST_F32;
    write_table(both, 2);
    assert_refused(KILN_UNSUPPORTED, "mapping");

    table.ndim = 1, table.shape[0] = 100 * WIDTH;
    write_table(&table, 1);
    assert_refused(KILN_CORRUPT, "embeddings");
    table = (struct kiln_st_tensor){"embeddings", KILN_ST_I64, 2,
                                    {100, 2},     values,      100 * 2 * sizeof(int64_t)};
    write_table(&table, 1);
    assert_refused(KILN_UNSUPPORTED, "I64");
    table.name = "others";
    write_table(&table, 1);
    assert_refused(KILN_CORRUPT, "embedding.weight");

    table =
        (struct kiln_st_tensor){"embeddings", KILN_ST_F32, 2, {ROWS, WIDTH}, values, sizeof values};
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        values[i] = NAN;
    write_table(&table, 1);
    e = open_copy();
    assert_int_equal(
        kiln_embedder_embed(e, KILN_EMBED_QUERY, &(struct kiln_embed_text){"red", 3}, 1, row, &err),
        KILN_CORRUPT);
    assert_non_null(strstr(err.text, "not finite"));
    kiln_embedder_close(e);
}

/* A table too large for memory gives the same rows, and an error once its file is cut short. */
static void test_large_tables_are_read_row_by_row(void **state)
{
    (void)state;
    const size_t width = 48, rows = KILN_TABLE_MEMORY_MAX / (width * sizeof(float)) + 1;
    float *values = malloc(rows * width * sizeof *values), small[48], large[48];
    struct kiln_error err;
    const struct kiln_embed_text text = {"a red star", 10};
    assert_non_null(values);
    for (size_t i = 0; i < rows * width; i++)
        values[i] = (float)(i * 2654435761u % 1000) - 500;
    for (int is_large = 0; is_large < 2; is_large++) {
        const size_t count = is_large ? rows : 2000;
        const struct kiln_st_tensor table = {"embeddings",
                                             KILN_ST_F32,
                                             2,
                                             {(int64_t)count, (int64_t)width},
                                             values,
                                             count * width * sizeof *values};
        write_table(&table, 1);
        struct kiln_embedder *e = open_copy();
        assert_int_equal(
            kiln_embedder_embed(e, KILN_EMBED_QUERY, &text, 1, is_large ? large : small, &err), 0);
        if (is_large) {
            assert_memory_equal(small, large, sizeof small);
            assert_int_equal(truncate("copy/model.safetensors", 1000), 0);
            assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, &text, 1, large, &err),
                             KILN_CORRUPT);
            assert_non_null(strstr(err.text, "cut short"));
        }
        kiln_embedder_close(e);
    }
    free(values);
}

/* --- promises --------------------------------------------------------------------------------- */

static void test_texts_without_evidence_give_zeros(void **state)
{
    (void)state;
    static const char *const names[] = {"potion", "static", "minilm", "multilingual-e5-tiny"};
    static const char unknown[] = "\xf0\x93\x80\x80 \xf0\x93\x80\x81"; /* hieroglyphs */
    const struct kiln_embed_text texts[] = {
        {"", 0}, {" \t\n", 3}, {unknown, sizeof unknown - 1}, {"red", 3}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kiln_embedder *e;
        struct kiln_error err;
        float rows[4 * 48];
        assert_int_equal(kiln_embedder_open(golden(names[i]), NULL, &e, &err), 0);
        assert_int_equal(kiln_embedder_info(e)->dims, 48);
        assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, texts, 4, rows, &err), 0);
        for (size_t t = 0; t < 4; t++) {
            float size = 0;
            for (size_t d = 0; d < 48; d++)
                size += rows[t * 48 + d] * rows[t * 48 + d];
            assert_true(t < 3 ? size == 0 : fabsf(size - 1) < 1e-5f);
        }
        kiln_embedder_close(e);
    }
}

static void test_bad_texts_are_named(void **state)
{
    (void)state;
    struct kiln_embedder *e;
    struct kiln_error err;
    float rows[2 * 48];
    static char longest[KILN_EMBED_TEXT_MAX + 1];
    memset(longest, 'a', sizeof longest);
    assert_int_equal(kiln_embedder_open(golden("potion"), NULL, &e, &err), 0);
    struct kiln_embed_text texts[] = {{"red", 3}, {"a\xc3", 2}};
    assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, texts, 2, rows, &err),
                     KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "text 1"));
    texts[1] = (struct kiln_embed_text){longest, sizeof longest};
    assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, texts, 2, rows, &err),
                     KILN_BAD_INPUT);
    texts[1].len--;
    assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, texts, 2, rows, &err), 0);
    assert_int_equal(kiln_embedder_embed(e, KILN_EMBED_QUERY, NULL, 0, NULL, &err), 0);
    kiln_embedder_close(e);
}

static void recipe_of(const struct kiln_embed_options *options, char *out)
{
    struct kiln_embedder *e;
    struct kiln_error err;
    if (kiln_embedder_open("copy", options, &e, &err))
        fail_msg("%s", err.text);
    snprintf(out, KILN_EMBED_RECIPE_SIZE, "%s", kiln_embedder_info(e)->recipe);
    kiln_embedder_close(e);
}

/* The recipe changes with whatever changes vectors, and with nothing else. */
static void test_recipes_name_what_matters(void **state)
{
    (void)state;
    char first[KILN_EMBED_RECIPE_SIZE], other[KILN_EMBED_RECIPE_SIZE];
    copy_checkpoint("minilm");
    recipe_of(NULL, first);
    assert_int_equal(strncmp(first, "bert-48-", 8), 0);
    assert_int_equal(strlen(first), 8 + 32);
    recipe_of(&(struct kiln_embed_options){.query_prefix = "", .passage_prefix = ""}, other);
    assert_string_equal(first, other);
    recipe_of(&(struct kiln_embed_options){.query_prefix = "query: "}, other);
    assert_string_not_equal(first, other);
    change("config.json", "_name_or_path", "\"elsewhere\"");
    recipe_of(NULL, other);
    assert_string_equal(first, other);
    change("sentence_bert_config.json", "max_seq_length", "20");
    recipe_of(NULL, other);
    assert_string_not_equal(first, other);
    change("sentence_bert_config.json", "max_seq_length", "24");
    change("tokenizer.json", "model.max_input_chars_per_word", "90");
    recipe_of(NULL, other);
    assert_string_not_equal(first, other);
}

/* --- tokenizers in other spellings ------------------------------------------------------------ */

static void test_tokenizers_of_older_releases(void **state)
{
    (void)state;
    static const char text[] = "a crimson disc, [SEP] and 3 stars";
    struct kiln_ids expected = {0}, ids = {0};
    struct kiln_subwords *s;
    struct kiln_error err;
    for (int variant = 0; variant < 3; variant++) {
        copy_checkpoint("minilm");
        if (variant == 1)
            change(
                "tokenizer.json", "post_processor",
                "{\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 3], \"cls\": [\"[CLS]\", 2]}");
        if (variant == 2)
            change("tokenizer.json", "model.type", NULL);
        assert_int_equal(kiln_subwords_open("copy/tokenizer.json", &s, &err), 0);
        struct kiln_ids *into = variant ? &ids : &expected;
        into->count = 0;
        assert_int_equal(kiln_subwords_encode(s, text, sizeof text - 1, true, SIZE_MAX, into, &err),
                         0);
        if (variant) {
            assert_int_equal(ids.count, expected.count);
            assert_memory_equal(ids.at, expected.at, ids.count * sizeof *ids.at);
        }
        kiln_subwords_free(s);
    }
    assert_int_equal(expected.at[0], 2);
    assert_int_equal(expected.at[expected.count - 1], 3);
    free(expected.at);
    free(ids.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_parts_are_refused_by_name),
        cmocka_unit_test(test_sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(test_unigram_files_that_lie_are_refused),
        cmocka_unit_test(test_texts_cannot_grow_without_end),
        cmocka_unit_test(test_tables_that_lie_are_refused),
        cmocka_unit_test(test_large_tables_are_read_row_by_row),
        cmocka_unit_test(test_texts_without_evidence_give_zeros),
        cmocka_unit_test(test_bad_texts_are_named),
        cmocka_unit_test(test_recipes_name_what_matters),
        cmocka_unit_test(test_tokenizers_of_older_releases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
