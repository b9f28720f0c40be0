/* test_vector_index.c - searches of an index against sums over all vectors. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/embed/index/code.h"
#include "pipeline/embed/index/index.h"
#include "pipeline/embed/index/sketch.h"
#include "tests/support/random.h"

#define DIMS 48
#define MANY 70000 /* beyond one segment, and enough for sketches to be compared */
#define CENTRES 400

struct world {
    struct kiln_vector_index *index;
    struct kiln_vector_search *search;
    struct kiln_error err;
    float *vectors; /* [count][DIMS] */
    uint32_t count;
    bool hits_only; /* of every search */
};

static float value(struct test_random *random)
{
    float sum = 0; /* close enough to a normal distribution */
    for (int i = 0; i < 4; i++)
        sum += (float)test_random_below(random, 2001) / 1000 - 1;
    return sum;
}

static void normalise(float *vector)
{
    float square = 0;
    for (int d = 0; d < DIMS; d++)
        square += vector[d] * vector[d];
    for (int d = 0; d < DIMS; d++)
        vector[d] /= sqrtf(square);
}

/* Near one of the centres, as texts are near others on the same subject. */
static void make_vector(struct test_random *random, const float *centres, float *vector)
{
    const float *centre = centres + test_random_below(random, CENTRES) * DIMS;
    for (int d = 0; d < DIMS; d++)
        vector[d] = centre[d] + 0.35f * value(random);
    normalise(vector);
}

static uint32_t add(struct world *w, const float *vector)
{
    uint8_t row[DIMS];
    float scale;
    uint32_t number;
    kiln_vector_encode(vector, DIMS, row, &scale);
    assert_int_equal(kiln_vector_index_add(w->index, row, scale, &number, &w->err), 0);
    return number;
}

static void world_open(struct world *w, uint32_t count, float *centres)
{
    struct test_random random = {5};
    memset(w, 0, sizeof *w);
    assert_int_equal(kiln_vector_index_new(DIMS, &w->index, &w->err), 0);
    assert_int_equal(kiln_vector_search_new(&w->search, &w->err), 0);
    for (int i = 0; i < CENTRES * DIMS; i++)
        centres[i] = value(&random);
    w->vectors = malloc(sizeof(float) * DIMS * (count + 1));
    assert_non_null(w->vectors);
    for (w->count = 0; w->count < count; w->count++) {
        make_vector(&random, centres, w->vectors + w->count * DIMS);
        assert_int_equal(add(w, w->vectors + w->count * DIMS), w->count);
    }
}

static void world_close(struct world *w)
{
    kiln_vector_search_free(w->search);
    kiln_vector_index_free(w->index);
    free(w->vectors);
}

static float cosine(const float *a, const float *b)
{
    float sum = 0;
    for (int d = 0; d < DIMS; d++)
        sum += a[d] * b[d];
    return sum;
}

static bool passes(const uint64_t *mask, uint32_t row)
{
    return !mask || (mask[row / 64] >> row % 64 & 1);
}

static struct kiln_vector_found find(struct world *w, const float *vector, const uint64_t *mask,
                                     uint32_t mask_rows, uint32_t count, bool exact,
                                     struct kiln_vector_hit *hits)
{
    int8_t query[DIMS];
    struct kiln_vector_found found;
    struct kiln_vector_query q = {.query = query,
                                  .mask = mask,
                                  .mask_rows = mask_rows,
                                  .count = count,
                                  .exact = exact,
                                  .hits_only = w->hits_only};
    kiln_vector_encode_query(vector, DIMS, query, &q.scale);
    assert_int_equal(kiln_vector_index_search(w->index, w->search, &q, hits, &found, &w->err), 0);
    return found;
}

