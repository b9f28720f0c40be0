/* test_donor_index.c - the donors in memory, against a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cache/index.h"
#include "tests/support/random.h"

#define JOBS 3000
#define KEYS 40
#define TEXT (1 << 20)

/* Prompt number n: every fourth has the same canonical form, every eighth the same subject. */
static struct kiln_donor_entry entry_of(uint64_t job, uint32_t number, uint32_t uses)
{
    static char text[KEYS][16];
    struct kiln_donor_entry entry = {.job = job, .uses = uses, .prompt = text[number % KEYS]};
    const uint32_t shared[KILN_DONOR_WAYS] = {number, number / 4, number / 8};
    snprintf(text[number % KEYS], sizeof text[0], "prompt %u", number);
    entry.keys.worded = true;
    entry.keys.said = number % 3;
    for (int way = 0; way < KILN_DONOR_WAYS; way++) {
        /* Few heads: the chains hold several keys. */
        const uint32_t head = shared[way] % 3;
        memcpy(entry.keys.at[way], &head, sizeof head);
        memcpy(entry.keys.at[way] + 8, &shared[way], sizeof shared[way]);
    }
    return entry;
}

static struct kiln_donor_pool pool_of(const struct kiln_donor_index *index, uint32_t number)
{
    const struct kiln_donor_entry entry = entry_of(0, number, 0);
    return kiln_donor_index_pool(index, entry.keys.at[KILN_DONOR_EXACT]);
}

static void a_pool_is_of_one_prompt(void **state)
{
    (void)state;
    struct kiln_donor_index *index = kiln_donor_index_new(10, TEXT);
    struct kiln_donor_entry entry = entry_of(1, 3, 2);
    assert_int_equal(pool_of(index, 3).donors, 0);
    assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    entry = entry_of(2, 3, 1);
    assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    struct kiln_donor_pool pool = pool_of(index, 3);
    assert_true(pool.donors == 2 && pool.job == 2 && pool.uses == 1);
    assert_int_equal(pool_of(index, 4).donors, 0);
    kiln_donor_index_use(index, 2);
    kiln_donor_index_use(index, 2);
    pool = pool_of(index, 3);
    assert_true(pool.job == 1 && pool.uses == 2);
    /* Read again from the ledger, which has not seen the uses yet. */
    assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    assert_true(kiln_donor_index_count(index) == 2 && kiln_donor_index_prompts(index) == 1);
    assert_int_equal(pool_of(index, 3).job, 1);
    assert_true(kiln_donor_index_remove(index, 1));
    assert_false(kiln_donor_index_remove(index, 1));
    pool = pool_of(index, 3);
    assert_true(pool.donors == 1 && pool.job == 2 && pool.uses == 3);
    assert_true(kiln_donor_index_remove(index, 2));
    assert_int_equal(kiln_donor_index_prompts(index), 0);
    kiln_donor_index_free(index);
}

static void the_bounds_hold(void **state)
{
    (void)state;
    struct kiln_donor_index *index = kiln_donor_index_new(3, 20);
    struct kiln_donor_prompt prompt;
    for (uint32_t job = 1; job <= 3; job++) {
        const struct kiln_donor_entry entry = entry_of(job, job, 0);
        assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    }
    struct kiln_donor_entry more = entry_of(4, 4, 0);
    assert_int_equal(kiln_donor_index_put(index, &more), KILN_FULL);
    /* The texts of two fill their room: the third is found by its other keys alone. */
    uint32_t at = 0, left = 100, found = 0;
    while (kiln_donor_index_next(index, KILN_DONOR_SUBJECT, more.keys.at[KILN_DONOR_SUBJECT], 0,
                                 &at, &left, &prompt))
        found++;
    assert_int_equal(found, 2);
    for (at = 0, found = 0; kiln_donor_index_next(index, KILN_DONOR_CANONICAL,
                                                  entry_of(0, 3, 0).keys.at[KILN_DONOR_CANONICAL],
                                                  0, &at, &left, &prompt);)
        found++;
    assert_int_equal(found, 3);
    assert_int_equal(pool_of(index, 3).donors, 1);
    assert_true(kiln_donor_index_remove(index, 2));
    assert_int_equal(kiln_donor_index_put(index, &more), 0);
    assert_int_equal(kiln_donor_index_count(index), 3);
    kiln_donor_index_free(index);
    kiln_donor_index_free(NULL);
}

