/* test_alike.c - near-duplicates in memory, and the fingerprint of a picture file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/gallery/alike/near.h"
#include "scheduler/gallery/alike/pixels.h"
#include "storage/formats/pictures/pdq.h"
#include "storage/formats/pictures/webp.h"
#include "tests/support/jobs.h"
#include "tests/support/random.h"

#define PICTURES 5000 /* more than the first room, and than are compared at a time */
#define MOST 20

static struct kiln_error err;
static struct test_random rng;

static struct kiln_fingerprint random_print(uint64_t job)
{
    struct kiln_fingerprint print = {.job = job, .quality = 50 + test_random_below(&rng, 51)};
    for (size_t i = 0; i < sizeof print.hash; i++)
        print.hash[i] = (uint8_t)test_random_below(&rng, 256);
    return print;
}

static void flip(struct kiln_fingerprint *print, uint32_t bits)
{
    for (uint32_t done = 0; done < bits; done++) {
        uint32_t bit = test_random_below(&rng, 256);
        print->hash[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* The plain way: every picture, by the definition. */
static uint32_t expected(const struct kiln_fingerprint *prints, uint32_t count,
                         const struct kiln_fingerprint *wanted, struct kiln_near_hit *hits)
{
    static int distances[PICTURES];
    uint32_t found = 0;
    if (wanted->quality < KILN_PDQ_QUALITY_MIN)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        distances[i] = kiln_pdq_distance(prints[i].hash, wanted->hash);
    for (int distance = 0; distance <= KILN_PDQ_NEAR; distance++)
        for (uint32_t i = count; i-- > 0;)
            if (prints[i].job && prints[i].job != wanted->job &&
                prints[i].quality >= KILN_PDQ_QUALITY_MIN && found < MOST &&
                distances[i] == distance)
                hits[found++] = (struct kiln_near_hit){prints[i].job, distance};
    return found;
}

static void expect_found(struct kiln_near *near, const struct kiln_fingerprint *prints,
                         uint32_t count, const struct kiln_fingerprint *wanted)
{
    struct kiln_near_hit hits[MOST], right[MOST];
    uint32_t found = kiln_near_find(near, wanted, hits, MOST);
    assert_int_equal(found, expected(prints, count, wanted, right));
    for (uint32_t i = 0; i < found; i++) {
        assert_int_equal(hits[i].job, right[i].job);
        assert_int_equal(hits[i].distance, right[i].distance);
    }
}

static void the_nearest_are_found_whatever_came_and_went(void **state)
{
    (void)state;
    static struct kiln_fingerprint prints[PICTURES];
    struct kiln_near *near = NULL;
    rng = (struct test_random){31};
    kiln_test_ok(kiln_near_new(&near, &err), err);
    for (uint32_t i = 0; i < PICTURES; i++) {
        prints[i] = random_print(i + 1);
        if (i % 3 && i > 0) { /* near one that came before, on both sides of the limit */
            memcpy(prints[i].hash, prints[test_random_below(&rng, i)].hash, sizeof prints[i].hash);
            flip(&prints[i], test_random_below(&rng, 45));
        }
        if (i % 11 == 0)
            prints[i].quality = 20 + test_random_below(&rng, 30);
        kiln_test_ok(kiln_near_put(near, &prints[i], &err), err);
    }
    for (uint32_t i = 0; i < PICTURES; i += 7)
        expect_found(near, prints, PICTURES, &prints[i]);
    for (uint32_t round = 0; round < 2000; round++) {
        struct kiln_fingerprint *print = &prints[test_random_below(&rng, PICTURES)];
        uint64_t job = (uint64_t)(print - prints) + 1;
        if (test_random_below(&rng, 2)) {
            kiln_near_remove(near, job);
            print->job = 0;
        } else { /* also one that is there: with another hash, or too plain now */
            struct kiln_fingerprint other = random_print(job);
            memcpy(other.hash, prints[test_random_below(&rng, PICTURES)].hash, sizeof other.hash);
            other.quality = test_random_below(&rng, 101);
            *print = other;
            kiln_test_ok(kiln_near_put(near, print, &err), err);
        }
    }
    uint32_t there = 0;
    for (uint32_t i = 0; i < PICTURES; i++)
        there += prints[i].job && prints[i].quality >= KILN_PDQ_QUALITY_MIN;
    assert_int_equal(kiln_near_count(near), there);
    for (uint32_t i = 0; i < PICTURES; i += 7) {
        struct kiln_fingerprint wanted = prints[i];
        wanted.job = wanted.job ? wanted.job : PICTURES + 1;
        expect_found(near, prints, PICTURES, &wanted);
    }
    kiln_near_free(near);
}

static void a_plain_picture_has_no_near_duplicates(void **state)
{
    (void)state;
    struct kiln_near *near = NULL;
    struct kiln_near_hit hit;
    struct kiln_fingerprint print = {.job = 1, .quality = KILN_PDQ_QUALITY_MIN - 1};
    kiln_test_ok(kiln_near_new(&near, &err), err);
    assert_int_equal(kiln_near_find(near, &print, &hit, 1), 0);
    kiln_test_ok(kiln_near_put(near, &print, &err), err);
    assert_int_equal(kiln_near_count(near), 0);
    print = (struct kiln_fingerprint){.job = 2, .quality = KILN_PDQ_QUALITY_MIN};
    kiln_test_ok(kiln_near_put(near, &print, &err), err);
    print.job = 3;
    assert_int_equal(kiln_near_find(near, &print, &hit, 1), 1);
    assert_int_equal(hit.job, 2);
    kiln_near_free(near);
}

static void a_file_gives_its_hash_and_mean_colour(void **state)
{
    (void)state;
    enum { SIDE = 96 };
    static uint8_t rgb[SIDE * SIDE * 3];
    struct kiln_pdq turns[KILN_PDQ_TURNS];
    struct kiln_fingerprint print = {.job = 5, .file = 7};
    uint8_t *file = NULL;
    size_t size;
    for (int i = 0; i < SIDE * SIDE; i++) { /* a quarter white on blue */
        bool white = i % SIDE < SIDE / 2 && i / SIDE < SIDE / 2;
        memcpy(rgb + 3 * i, white ? "\xff\xff\xff" : "\x10\x20\xc0", 3);
    }
    kiln_test_ok(kiln_webp_encode(rgb, SIDE, SIDE, &(struct kiln_webp_options){.lossless = 1},
                                  &file, &size, &err),
                 err);
    kiln_test_ok(kiln_fingerprint_of(file, size, &print, &err), err);
    kiln_test_ok(kiln_pdq(rgb, SIDE, SIDE, turns, &err), err);
    assert_memory_equal(print.hash, turns[0].hash, KILN_PDQ_BYTES);
    assert_int_equal(print.quality, turns[0].quality);
    assert_int_equal(print.colour, 0x4c58d0); /* (255 + 3 * 16) / 4 and so on, rounded */
    assert_true(print.job == 5 && print.file == 7);
    for (size_t cut = 0; cut < size; cut += 1 + size / 40)
        assert_int_not_equal(kiln_fingerprint_of(file, cut, &print, &err), 0);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_are_found_whatever_came_and_went),
        cmocka_unit_test(a_plain_picture_has_no_near_duplicates),
        cmocka_unit_test(a_file_gives_its_hash_and_mean_colour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