/* How many of the `count` nearest rows were found; checks scores and their order on the way. */
static uint32_t recalled(struct world *w, const float *vector, const uint64_t *mask, uint32_t count,
                         bool exact)
{
    struct kiln_vector_hit hits[64];
    struct kiln_vector_found found = find(w, vector, mask, w->count, count, exact, hits);
    uint32_t right = 0;
    float least = 1;
    assert_int_equal(found.count, count);
    for (uint32_t i = 0; i < found.count; i++) {
        assert_true(passes(mask, hits[i].number));
        float truth = cosine(vector, w->vectors + hits[i].number * DIMS);
        assert_true(fabsf(hits[i].score - truth) < 0.02f);
        assert_true(hits[i].score <= least);
        least = hits[i].score;
        uint32_t better = 0;
        for (uint32_t row = 0; row < w->count; row++)
            better += passes(mask, row) && cosine(vector, w->vectors + row * DIMS) > truth;
        right += better < count;
    }
    return right;
}

static void the_nearest_are_found(void **state)
{
    (void)state;
    struct test_random random = {6};
    static float centres[CENTRES * DIMS];
    struct world w;
    uint32_t by_sketch = 0, by_all = 0;
    const int queries = 20;
    world_open(&w, MANY, centres);
    for (int i = 0; i < queries; i++) {
        float vector[DIMS];
        make_vector(&random, centres, vector);
        by_sketch += recalled(&w, vector, NULL, 10, false);
        by_all += recalled(&w, vector, NULL, 10, true);
    }
    assert_true(by_all >= queries * 10 * 0.93);
    assert_true(by_sketch >= queries * 10 * 0.93);
    world_close(&w);
}

static void a_filter_never_costs_a_hit(void **state)
{
    (void)state;
    struct test_random random = {7};
    static float centres[CENTRES * DIMS];
    static uint64_t mask[MANY / 64 + 1];
    struct world w;
    world_open(&w, MANY, centres);
    const uint32_t shares[] = {2, 4, 50, 3000}; /* one row of so many passes */
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        float vector[DIMS];
        uint32_t right = 0;
        memset(mask, 0, sizeof mask);
        for (uint32_t row = 0; row < MANY; row += 1 + test_random_below(&random, 2 * shares[i] - 1))
            mask[row / 64] |= UINT64_C(1) << row % 64;
        for (int query = 0; query < 5; query++) {
            make_vector(&random, centres, vector);
            right += recalled(&w, vector, mask, 10, false);
        }
        assert_true(right >= 45);
    }
    struct kiln_vector_hit hits[10]; /* rows behind the end of a mask do not pass */
    struct kiln_vector_found found = find(&w, w.vectors, mask, 0, 10, false, hits);
    assert_int_equal(found.count, 0);
    memset(mask, 255, sizeof mask);
    found = find(&w, w.vectors, mask, 5, 10, false, hits);
    assert_int_equal(found.count, 5);
    for (uint32_t i = 0; i < found.count; i++)
        assert_true(hits[i].number < 5);
    world_close(&w);
}

static void what_is_gone_or_empty_is_not_found(void **state)
{
    (void)state;
    static float centres[CENTRES * DIMS];
    struct kiln_vector_hit hits[10];
    struct world w;
    world_open(&w, 100, centres);
    const float nothing[DIMS] = {0}, broken[DIMS] = {NAN, 1};
    assert_int_equal(add(&w, nothing), 100);
    assert_int_equal(add(&w, broken), 101);
    assert_int_equal(find(&w, w.vectors + 7 * DIMS, NULL, 0, 1, false, hits).count, 1);
    assert_int_equal(hits[0].number, 7);
    kiln_vector_index_remove(w.index, 7);
    kiln_vector_index_remove(w.index, 7);
    kiln_vector_index_remove(w.index, 4000); /* no row */
    struct kiln_vector_found found = find(&w, w.vectors + 7 * DIMS, NULL, 0, 10, false, hits);
    assert_int_equal(found.count, 10);
    assert_int_equal(found.compared, 99);
    for (uint32_t i = 0; i < found.count; i++)
        assert_true(hits[i].number != 7 && hits[i].number < 100);
    assert_int_equal(find(&w, nothing, NULL, 0, 10, false, hits).count, 0);
    assert_int_equal(find(&w, broken, NULL, 0, 10, false, hits).count, 0);

    int8_t query[DIMS];
    float scale;
    assert_false(kiln_vector_index_query(w.index, 7, query, &scale));
    assert_false(kiln_vector_index_query(w.index, 100, query, &scale));
    assert_false(kiln_vector_index_query(w.index, 4000, query, &scale));
    assert_true(kiln_vector_index_query(w.index, 8, query, &scale));
    for (int d = 0; d < DIMS; d++)
        assert_true(fabsf((float)query[d] * scale - w.vectors[8 * DIMS + d]) <= scale);

    /* Of equal rows the latest is first. */
    uint32_t again = add(&w, w.vectors + 3 * DIMS);
    find(&w, w.vectors + 3 * DIMS, NULL, 0, 2, false, hits);
    assert_int_equal(hits[0].number, again);
    assert_int_equal(hits[1].number, 3);
    world_close(&w);
}

