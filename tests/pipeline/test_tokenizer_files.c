/* test_tokenizer_files.c - tokenizer files in the spellings of other releases, and files that lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/pipeline/tokens.h"
#include "tests/support/files.h"

static void assert_open_fails(const char *dir, int code, const char *word)
{
    struct kiln_error err = {0};
    struct kiln_tokenizer *t = NULL;
    int rc = kiln_tokenizer_open(dir, &t, &err);
    if (rc != code || !strstr(err.text, word))
        fail_msg("expected code %d with \"%s\", got %d: %s", code, word, rc, err.text);
    assert_null(t);
}

/* What sits at a path of keys and indexes, such as "pre_tokenizer.pretokenizers.0". */
static json_t *at_path(json_t *root, const char *path)
{
    char copy[128], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strtok_r(copy, ".", &save); key && root; key = strtok_r(NULL, ".", &save))
        root = json_is_array(root) ? json_array_get(root, (size_t)atoi(key))
                                   : json_object_get(root, key);
    return root;
}

/* Parts of a tokenizer.json, as JSON. */
#define TEXT "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define TEMPLATE(single)                                                                           \
    "{\"type\": \"TemplateProcessing\", \"single\": " single ", \"pair\": [], "                    \
    "\"special_tokens\": {}}"
#define SEQUENCE(list, steps) "{\"type\": \"Sequence\", \"" list "\": [" steps "]}"
#define BYTES                                                                                      \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "              \
    "\"use_regex\": false}"

/* Puts value (JSON) under the key of the place; key "+" appends, value NULL removes. */
static void change(json_t *root, const char *path, const char *key, const char *value)
{
    json_t *place = at_path(root, path), *json = NULL;
    assert_non_null(place);
    if (!value) {
        assert_int_equal(json_object_del(place, key), 0);
        return;
    }
    json = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    assert_int_equal(strcmp(key, "+") == 0 ? json_array_append_new(place, json)
                                           : json_object_set_new(place, key, json),
                     0);
}

static const char odd_text[] = "don't (foo)\r\n\n!! a<|im_end|> b  cafe\xcc\x81 \xe5\xa4\x9c 12";

static void encode_odd(const char *dir, int32_t **ret_ids, size_t *ret_count)
{
    struct kiln_tokenizer *t = open_tokenizer(dir);
    assert_int_equal(
        kiln_tokenizer_encode(t, odd_text, strlen(odd_text), true, ret_ids, ret_count, NULL), 0);
    kiln_tokenizer_free(t);
}

/* What other releases write for the same tokenizer; Hugging Face's tokenizers 0.23 gives the same
 * ids for each of these. */
static void test_accepts_steps_that_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *path, *key, *value; /* value: JSON */
    } cases[] = {
        {"", "post_processor", "null"},
        {"", "post_processor", NULL},
        {"", "post_processor", TEMPLATE("[" TEXT "]")},
        {"", "post_processor", TEMPLATE("[{\"Sequence\": {\"id\": \"A\", \"type_id\": 1}}]")},
        {"", "post_processor", SEQUENCE("processors", "")},
        {"", "post_processor", SEQUENCE("processors", BYTES ", " TEMPLATE("[" TEXT "]"))},
        {"", "post_processor", SEQUENCE("processors", SEQUENCE("processors", BYTES))},
        {"", "normalizer", SEQUENCE("normalizers", "{\"type\": \"NFC\"}, {\"type\": \"NFC\"}")},
        {"pre_tokenizer.pretokenizers", "+", SEQUENCE("pretokenizers", "")},
        {"", "decoder", "null"},
        {"", "decoder", "{\"type\": \"Fuse\"}"},
        {"", "padding", "{\"strategy\": \"BatchLongest\", \"direction\": \"Left\", \"pad_id\": 0}"},
        {"", "truncation", "{\"direction\": \"Right\", \"max_length\": 512, \"stride\": 0}"},
        {"", "version", NULL},
        {"model", "type", NULL},
        {"model", "dropout", "0.0"},
        {"model", "unk_token", "\"<|endoftext|>\""},
        {"model", "fuse_unk", "true"},
        {"model", "byte_fallback", "true"},
        {"model", "ignore_merges", NULL},
        {"model", "continuing_subword_prefix", "null"},
        {"model", "brand_new", "false"},
        {"added_tokens.0", "brand_new", "null"},
    };
    int32_t *expected, *ids;
    size_t expected_count, count;
    encode_odd(golden("models/plain/tokenizer"), &expected, &expected_count);
    mkdir("same", 0700);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = small_tokenizer();
        change(root, cases[i].path, cases[i].key, cases[i].value);
        assert_int_equal(json_dump_file(root, "same/tokenizer.json", 0), 0);
        json_decref(root);
        encode_odd("same", &ids, &count);
        assert_int_equal(count, expected_count);
        assert_memory_equal(ids, expected, count * sizeof *ids);
        free(ids);
    }
    free(expected);
}

