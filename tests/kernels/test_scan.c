/* test_scan.c - scans of 8-bit rows and of sketches, against their definitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/vectors/scan.h"
#include "tests/support/random.h"

#define ROWS 300
#define WORDS_MAX (KILN_SKETCH_WORDS_MAX + 1)

static int64_t product_of(const uint8_t *row, const int8_t *query, int64_t dims)
{
    int64_t sum = 0;
    for (int64_t d = 0; d < dims; d++)
        sum += ((int64_t)row[d] - 128) * query[d];
    return sum;
}

static void check_products(struct test_random *random, int64_t dims)
{
    uint8_t *rows = malloc((size_t)(ROWS * dims));
    int8_t *query = malloc((size_t)dims);
    int32_t got[ROWS];
    uint32_t picked[ROWS];
    test_random_fill(random, rows, (size_t)(ROWS * dims));
    test_random_fill(random, (uint8_t *)query, (size_t)dims);
    memset(rows, 0, (size_t)dims), memset(rows + dims, 255, (size_t)dims); /* the ends */
    kiln_scan_rows(rows, ROWS, dims, query, got);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(got[i], product_of(rows + i * dims, query, dims));
    for (int i = 0; i < ROWS; i++)
        picked[i] = (uint32_t)test_random_below(random, ROWS);
    kiln_scan_picked(rows, picked, ROWS, dims, query, got);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(got[i], product_of(rows + picked[i] * dims, query, dims));
    free(rows), free(query);
}

static void products_are_exact(void **state)
{
    (void)state;
    struct test_random random = {17};
    const int64_t dims[] = {1, 7, 31, 64, 100, 256, 384, 1024};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        check_products(&random, dims[i]);
}

static void the_longest_rows_do_not_overflow(void **state)
{
    (void)state;
    static uint8_t rows[2][KILN_SCAN_DIMS_MAX];
    static int8_t query[KILN_SCAN_DIMS_MAX];
    int32_t got[2];
    memset(rows[1], 255, sizeof rows[1]), memset(query, -128, sizeof query);
    kiln_scan_rows(rows[0], 2, KILN_SCAN_DIMS_MAX, query, got);
    assert_int_equal(got[0], 128 * 128 * KILN_SCAN_DIMS_MAX);
    assert_int_equal(got[1], -127 * 128 * KILN_SCAN_DIMS_MAX);
}

static int bit_of(const uint64_t *words, int64_t bit)
{
    return (int)(words[bit / 64] >> bit % 64 & 1);
}

/* `count` of the sketches; of the block of the last one the rest is not looked at. */
static void check_sketches(struct test_random *random, int words, int64_t count)
{
    enum { BLOCK = KILN_SKETCH_BLOCK, PLANES = KILN_SKETCH_PLANES };
    static uint64_t blocks[(ROWS + BLOCK) * KILN_SKETCH_WORDS_MAX];
    uint64_t planes[PLANES * KILN_SKETCH_WORDS_MAX];
    uint16_t got[ROWS + 1];
    test_random_fill(random, (uint8_t *)blocks, sizeof blocks);
    test_random_fill(random, (uint8_t *)planes, sizeof planes);
    for (int w = 0; w < words; w++) { /* the ends */
        for (int p = 0; p < PLANES; p++)
            planes[p * words + w] = planes[w];
        blocks[w * BLOCK + 3] = planes[w], blocks[w * BLOCK + 4] = ~planes[w];
    }
    got[count] = 77;
    kiln_scan_sketches(blocks, count, words, planes, got);
    assert_int_equal(got[count], 77);
    assert_int_equal(got[3], 0);
    assert_int_equal(got[4], 64 * words * 15);
    test_random_fill(random, (uint8_t *)planes, sizeof planes);
    kiln_scan_sketches(blocks, count, words, planes, got);
    for (int64_t i = 0; i < count; i++) {
        int64_t differ = 0;
        for (int64_t bit = 0; bit < 64 * words; bit++) {
            const int64_t word = (i / BLOCK * words + bit / 64) * BLOCK + i % BLOCK;
            for (int p = 0; p < PLANES; p++)
                differ += (bit_of(blocks, 64 * word + bit % 64) != bit_of(planes + p * words, bit))
                          << p;
        }
        assert_int_equal(got[i], differ);
    }
}