/* Neither a popular prompt nor a popular subject costs a look-up more than its bound. */
static void nothing_large_is_walked_whole(void **state)
{
    (void)state;
    struct kiln_donor_index *index = kiln_donor_index_new(10000, TEXT);
    struct kiln_donor_prompt prompt;
    for (uint32_t job = 1; job <= 2000; job++) {
        const struct kiln_donor_entry entry = entry_of(job, 1, 0);
        assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    }
    assert_int_equal(pool_of(index, 1).donors, KILN_POOL_LOOK);
    for (uint32_t job = 2001; job <= 4000; job++) {
        struct kiln_donor_entry entry = entry_of(job, 2, 0);
        memcpy(entry.keys.at[KILN_DONOR_EXACT], &job, sizeof job);
        assert_int_equal(kiln_donor_index_put(index, &entry), 0);
    }
    uint32_t at = 0, left = 300, found = 0;
    while (kiln_donor_index_next(index, KILN_DONOR_SUBJECT,
                                 entry_of(0, 2, 0).keys.at[KILN_DONOR_SUBJECT], 0, &at, &left,
                                 &prompt))
        found++;
    assert_true(found == 300 && left == 0);
    kiln_donor_index_free(index);
}

struct plain {
    bool there;
    uint32_t number;
    uint32_t uses;
};

static void check(const struct kiln_donor_index *index, const struct plain *jobs)
{
    bool known[KEYS] = {false};
    for (uint32_t number = 0; number < KEYS; number++) {
        uint32_t donors = 0, least = UINT32_MAX;
        for (size_t i = 0; i < JOBS; i++)
            if (jobs[i].there && jobs[i].number == number) {
                donors++;
                least = jobs[i].uses < least ? jobs[i].uses : least;
            }
        const struct kiln_donor_pool pool = pool_of(index, number);
        assert_int_equal(pool.donors, donors);
        known[number] = donors > 0;
        if (donors) {
            assert_int_equal(pool.uses, least);
            assert_true(jobs[pool.job].there && jobs[pool.job].number == number);
            assert_int_equal(jobs[pool.job].uses, least);
        }
    }
    for (uint32_t number = 0; number < KEYS; number++)
        for (int way = KILN_DONOR_CANONICAL; way < KILN_DONOR_WAYS; way++)
            for (uint64_t said = 0; said < 3; said++) {
                const struct kiln_donor_entry of = entry_of(0, number, 0);
                struct kiln_donor_prompt prompt;
                uint32_t at = 0, left = KILN_CHAIN_LOOK, expected = 0, found = 0;
                const uint32_t shared = way == KILN_DONOR_CANONICAL ? 4 : 8;
                for (uint32_t other = 0; other < KEYS; other++)
                    expected += known[other] && other / shared == number / shared &&
                                (said & ~(uint64_t)(other % 3)) == 0;
                while (kiln_donor_index_next(index, (enum kiln_donor_way)way, of.keys.at[way], said,
                                             &at, &left, &prompt)) {
                    const unsigned long other = strtoul(prompt.text + 7, NULL, 10);
                    assert_memory_equal(prompt.exact,
                                        entry_of(0, (uint32_t)other, 0).keys.at[KILN_DONOR_EXACT],
                                        KILN_DONOR_KEY);
                    found++;
                }
                assert_int_equal(found, expected);
            }
}

static void random_changes(void **state)
{
    (void)state;
    struct plain *jobs = calloc(JOBS, sizeof *jobs);
    struct kiln_donor_index *index = kiln_donor_index_new(JOBS, TEXT);
    struct test_random random = {33};
    assert_true(jobs && index);
    for (int turn = 0; turn < 20000; turn++) {
        const uint32_t job = test_random_below(&random, JOBS);
        struct plain *plain = &jobs[job];
        switch (test_random_below(&random, turn < 15000 ? 4 : 2)) {
        case 0:
            assert_int_equal(kiln_donor_index_remove(index, job), plain->there);
            *plain = (struct plain){0};
            break;
        case 1:
            kiln_donor_index_use(index, job);
            plain->uses += plain->there;
            break;
        default: {
            const uint32_t number = test_random_below(&random, KEYS);
            const uint32_t uses = test_random_below(&random, 5);
            const struct kiln_donor_entry entry = entry_of(job, number, uses);
            assert_int_equal(kiln_donor_index_put(index, &entry), 0);
            const uint32_t kept = plain->there && plain->number == number ? plain->uses : 0;
            *plain = (struct plain){true, number, uses > kept ? uses : kept};
        }
        }
        if (turn % 2000 == 0)
            check(index, jobs);
    }
    check(index, jobs);
    for (uint32_t job = 0; job < JOBS; job++)
        (void)kiln_donor_index_remove(index, job);
    assert_true(kiln_donor_index_count(index) == 0 && kiln_donor_index_prompts(index) == 0);
    kiln_donor_index_free(index);
    free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_is_of_one_prompt),
        cmocka_unit_test(the_bounds_hold),
        cmocka_unit_test(nothing_large_is_walked_whole),
        cmocka_unit_test(random_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