static void test_refuses_options_that_change_ids(void **state)
{
    (void)state;
    static const struct {
        const char *config, *word; /* word NULL: accepted */
    } cases[] = {
        {"{\"split_special_tokens\": true}", "split_special_tokens"},
        {"{\"add_prefix_space\": true}", "add_prefix_space"},
        {"{\"add_eos_token\": true}", "add_eos_token"},
        {"{\"add_bos_token\": true, \"bos_token\": \"<s>\"}", "add_bos_token"},
        {"{\"truncation_side\": \"left\"}", "truncation_side"},
        {"{\"add_bos_token\": true, \"bos_token\": null}", NULL},
        {"{\"add_bos_token\": false, \"bos_token\": \"<s>\", \"truncation_side\": \"right\", "
         "\"padding_side\": \"left\", \"backend\": \"tokenizers\", \"is_local\": true}",
         NULL},
    };
    mkdir("options", 0700);
    json_t *root = small_tokenizer();
    assert_int_equal(json_dump_file(root, "options/tokenizer.json", 0), 0);
    json_decref(root);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kiln_test_write("options/tokenizer_config.json", cases[i].config);
        if (cases[i].word)
            assert_open_fails("options", KILN_UNSUPPORTED, cases[i].word);
        else
            kiln_tokenizer_free(open_tokenizer("options"));
    }
}

static void test_refuses_steps_of_other_families(void **state)
{
    (void)state;
    static const struct {
        const char *path, *key, *value; /* value: JSON */
        int code;
        const char *word;
    } cases[] = {
        {"normalizer", "type", "\"NFKC\"", KILN_UNSUPPORTED, "NFKC"},
        {"pre_tokenizer", "type", "\"Whitespace\"", KILN_UNSUPPORTED, "Whitespace"},
        {"pre_tokenizer.pretokenizers.0", "type", "\"Digits\"", KILN_UNSUPPORTED, "Digits"},
        {"pre_tokenizer.pretokenizers.0", "behavior", "\"Removed\"", KILN_UNSUPPORTED, "Removed"},
        {"pre_tokenizer.pretokenizers.0", "invert", "true", KILN_UNSUPPORTED, "invert"},
        {"pre_tokenizer.pretokenizers.0.pattern", "Regex", "\"(\"", KILN_CORRUPT, "split pattern"},
        {"pre_tokenizer.pretokenizers.0.pattern", "Regex", "\"\\\\w+\"", KILN_UNSUPPORTED, "\\w"},
        {"pre_tokenizer.pretokenizers.0.pattern", "Regex", "\"[a[b]]\"", KILN_UNSUPPORTED, "set"},
        {"pre_tokenizer.pretokenizers.0.pattern", "Regex", "\"x\\\\\"", KILN_UNSUPPORTED, "byte 1"},
        {"pre_tokenizer.pretokenizers.1", "add_prefix_space", "true", KILN_UNSUPPORTED,
         "add_prefix_space"},
        {"pre_tokenizer.pretokenizers.1", "use_regex", "true", KILN_UNSUPPORTED, "use_regex"},
        {"post_processor", "type", "\"TemplateProcessing\"", KILN_UNSUPPORTED,
         "TemplateProcessing"},
        {"model", "type", "\"Unigram\"", KILN_UNSUPPORTED, "Unigram"},
        {"model", "dropout", "0.1", KILN_UNSUPPORTED, "dropout"},
        {"model", "ignore_merges", "true", KILN_UNSUPPORTED, "ignore_merges"},
        {"post_processor", "type", "\"BertProcessing\"", KILN_UNSUPPORTED, "BertProcessing"},
        {"", "post_processor", TEMPLATE("[" TEXT ", " TEXT "]"), KILN_UNSUPPORTED, "text alone"},
        {"", "post_processor", TEMPLATE("[]"), KILN_UNSUPPORTED, "text alone"},
        {"", "post_processor", TEMPLATE("[{\"Sequence\": {\"id\": \"B\"}}]"), KILN_UNSUPPORTED,
         "text alone"},
        {"", "post_processor",
         TEMPLATE("[" TEXT ", {\"SpecialToken\": {\"id\": \"<|im_end|>\", \"type_id\": 0}}]"),
         KILN_UNSUPPORTED, "adds \"<|im_end|>\""},
        {"", "post_processor", SEQUENCE("processors", BYTES ", {\"type\": \"RobertaProcessing\"}"),
         KILN_UNSUPPORTED, "RobertaProcessing"},
        {"", "post_processor", "{\"type\": \"Sequence\"}", KILN_UNSUPPORTED, "without a list"},
        {"", "normalizer",
         SEQUENCE("normalizers", "{\"type\": \"NFC\"}, {\"type\": \"Lowercase\"}"),
         KILN_UNSUPPORTED, "Lowercase"},
        {"", "pre_tokenizer", "null", KILN_UNSUPPORTED, "without Split"},
        {"", "pre_tokenizer", SEQUENCE("pretokenizers", BYTES), KILN_UNSUPPORTED, "ByteLevel"},
        {"pre_tokenizer.pretokenizers", "+", BYTES, KILN_UNSUPPORTED, "ByteLevel"},
        {"pre_tokenizer.pretokenizers.1", "use_regex", NULL, KILN_UNSUPPORTED, "use_regex"},
        {"", "truncation", "{\"direction\": \"Left\", \"max_length\": 4}", KILN_UNSUPPORTED,
         "Left"},
        {"model", "vocab", "[]", KILN_CORRUPT, "vocabulary"},
        {"model", "vocab", "{}", KILN_UNSUPPORTED, "byte 0x00"},
        {"model", "merges", "{}", KILN_CORRUPT, "merges"},
        {"model", "merges", "[\"ab\"]", KILN_CORRUPT, "merge 0"},
        {"model", "merges", "[\"a b\", \"a b c\"]", KILN_CORRUPT, "merge"},
        {"model", "merges", "[[\"a\"]]", KILN_CORRUPT, "merge 0"},
        {"model", "merges", "[\"# \\u0120\\u0120\\u0120\\u0120\\u0120\\u0120\"]", KILN_CORRUPT,
         "not in the vocabulary"},
        {"model.vocab", "a", "-1", KILN_CORRUPT, "id of \"a\""},
        {"model.vocab", "a", "1048576", KILN_CORRUPT, "id of \"a\""},
        {"model.vocab", "a", "\"7\"", KILN_CORRUPT, "id of \"a\""},
        {"added_tokens.0", "id", "-5", KILN_CORRUPT, "added token 0"},
        {"added_tokens.0", "content", "\"\"", KILN_CORRUPT, "added token 0"},
        {"added_tokens.1", "lstrip", "true", KILN_UNSUPPORTED, "lstrip"},
    };
    mkdir("lie", 0700);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = small_tokenizer();
        change(root, cases[i].path, cases[i].key, cases[i].value);
        assert_int_equal(json_dump_file(root, "lie/tokenizer.json", 0), 0);
        json_decref(root);
        assert_open_fails("lie", cases[i].code, cases[i].word);
    }
}