/* A cut that counts one of eleven rows: here those that it counts are the near ones. */
static void as_many_are_found_as_wanted_wherever_they_are(void **state)
{
    (void)state;
    enum { ROWS = 40000, NEAR = 700, WANTED = 1000, STEP = 11 };
    static float centres[CENTRES * DIMS];
    static struct kiln_vector_hit hits[WANTED];
    struct test_random random = {7};
    struct world w;
    float one[DIMS], other[DIMS];
    world_open(&w, 0, centres);
    make_vector(&random, centres, one);
    for (int d = 0; d < DIMS; d++)
        other[d] = -one[d];
    for (uint32_t row = 0; row < ROWS; row++)
        add(&w, row % STEP == 0 && row < STEP * NEAR ? one : other);
    struct kiln_vector_found found = find(&w, one, NULL, 0, WANTED, false, hits);
    assert_int_equal(found.count, WANTED);
    assert_int_equal(hits[NEAR - 1].number, 0);
    assert_true(hits[NEAR].score < 0);
    world_close(&w);
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void the_background_is_what_strangers_score(void **state)
{
    (void)state;
    static float centres[CENTRES * DIMS];
    struct kiln_vector_hit hits[1];
    struct world w;
    world_open(&w, 3000, centres);
    struct kiln_vector_found found = find(&w, w.vectors, NULL, 0, 1, false, hits);
    static float scores[3000];
    for (uint32_t i = 0; i < w.count; i++)
        scores[i] = cosine(w.vectors, w.vectors + i * DIMS);
    qsort(scores, w.count, sizeof *scores, by_value);
    const float usual = scores[w.count / 2];
    for (uint32_t i = 0; i < w.count; i++)
        scores[i] = fabsf(scores[i] - usual);
    qsort(scores, w.count, sizeof *scores, by_value);
    assert_true(fabsf(found.usual - usual) < 0.03f);
    assert_true(fabsf(found.spread - 1.4826f * scores[w.count / 2]) < 0.03f);
    assert_true(hits[0].score > found.usual + 3 * found.spread);
    w.hits_only = true;
    const uint32_t nearest = hits[0].number;
    found = find(&w, w.vectors, NULL, 0, 1, false, hits);
    assert_true(found.usual == 0 && found.spread == 0);
    assert_true(found.count == 1 && hits[0].number == nearest);
    world_close(&w);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct kiln_error err = {0};
    struct kiln_vector_index *index = NULL;
    struct kiln_sketcher *sketcher = NULL;
    static float centres[CENTRES * DIMS];
    struct kiln_vector_hit hits[1];
    struct kiln_vector_found found;
    struct world w;
    const int64_t wrong[] = {0, -1, KILN_SCAN_DIMS_MAX + 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(kiln_vector_index_new(wrong[i], &index, &err), KILN_BAD_INPUT);
        assert_int_equal(kiln_sketcher_new(wrong[i], &sketcher, &err), KILN_BAD_INPUT);
    }
    world_open(&w, 3, centres);
    const struct kiln_vector_query none = {.scale = 1}, many = {.scale = 1, .count = 1001};
    assert_int_equal(kiln_vector_index_search(w.index, w.search, &none, hits, &found, &err),
                     KILN_BAD_INPUT);
    assert_int_equal(kiln_vector_index_search(w.index, w.search, &many, hits, &found, &err),
                     KILN_BAD_INPUT);
    assert_string_equal(err.text, "a search for 1001 vectors; it finds 1 to 1000");
    world_close(&w);
}

static int bit_of(const uint64_t *sketch, int bit)
{
    return (int)(sketch[bit / 64] >> bit % 64 & 1);
}

/* A vector's own sketch as a query is the near one, and its opposite's is far. */
static void sketches_are_near_where_vectors_are(void **state)
{
    (void)state;
    struct test_random random = {23};
    const int64_t sizes[] = {1, 3, 48, 192, 256, 700};
    const int words[] = {3, 3, 3, 3, 4, 8};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        const int64_t dims = sizes[n];
        struct kiln_sketcher *sketcher;
        struct kiln_error err;
        int8_t query[700];
        uint8_t rows[2][700];
        uint64_t planes[KILN_SKETCH_PLANES * KILN_SKETCH_WORDS_MAX];
        uint64_t sketches[2][KILN_SKETCH_WORDS_MAX];
        int64_t distances[2] = {0};
        assert_int_equal(kiln_sketcher_new(dims, &sketcher, &err), 0);
        assert_int_equal(kiln_sketch_words(sketcher), words[n]);
        for (int64_t d = 0; d < dims; d++) {
            query[d] = (int8_t)((int)test_random_below(&random, 255) - 127);
            rows[0][d] = (uint8_t)(query[d] + 128), rows[1][d] = (uint8_t)(128 - query[d]);
        }
        kiln_sketch_query(sketcher, query, planes);
        for (int r = 0; r < 2; r++) {
            kiln_sketch_row(sketcher, rows[r], sketches[r]);
            for (int p = 0; p < KILN_SKETCH_PLANES; p++)
                for (int bit = 0; bit < 64 * words[n]; bit++)
                    distances[r] += (bit_of(sketches[r], bit) != bit_of(planes + p * words[n], bit))
                                    << p;
        }
        /* No sign is wrong, so each direction costs less than half of what the opposite costs. */
        for (int bit = 0; bit < 64 * words[n]; bit++)
            assert_true(!bit_of(sketches[0], bit) || !bit_of(sketches[1], bit));
        assert_true(distances[0] < distances[1]);
        if (dims >= 192)
            assert_true(3 * distances[0] < 2 * distances[1]);
        kiln_sketcher_free(sketcher);
    }
}

static void *append(void *arg)
{
    struct world *w = arg;
    for (uint32_t i = 0; i < w->count; i++)
        add(w, w->vectors + i * DIMS);
    return NULL;
}

static void rows_are_added_beside_searches(void **state)
{
    (void)state;
    static float centres[CENTRES * DIMS];
    struct kiln_vector_hit hits[5];
    pthread_t thread;
    struct world w;
    world_open(&w, 2000, centres);
    assert_int_equal(pthread_create(&thread, NULL, append, &w), 0);
    for (uint32_t seen = 0; seen < 2 * w.count;) {
        seen = kiln_vector_index_count(w.index);
        struct kiln_vector_found found = find(&w, w.vectors, NULL, 0, 5, false, hits);
        assert_int_equal(found.count, 5);
        assert_true(found.compared >= seen);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_are_found),
        cmocka_unit_test(a_filter_never_costs_a_hit),
        cmocka_unit_test(what_is_gone_or_empty_is_not_found),
        cmocka_unit_test(as_many_are_found_as_wanted_wherever_they_are),
        cmocka_unit_test(the_background_is_what_strangers_score),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(sketches_are_near_where_vectors_are),
        cmocka_unit_test(rows_are_added_beside_searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
