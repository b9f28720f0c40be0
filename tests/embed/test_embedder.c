/* test_embedder.c - vectors of small random checkpoints, compared with what sentence-transformers
 * and model2vec compute (tests/golden/embed), and the promises of embedder.h.
 */
#include "tests/embed/golden_files.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include "pipeline/embed/embedder.h"

#define TEXTS_MAX 64
#define TOLERANCE 1e-5f

struct texts {
    json_t *json;
    struct kiln_embed_text at[TEXTS_MAX];
    size_t count;
};

static struct texts read_texts(void)
{
    struct texts t = {.json = json_load_file(golden("texts.json"), 0, NULL)};
    assert_non_null(t.json);
    t.count = json_array_size(t.json);
    assert_in_range(t.count, 10, TEXTS_MAX);
    for (size_t i = 0; i < t.count; i++) {
        const json_t *text = json_array_get(t.json, i);
        t.at[i] = (struct kiln_embed_text){json_string_value(text), json_string_length(text)};
    }
    return t;
}

static struct kiln_embedder *open_embedder(const char *name,
                                           const struct kiln_embed_options *options)
{
    struct kiln_embedder *e = NULL;
    struct kiln_error err;
    if (kiln_embedder_open(golden(name), options, &e, &err))
        fail_msg("%s", err.text);
    return e;
}

static void embed(const struct kiln_embedder *e, enum kiln_embed_use use,
                  const struct kiln_embed_text *texts, size_t n, float *rows)
{
    struct kiln_error err;
    if (kiln_embedder_embed(e, use, texts, n, rows, &err))
        fail_msg("%s", err.text);
}

static float largest_difference(const float *a, const void *b, size_t n)
{
    float largest = 0, other;
    for (size_t i = 0; i < n; i++) {
        memcpy(&other, (const char *)b + i * sizeof other, sizeof other);
        largest = fmaxf(largest, isnan(a[i]) ? INFINITY : fabsf(a[i] - other));
    }
    return largest;
}

static const char *const names[] = {
    "potion",     "potion_mapped", "potion_int8",          "static", "minilm",
    "minilm_new", "bge",           "multilingual-e5-tiny", "plain"};

static void test_vectors_equal_the_references(void **state)
{
    (void)state;
    struct texts texts = read_texts();
    struct kiln_st *st;
    assert_int_equal(kiln_st_open(golden("vectors.safetensors"), &st, NULL), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int use = KILN_EMBED_PASSAGE; use <= KILN_EMBED_QUERY; use++) {
            struct kiln_embedder *e = open_embedder(names[i], NULL);
            const size_t dims = kiln_embedder_info(e)->dims;
            size_t count;
            const void *expected =
                tensor(st, names[i], use == KILN_EMBED_QUERY ? "query" : "passage", &count);
            assert_int_equal(count, texts.count * dims);
            float *rows = malloc(count * sizeof *rows);
            assert_non_null(rows);
            embed(e, use, texts.at, texts.count, rows);
            for (size_t t = 0; t < texts.count; t++) {
                const float off =
                    largest_difference(rows + t * dims, (const float *)expected + t * dims, dims);
                if (off > TOLERANCE)
                    fail_msg("%s, use %d, text %zu differs by %g", names[i], use, t, (double)off);
            }
            for (size_t t = 0; t < texts.count; t++) { /* one by one as in a batch */
                float alone[KILN_EMBED_DIMS_MAX];
                embed(e, use, &texts.at[t], 1, alone);
                assert_true(largest_difference(alone, rows + t * dims, dims) < 1e-6f);
            }
            free(rows);
            kiln_embedder_close(e);
        }
    kiln_st_close(st);
    json_decref(texts.json);
}

#define THREADS 4

struct reader {
    const struct kiln_embedder *e;
    const struct texts *texts;
    const float *expected;
    bool same;
};

static void *embed_again(void *arg)
{
    struct reader *r = arg;
    const size_t n = r->texts->count * kiln_embedder_info(r->e)->dims;
    float *rows = malloc(n * sizeof *rows);
    r->same = rows != NULL;
    for (int round = 0; round < 5 && r->same; round++)
        r->same = kiln_embedder_embed(r->e, KILN_EMBED_PASSAGE, r->texts->at, r->texts->count, rows,
                                      NULL) == 0 &&
                  memcmp(rows, r->expected, n * sizeof *rows) == 0;
    free(rows);
    return NULL;
}

static void test_threads_share_an_embedder(void **state)
{
    (void)state;
    struct texts texts = read_texts();
    static const char *const shared[] = {"potion", "minilm"};
    for (size_t i = 0; i < 2; i++) {
        struct kiln_embedder *e = open_embedder(shared[i], NULL);
        float *rows = malloc(texts.count * kiln_embedder_info(e)->dims * sizeof *rows);
        assert_non_null(rows);
        embed(e, KILN_EMBED_PASSAGE, texts.at, texts.count, rows);
        pthread_t threads[THREADS];
        struct reader readers[THREADS];
        for (size_t t = 0; t < THREADS; t++) {
            readers[t] = (struct reader){e, &texts, rows, false};
            assert_int_equal(pthread_create(&threads[t], NULL, embed_again, &readers[t]), 0);
        }
        for (size_t t = 0; t < THREADS; t++) {
            assert_int_equal(pthread_join(threads[t], NULL), 0);
            assert_true(readers[t].same);
        }
        free(rows);
        kiln_embedder_close(e);
    }
    json_decref(texts.json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_equal_the_references),
        cmocka_unit_test(test_threads_share_an_embedder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
