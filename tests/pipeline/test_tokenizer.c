/* test_tokenizer.c - token ids against Hugging Face's tokenizers.
 *
 * tests/golden/qwen holds the real vocabulary of Qwen packed as merges; here it is written out as
 * tokenizer.json and as vocab.json + merges.txt, and both are read back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>
#include <utf8proc.h>
#include <zstd.h>

#include "pipeline/text/pretokenizer.h"
#include "pipeline/text/tokenizer.h"
#include "schemas/limits.h"
#include "storage/formats/safetensors.h"
#include "tests/pipeline/tokens.h"

/* --- reading tests/golden ------------------------------------------------------------------- */

/* A .safetensors.zst; *ret_memory lives as long as the tensors. */
static struct kiln_st *open_packed(const char *name, void **ret_memory)
{
    size_t size, plain;
    uint8_t *packed = read_file(golden(name), &size);
    plain = (size_t)ZSTD_getFrameContentSize(packed, size);
    *ret_memory = malloc(plain);
    assert_non_null(*ret_memory);
    assert_int_equal(ZSTD_decompress(*ret_memory, plain, packed, size), plain);
    free(packed);
    struct kiln_error err;
    struct kiln_st *st;
    if (kiln_st_open_memory(*ret_memory, plain, name, &st, &err))
        fail_msg("%s", err.text);
    return st;
}

static const void *tensor(const struct kiln_st *st, const char *name, int64_t *ret_last)
{
    const struct kiln_st_tensor *t = kiln_st_find(st, name);
    assert_non_null(t);
    if (ret_last)
        *ret_last = t->shape[t->ndim - 1];
    return t->data;
}

/* --- the vocabulary as files ---------------------------------------------------------------- */

/* How vocabulary files write a byte, terminated, in out. */
static void byte_name(uint8_t byte, char out[8])
{
    static int32_t table[256];
    if (!table[0])
        for (int b = 0, next = 0x100; b < 256; b++)
            table[b] = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad) ? b : next++;
    out[utf8proc_encode_char(table[byte], (utf8proc_uint8_t *)out)] = '\0';
}

/* The names of all tokens by id, and the merges as "a b". */
static void make_names(const struct kiln_st *st, char **names, json_t *vocab, json_t *merges)
{
    int64_t count;
    const uint8_t *bytes = tensor(st, "bytes", NULL), *p = tensor(st, "merges", &count);
    char text[1024];
    for (int64_t i = 0; i < 256 + count; i++) {
        if (i < 256) {
            byte_name(bytes[i], text);
        } else {
            int64_t m = i - 256;
            int32_t left = p[m] | p[count + m] << 8 | p[2 * count + m] << 16;
            int32_t right = p[3 * count + m] | p[4 * count + m] << 8 | p[5 * count + m] << 16;
            snprintf(text, sizeof text, "%s %s", names[left], names[right]);
            json_array_append_new(merges, json_string(text));
            snprintf(text, sizeof text, "%s%s", names[left], names[right]);
        }
        names[i] = strdup(text);
        assert_non_null(names[i]);
        assert_int_equal(json_object_set_new(vocab, text, json_integer(i)), 0);
    }
}

static json_t *tokenizer_json(json_t *vocab, json_t *merges, json_t *added)
{
    return json_pack(
        "{s:O, s:{s:s}, s:{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b, s:b}]}, s:{s:s}, "
        "s:{s:s, s:n, s:n, s:s, s:b, s:O, s:O}}",
        "added_tokens", added, "normalizer", "type", "NFC", "pre_tokenizer", "type", "Sequence",
        "pretokenizers", "type", "Split", "pattern", "Regex", kiln_qwen_pattern, "behavior",
        "Isolated", "invert", 0, "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0,
        "use_regex", 0, "post_processor", "type", "ByteLevel", "model", "type", "BPE", "dropout",
        "unk_token", "continuing_subword_prefix", "", "byte_fallback", 0, "vocab", vocab, "merges",
        merges);
}

