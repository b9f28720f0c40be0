/* test_donor_index.c - the donors in memory, against a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cache/index.h"
#include "tests/support/random.h"

#define JOBS 3000
#define KEYS 40
#define WEIGHTS 2

static void key_of(uint32_t number, uint8_t ret[KILN_DONOR_KEY])
{
    memset(ret, 0, KILN_DONOR_KEY);
    memcpy(ret, &number, sizeof number); /* few heads: the chains hold several keys */
    ret[KILN_DONOR_KEY - 1] = (uint8_t)(number * 7);
}

static void a_pool_is_of_one_key_and_weights(void **state)
{
    (void)state;
    struct kiln_donor_index *index = kiln_donor_index_new(10);
    struct kiln_donor_entry entry = {.job = 1, .weights = 5, .uses = 2};
    uint8_t other[KILN_DONOR_KEY];
    key_of(3, entry.key);
    key_of(4, other);
    assert_int_equal(kiln_donor_index_pool(index, entry.key, 5).donors, 0);
    assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    entry.job = 2;
    entry.uses = 1;
    assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    struct kiln_donor_pool pool = kiln_donor_index_pool(index, entry.key, 5);
    assert_true(pool.donors == 2 && pool.job == 2 && pool.uses == 1);
    assert_int_equal(kiln_donor_index_pool(index, entry.key, 6).donors, 0);
    assert_int_equal(kiln_donor_index_pool(index, other, 5).donors, 0);
    kiln_donor_index_use(index, 2);
    kiln_donor_index_use(index, 2);
    pool = kiln_donor_index_pool(index, entry.key, 5);
    assert_true(pool.job == 1 && pool.uses == 2);
    /* Read again from the ledger, which has not seen the uses yet. */
    assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    assert_int_equal(kiln_donor_index_count(index), 2);
    assert_int_equal(kiln_donor_index_pool(index, entry.key, 5).job, 1);
    assert_true(kiln_donor_index_remove(index, 1));
    assert_false(kiln_donor_index_remove(index, 1));
    pool = kiln_donor_index_pool(index, entry.key, 5);
    assert_true(pool.donors == 1 && pool.job == 2 && pool.uses == 3);
    kiln_donor_index_free(index);
}

static void the_bound_holds(void **state)
{
    (void)state;
    struct kiln_donor_index *index = kiln_donor_index_new(3);
    struct kiln_donor_entry entry = {.weights = 1};
    for (entry.job = 1; entry.job <= 3; entry.job++)
        assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    assert_int_equal(kiln_donor_index_put(index, &entry), KILN_FULL);
    assert_true(kiln_donor_index_remove(index, 2));
    assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    assert_int_equal(kiln_donor_index_count(index), 3);
    kiln_donor_index_free(index);
    kiln_donor_index_free(NULL);
}

/* A popular prompt costs a look-up no more than KILN_POOL_LOOK donors. */
static void a_large_pool_is_not_walked_whole(void **state)
{
    (void)state;
    struct kiln_donor_index *index = kiln_donor_index_new(10000);
    struct kiln_donor_entry entry = {.weights = 1};
    for (entry.job = 1; entry.job <= 10000; entry.job++)
        assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    assert_int_equal(kiln_donor_index_pool(index, entry.key, 1).donors, KILN_POOL_LOOK);
    kiln_donor_index_free(index);
}

struct plain {
    bool there;
    uint32_t key;
    uint64_t weights;
    uint32_t uses;
};

static void check(const struct kiln_donor_index *index, const struct plain *jobs)
{
    for (uint32_t number = 0; number < KEYS; number++)
        for (uint64_t weights = 0; weights < WEIGHTS; weights++) {
            uint8_t key[KILN_DONOR_KEY];
            uint32_t donors = 0, least = UINT32_MAX;
            key_of(number, key);
            for (size_t i = 0; i < JOBS; i++)
                if (jobs[i].there && jobs[i].key == number && jobs[i].weights == weights) {
                    donors++;
                    least = jobs[i].uses < least ? jobs[i].uses : least;
                }
            const struct kiln_donor_pool pool = kiln_donor_index_pool(index, key, weights);
            assert_int_equal(pool.donors, donors);
            if (donors) {
                assert_int_equal(pool.uses, least);
                assert_true(jobs[pool.job].there && jobs[pool.job].key == number);
                assert_int_equal(jobs[pool.job].uses, least);
            }
        }
}

static void random_changes(void **state)
{
    (void)state;
    struct plain *jobs = calloc(JOBS, sizeof *jobs);
    struct kiln_donor_index *index = kiln_donor_index_new(JOBS);
    struct test_random random = {33};
    assert_true(jobs && index);
    for (int turn = 0; turn < 20000; turn++) {
        const uint32_t job = test_random_below(&random, JOBS);
        struct plain *plain = &jobs[job];
        switch (test_random_below(&random, 4)) {
        case 0:
            assert_int_equal(kiln_donor_index_remove(index, job), plain->there);
            *plain = (struct plain){0};
            break;
        case 1:
            kiln_donor_index_use(index, job);
            plain->uses += plain->there;
            break;
        default: {
            const uint32_t key = test_random_below(&random, KEYS);
            struct kiln_donor_entry entry = {.job = job,
                                             .weights = test_random_below(&random, WEIGHTS),
                                             .uses = test_random_below(&random, 5)};
            key_of(key, entry.key);
            assert_int_equal(kiln_donor_index_put(index, &entry), 0);
            const uint32_t kept = plain->there && plain->key == key ? plain->uses : 0;
            *plain =
                (struct plain){true, key, entry.weights, entry.uses > kept ? entry.uses : kept};
        }
        }
        if (turn % 2000 == 0)
            check(index, jobs);
    }
    check(index, jobs);
    kiln_donor_index_free(index);
    free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_is_of_one_key_and_weights),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(a_large_pool_is_not_walked_whole),
        cmocka_unit_test(random_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