static void distances_weigh_the_bits_of_a_query(void **state)
{
    (void)state;
    struct test_random random = {20};
    for (int words = 1; words <= KILN_SKETCH_WORDS_MAX; words++)
        for (int64_t count = ROWS - KILN_SKETCH_BLOCK; count <= ROWS; count++)
            check_sketches(&random, words, count);
    assert_int_equal(KILN_DISTANCE_MAX, 64 * KILN_SKETCH_WORDS_MAX * 15);
}

static void check_distances(struct test_random *random, int words)
{
    static uint64_t hashes[ROWS * WORDS_MAX], query[WORDS_MAX];
    uint16_t got[ROWS];
    test_random_fill(random, (uint8_t *)hashes, sizeof hashes);
    test_random_fill(random, (uint8_t *)query, sizeof query);
    memcpy(hashes + 3 * words, query, (size_t)words * sizeof *query);
    for (int w = 0; w < words; w++)
        hashes[4 * words + w] = ~query[w];
    kiln_scan_hashes(hashes, ROWS, words, query, got);
    assert_int_equal(got[3], 0);
    assert_int_equal(got[4], 64 * words);
    for (int i = 0; i < ROWS; i++) {
        const uint64_t *hash = hashes + i * words;
        int differ = 0;
        for (int bit = 0; bit < 64 * words; bit++)
            differ += (hash[bit / 64] >> bit % 64 & 1) != (query[bit / 64] >> bit % 64 & 1);
        assert_int_equal(got[i], differ);
    }
}

static void distances_count_bits_that_differ(void **state)
{
    (void)state;
    struct test_random random = {18};
    for (int words = 1; words <= WORDS_MAX; words++)
        check_distances(&random, words);
}

static void check_cut(struct test_random *random, const uint64_t *mask, int64_t count)
{
    uint16_t distances[ROWS] = {0};
    uint32_t tally[KILN_DISTANCE_MAX + 1] = {0}, expected[KILN_DISTANCE_MAX + 1] = {0}, ret[ROWS];
    for (int64_t i = 0; i < count; i++) {
        distances[i] = (uint16_t)test_random_below(random, KILN_DISTANCE_MAX + 1);
        expected[distances[i]] += !mask || (mask[i / 64] >> i % 64 & 1);
    }
    tally[KILN_DISTANCE_MAX] = 5, expected[KILN_DISTANCE_MAX] += 5; /* it adds */
    kiln_scan_tally(distances, mask, count, 1, tally);
    assert_memory_equal(tally, expected, sizeof tally);
    memset(tally, 0, sizeof tally), memset(expected, 0, sizeof expected);
    for (int64_t i = 0; i < count; i += 3)
        expected[distances[i]] += !mask || (mask[i / 64] >> i % 64 & 1);
    kiln_scan_tally(distances, mask, count, 3, tally);
    assert_memory_equal(tally, expected, sizeof tally);

    const uint16_t below = KILN_DISTANCE_MAX * 2 / 5;
    int64_t found = kiln_scan_below(distances, mask, count, below, 1000, ret, ROWS), next = 0;
    for (int64_t i = 0; i < count; i++)
        if (distances[i] < below && (!mask || (mask[i / 64] >> i % 64 & 1)))
            assert_int_equal(ret[next++], 1000 + i);
    assert_int_equal(found, next);
    if (found > 1) { /* no more than there is room for */
        ret[found - 1] = 77;
        assert_int_equal(kiln_scan_below(distances, mask, count, below, 1000, ret, found - 1),
                         found - 1);
        assert_int_equal(ret[found - 1], 77);
    }
}

static void a_cut_finds_the_nearest_within_a_mask(void **state)
{
    (void)state;
    struct test_random random = {19};
    uint64_t mask[ROWS / 64 + 1];
    for (int round = 0; round < 20; round++) {
        test_random_fill(&random, (uint8_t *)mask, sizeof mask);
        check_cut(&random, mask, ROWS);
        check_cut(&random, NULL, ROWS - round);
    }
    check_cut(&random, mask, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_exact),
        cmocka_unit_test(the_longest_rows_do_not_overflow),
        cmocka_unit_test(distances_weigh_the_bits_of_a_query),
        cmocka_unit_test(distances_count_bits_that_differ),
        cmocka_unit_test(a_cut_finds_the_nearest_within_a_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