static void write_merges(const char *path, const json_t *merges)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("#version: 0.2\n", f);
    for (size_t i = 0; i < json_array_size(merges); i++)
        fprintf(f, "%s\n", json_string_value(json_array_get(merges, i)));
    assert_int_equal(fclose(f), 0);
}

static void write_config(const char *path, const json_t *added)
{
    json_t *decoder = json_object();
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_t *token = json_deep_copy(json_array_get(added, i));
        char id[16];
        snprintf(id, sizeof id, "%d", (int)json_integer_value(json_object_get(token, "id")));
        json_object_del(token, "id");
        json_object_set_new(decoder, id, token);
    }
    json_t *config = json_pack("{s:o}", "added_tokens_decoder", decoder);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
}

/* Folders qwen-json and qwen-files in the current directory. */
static int write_qwen(void **state)
{
    (void)state;
    void *memory;
    struct kiln_st *st = open_packed("qwen/vocabulary.safetensors.zst", &memory);
    int64_t count;
    (void)tensor(st, "merges", &count);
    char **names = calloc((size_t)count + 256, sizeof *names);
    json_t *vocab = json_object(), *merges = json_array();
    json_t *added = json_load_file(golden("qwen/added.json"), 0, NULL);
    assert_non_null(names);
    assert_non_null(added);
    make_names(st, names, vocab, merges);
    json_t *whole = tokenizer_json(vocab, merges, added);
    assert_non_null(whole);
    mkdir("qwen-json", 0700);
    mkdir("qwen-files", 0700);
    assert_int_equal(json_dump_file(whole, "qwen-json/tokenizer.json", JSON_COMPACT), 0);
    assert_int_equal(json_dump_file(vocab, "qwen-files/vocab.json", JSON_COMPACT), 0);
    write_merges("qwen-files/merges.txt", merges);
    write_config("qwen-files/tokenizer_config.json", added);
    for (int64_t i = 0; i < count + 256; i++)
        free(names[i]);
    free(names);
    json_decref(whole);
    json_decref(vocab);
    json_decref(merges);
    json_decref(added);
    kiln_st_close(st);
    free(memory);
    return 0;
}

/* --- the same ids --------------------------------------------------------------------------- */

static uint32_t fnv1a(const int32_t *ids, size_t count)
{
    const uint8_t *bytes = (const uint8_t *)ids;
    uint32_t value = 0x811c9dc5;
    for (size_t i = 0; i < count * sizeof *ids; i++)
        value = (value ^ bytes[i]) * 0x01000193;
    return value;
}

struct lines {
    const char *text;
    const int32_t *lengths, *counts, *hashes;
    int64_t count;
};

static struct lines read_lines(const struct kiln_st *st)
{
    struct lines l = {.text = tensor(st, "text", NULL)};
    l.lengths = tensor(st, "lengths", &l.count);
    l.counts = tensor(st, "counts", NULL);
    l.hashes = tensor(st, "hashes", NULL);
    return l;
}

/* Encodes every line; returns how many differ, and prints the first few of them. */
static int differing_lines(const struct kiln_tokenizer *t, const struct lines *l)
{
    const char *line = l->text;
    int wrong = 0;
    for (int64_t i = 0; i < l->count; line += l->lengths[i++]) {
        int32_t *ids;
        size_t count;
        struct kiln_error err;
        if (kiln_tokenizer_encode(t, line, (size_t)l->lengths[i], true, &ids, &count, &err))
            fail_msg("line %d: %s", (int)i, err.text);
        if ((int32_t)count != l->counts[i] || fnv1a(ids, count) != (uint32_t)l->hashes[i]) {
            if (++wrong <= 10)
                print_message("line %d differs (%zu ids, %d expected): %.*s\n", (int)i, count,
                              l->counts[i], l->lengths[i], line);
        }
        free(ids);
    }
    return wrong;
}

