/* test_places.c - things that come, go and come back are found, each by its own number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schemas/places.h"
#include "schemas/random.h"

#define THINGS 3000
#define HASHES 700 /* so that many things share one */

static uint32_t hash_of(uint32_t id)
{
    return id % HASHES * 2654435761u;
}

static bool hash_at(const void *things, uint32_t n, uint32_t *ret)
{
    const uint32_t *ids = things;
    *ret = hash_of(ids[n]);
    return ids[n] != 0;
}

static uint32_t find(const struct kiln_places *places, const uint32_t *ids, uint32_t id)
{
    uint32_t place = hash_of(id), n;
    while ((n = kiln_places_look(places, &place)) != KILN_PLACES_NONE)
        if (ids[n] == id)
            break;
    return n;
}

static void nothing_is_in_an_empty_table(void **state)
{
    (void)state;
    struct kiln_places places = {0};
    uint32_t place = 7;
    assert_int_equal(kiln_places_look(&places, &place), KILN_PLACES_NONE);
    kiln_places_release(&places);
}

static void things_are_found_whatever_came_and_went(void **state)
{
    (void)state;
    static uint32_t ids[THINGS], rows[THINGS + 1]; /* the thing in a row; the row of a thing + 1 */
    struct kiln_places places = {0};
    uint64_t seed = 31;
    uint32_t count = 0;
    for (int step = 0; step < 20 * THINGS; step++) {
        const uint32_t id = 1 + (uint32_t)(kiln_random_share(&seed) * THINGS) % THINGS;
        const uint32_t row = find(&places, ids, id);
        assert_int_equal(row, rows[id] - 1u);
        if (row != KILN_PLACES_NONE && step % 3) {
            ids[row] = rows[id] = 0;
        } else if (row == KILN_PLACES_NONE) {
            uint32_t free = 0;
            while (free < count && ids[free])
                free++;
            assert_true(kiln_places_fit(&places, ids, count, hash_at));
            assert_true(places.taken < (places.mask + 1) / 4 * 3);
            ids[free] = id;
            rows[id] = free + 1;
            count += free == count;
            kiln_places_add(&places, hash_of(id), free);
        }
    }
    assert_in_range(places.mask + 1, count, 4 * THINGS);
    kiln_places_release(&places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_in_an_empty_table),
        cmocka_unit_test(things_are_found_whatever_came_and_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
