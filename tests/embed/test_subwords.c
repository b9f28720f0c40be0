/* test_subwords.c - ids of WordPiece and Unigram tokenizers, compared with Hugging Face's on 12,000
 * lines of many scripts (tests/golden/embed/tokenizers.safetensors.zst).
 */
#include "tests/embed/golden_files.h"

#include "pipeline/embed/tokens/subwords.h"

#define BLOCK 16 /* lines whose ids are hashed together */

static const char *const names[] = {"uncased", "cased", "xlmr", "e5", "distilled"};

static struct kiln_subwords *open_named(const struct kiln_st *st, const char *name)
{
    struct kiln_subwords *s = NULL;
    struct kiln_error err;
    char path[64];
    size_t size;
    const void *file = tensor(st, name, "tokenizer.json", &size);
    snprintf(path, sizeof path, "%s.json", name);
    write_file(path, file, size);
    if (kiln_subwords_open(path, &s, &err))
        fail_msg("%s", err.text);
    return s;
}

static uint32_t fnv1a(uint32_t hash, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int byte = 0; byte < 4; byte++)
            hash = (hash ^ ((uint32_t)ids[i] >> 8 * byte & 0xffu)) * 0x01000193u;
    return hash;
}

static void encode(const struct kiln_subwords *s, const char *text, size_t len,
                   struct kiln_ids *ids)
{
    struct kiln_error err;
    ids->count = 0;
    if (kiln_subwords_encode(s, text, len, true, SIZE_MAX, ids, &err))
        fail_msg("%s", err.text);
}

/* Every so many lines are there with all their ids: says what differs. */
static void compare_full(const struct kiln_st *st, const char *name, size_t line, const char *text,
                         size_t len, const struct kiln_ids *ids, size_t *at)
{
    size_t counts_count;
    const void *counts = tensor(st, name, "counts", &counts_count);
    const void *expected = tensor(st, name, "ids", NULL);
    const size_t lines = 12000, step = lines / 320;
    if (line % step != 0 || line / step >= counts_count)
        return;
    const size_t count = (size_t)int32_at(counts, line / step);
    for (size_t i = 0; i < count || i < ids->count; i++)
        if (i >= count || i >= ids->count || ids->at[i] != int32_at(expected, *at + i))
            fail_msg("%s: line %zu \"%.*s\": id %zu is %d instead of %d (%zu instead of %zu)", name,
                     line, (int)len, text, i, i < ids->count ? ids->at[i] : -1,
                     i < count ? int32_at(expected, *at + i) : -1, ids->count, count);
    *at += count;
}

static void test_ids_equal_the_references(void **state)
{
    (void)state;
    void *memory;
    struct kiln_st *st = open_packed("tokenizers.safetensors.zst", &memory);
    size_t count, hash_count;
    const char *lines = tensor(st, "", "lines", NULL);
    const void *lengths = tensor(st, "", "lengths", &count);
    assert_int_equal(count, 12000);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct kiln_subwords *s = open_named(st, names[n]);
        const void *hashes = tensor(st, names[n], "hashes", &hash_count);
        struct kiln_ids ids = {0};
        const char *line = lines;
        uint32_t hash = 0x811c9dc5u;
        size_t wrong = 0, full = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t len = (size_t)int32_at(lengths, i);
            encode(s, line, len, &ids);
            compare_full(st, names[n], i, line, len, &ids, &full);
            hash = fnv1a(hash, ids.at, ids.count);
            if (i % BLOCK == BLOCK - 1 || i + 1 == count) {
                wrong += hash != (uint32_t)int32_at(hashes, i / BLOCK);
                if (hash != (uint32_t)int32_at(hashes, i / BLOCK))
                    print_message("%s: a line of %zu to %zu differs\n", names[n], i / BLOCK * BLOCK,
                                  i);
                hash = 0x811c9dc5u;
            }
            line += len;
        }
        assert_int_equal(hash_count, (count + BLOCK - 1) / BLOCK);
        assert_int_equal(wrong, 0);
        free(ids.at);
        kiln_subwords_free(s);
    }
    kiln_st_close(st);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_equal_the_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