static void test_real_vocabulary_gives_the_same_ids(void **state)
{
    (void)state;
    void *memory;
    struct kiln_st *st = open_packed("qwen/lines.safetensors.zst", &memory);
    struct lines lines = read_lines(st);
    static const char *const dirs[] = {"qwen-json", "qwen-files"};
    assert_true(lines.count >= 20000);
    for (int i = 0; i < 2; i++) {
        struct kiln_tokenizer *t = open_tokenizer(dirs[i]);
        assert_int_equal(kiln_tokenizer_max_id(t), 151668);
        assert_int_equal(differing_lines(t, &lines), 0);
        kiln_tokenizer_free(t);
    }
    kiln_st_close(st);
    free(memory);
}

/* What transformers wrote by itself, with the ids that it gives. */
static void test_a_saved_tokenizer_gives_the_same_ids(void **state)
{
    (void)state;
    void *memory;
    struct kiln_st *st = open_packed("cases/saved_lines.safetensors.zst", &memory);
    struct lines lines = read_lines(st);
    assert_true(lines.count >= 800);
    struct kiln_tokenizer *t = open_tokenizer(golden("models/saved/tokenizer"));
    assert_int_equal(differing_lines(t, &lines), 0);
    kiln_tokenizer_free(t);
    kiln_st_close(st);
    free(memory);
}

/* Every case of tests/golden: the wrapped and truncated prompt, of both kinds of files. */
static void test_wrapped_prompts_give_the_same_ids(void **state)
{
    (void)state;
    json_t *root = json_load_file(golden("cases.json"), 0, NULL);
    const json_t *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) > 10);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        char name[256];
        struct kiln_st *st;
        snprintf(name, sizeof name, "%s/tokenizer", json_string_value(json_object_get(c, "model")));
        struct kiln_tokenizer *t = open_tokenizer(golden(name));
        const char *vectors = json_string_value(json_object_get(c, "vectors"));
        assert_int_equal(kiln_st_open(golden(vectors), &st, NULL), 0);
        const json_t *prompt = json_object_get(c, "prompt");
        int64_t expected_count;
        const int32_t *expected = tensor(st, "token_ids", &expected_count);
        int32_t *ids;
        size_t count;
        assert_int_equal(kiln_tokenizer_encode(t, json_string_value(prompt),
                                               json_string_length(prompt), false, &ids, &count,
                                               NULL),
                         0);
        assert_int_equal(count, expected_count);
        assert_memory_equal(ids, expected, count * sizeof *ids);
        free(ids);
        kiln_st_close(st);
        kiln_tokenizer_free(t);
    }
    json_decref(root);
}

struct reader {
    const struct kiln_tokenizer *t;
    const struct lines *lines;
    int wrong;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    r->wrong = differing_lines(r->t, r->lines);
    return NULL;
}

static void test_threads_share_a_tokenizer(void **state)
{
    (void)state;
    void *memory;
    struct kiln_st *st = open_packed("qwen/lines.safetensors.zst", &memory);
    struct lines lines = read_lines(st);
    lines.count = 3000;
    struct kiln_tokenizer *t = open_tokenizer("qwen-files");
    struct reader readers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        readers[i] = (struct reader){t, &lines, -1};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].wrong, 0);
    }
    kiln_tokenizer_free(t);
    kiln_st_close(st);
    free(memory);
}

/* --- texts ---------------------------------------------------------------------------------- */

static void test_refuses_text_that_is_not_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place;
    } cases[] = {
        {"abc\xff", "byte 3"},          {"\x80", "byte 0"},
        {"a\xc0\x80", "byte 1"},        {"ab\xed\xa0\x80", "byte 2"},
        {"\xf4\x90\x80\x80", "byte 0"}, {"\xe5\xa4\xa9\xe5\xa4", "byte 3"},
        {"caf\xe9 au lait", "byte 3"},  {"\xf8\x88\x80\x80\x80", "byte 0"},
    };
    struct kiln_tokenizer *t = open_tokenizer(golden("models/plain/tokenizer"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_error err = {0};
        int32_t *ids = NULL;
        size_t count;
        assert_int_equal(kiln_tokenizer_encode(t, cases[i].text, strlen(cases[i].text), i % 2, &ids,
                                               &count, &err),
                         KILN_BAD_INPUT);
        assert_non_null(strstr(err.text, cases[i].place));
        assert_null(ids);
    }
    kiln_tokenizer_free(t);
}