static void test_names_what_is_missing(void **state)
{
    (void)state;
    mkdir("missing", 0700);
    assert_open_fails("missing", KILN_NOT_FOUND, "neither tokenizer.json nor vocab.json");
    assert_open_fails("nowhere", KILN_NOT_FOUND, "nowhere");
    kiln_test_write("missing/vocab.json", "{}");
    assert_open_fails("missing", KILN_NOT_FOUND, "merges.txt");
    kiln_test_write("missing/merges.txt", "a \xff\n");
    assert_open_fails("missing", KILN_CORRUPT, "merges.txt:1");
    kiln_test_write("missing/merges.txt", "#version: 0.2\n");
    kiln_test_write("missing/tokenizer_config.json", "{\"added_tokens_decoder\":{\"x\":{}}}");
    assert_open_fails("missing", KILN_CORRUPT, "\"x\"");
    kiln_test_write("missing/tokenizer_config.json", "[");
    assert_open_fails("missing", KILN_CORRUPT, "tokenizer_config.json:1");
    kiln_test_write("missing/tokenizer_config.json", "{}");
    mkdir("missing/tokenizer.json", 0700);
    assert_open_fails("missing", KILN_BAD_INPUT, "not a regular file");
}

static void test_refuses_every_cut(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = read_file(golden("models/plain/tokenizer/tokenizer.json"), &size);
    mkdir("cut", 0700);
    while (size > 0 && data[size - 1] != '}') /* without its last bracket it is cut */
        size--;
    for (size_t n = 0; n < size; n += n < 600 ? 1 : 211) {
        FILE *f = fopen("cut/tokenizer.json", "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(data, 1, n, f), n);
        fclose(f);
        assert_open_fails("cut", KILN_CORRUPT, "cut/tokenizer.json");
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_steps_that_change_nothing),
        cmocka_unit_test(test_refuses_options_that_change_ids),
        cmocka_unit_test(test_refuses_steps_of_other_families),
        cmocka_unit_test(test_names_what_is_missing),
        cmocka_unit_test(test_refuses_every_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