/* A word of 128 KiB must cost n log n (its square is minutes), and what is beyond 512 ids nothing.
 */
static void test_long_texts_end_soon(void **state)
{
    (void)state;
    static const char *const pieces[] = {"a", " ", "'", "\n", "ab", "é", "<|im_end|", "e\xcc\x81"};
    struct kiln_tokenizer *t = open_tokenizer("qwen-files");
    char *text = malloc(KILN_TOKENIZE_BYTES_MAX + 1);
    assert_non_null(text);
    clock_t start = clock();
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t n = strlen(pieces[i]), len = KILN_TOKENIZE_BYTES_MAX / 8 / n * n;
        for (size_t at = 0; at < len; at += n)
            memcpy(text + at, pieces[i], n);
        int32_t *ids;
        size_t count;
        assert_int_equal(kiln_tokenizer_encode(t, text, len, true, &ids, &count, NULL), 0);
        assert_in_range(count, 1, KILN_TOKENS_MAX);
        free(ids);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("8 texts of 128 KiB in %.2f s\n", seconds);
    assert_true(seconds < 20);
    struct kiln_error err;
    int32_t *ids = NULL;
    size_t count;
    assert_int_equal(
        kiln_tokenizer_encode(t, text, KILN_TOKENIZE_BYTES_MAX + 1, true, &ids, &count, &err),
        KILN_BAD_INPUT);
    assert_null(ids);
    free(text);
    kiln_tokenizer_free(t);
}

static void test_an_empty_text_has_no_ids(void **state)
{
    (void)state;
    struct kiln_tokenizer *t = open_tokenizer(golden("models/plain/tokenizer"));
    int32_t *ids = NULL;
    size_t count = 9;
    assert_int_equal(kiln_tokenizer_encode(t, "", 0, true, &ids, &count, NULL), 0);
    assert_non_null(ids);
    assert_int_equal(count, 0);
    free(ids);
    kiln_tokenizer_free(t);
}

/* Without the tokens of the template there is nothing to wrap a prompt in. */
static void test_wrapping_needs_its_tokens(void **state)
{
    (void)state;
    json_t *root = small_tokenizer();
    assert_int_equal(json_array_remove(json_object_get(root, "added_tokens"), 1), 0);
    mkdir("turnless", 0700);
    assert_int_equal(json_dump_file(root, "turnless/tokenizer.json", 0), 0);
    json_decref(root);
    struct kiln_tokenizer *t = open_tokenizer("turnless");
    struct kiln_error err;
    int32_t *ids;
    size_t count;
    assert_int_equal(kiln_tokenizer_encode(t, "a", 1, false, &ids, &count, &err), KILN_UNSUPPORTED);
    assert_int_equal(kiln_tokenizer_encode(t, "a", 1, true, &ids, &count, &err), 0);
    assert_int_equal(count, 1);
    free(ids);
    kiln_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_vocabulary_gives_the_same_ids),
        cmocka_unit_test(test_a_saved_tokenizer_gives_the_same_ids),
        cmocka_unit_test(test_wrapped_prompts_give_the_same_ids),
        cmocka_unit_test(test_threads_share_a_tokenizer),
        cmocka_unit_test(test_refuses_text_that_is_not_utf8),
        cmocka_unit_test(test_long_texts_end_soon),
        cmocka_unit_test(test_an_empty_text_has_no_ids),
        cmocka_unit_test(test_wrapping_needs_its_tokens),
    };
    return cmocka_run_group_tests(tests, write_qwen, NULL);
}
