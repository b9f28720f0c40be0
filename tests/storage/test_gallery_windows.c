/* test_gallery_windows.c - windows of the index of words: they meet, and leave no job out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "storage/ledger/gallery/windows.h"
#include "tests/support/random.h"

#define PART ((uint64_t)1 << KILN_PART_BITS)

/* The parts that are named; they must be one run. */
static void read_parts(const char *parts, uint64_t *ret_low, uint64_t *ret_high)
{
    const char *at = strstr(parts, "'j:");
    assert_non_null(at);
    *ret_low = *ret_high = strtoull(at + 3, NULL, 10);
    for (at++; (at = strstr(at, "'j:")) != NULL; at++)
        assert_true(strtoull(at + 3, NULL, 10) == ++*ret_high);
}

/* Walks all windows; each begins where the one before ended. */
static void walk(const struct kiln_gallery_index *index, bool newer, uint64_t at, uint64_t farthest,
                 struct test_random *random)
{
    struct kiln_error err;
    struct kiln_parts window;
    uint64_t next = 0, low, high;
    int count = 0;
    kiln_parts_begin(&window, index, newer, at, farthest, 49);
    if (test_random_below(random, 2))
        kiln_parts_allow_whole(&window, index);
    bool more = newer ? window.at < window.farthest : window.at > window.farthest;
    const uint64_t from = newer ? window.at + 1 : window.at - 1, to = window.farthest;
    if (!more)
        return;
    for (; more; count++) {
        char *lexemes, *parts;
        assert_int_equal(kiln_parts_lexemes(&window, "('x')", &lexemes, &parts, &err), 0);
        assert_string_equal(lexemes, "('x')");
        if (window.whole) {
            const uint64_t begin = count ? next : from / PART;
            assert_null(parts);
            low = newer ? begin : to / PART;
            high = newer ? to / PART : begin;
        } else {
            read_parts(parts, &low, &high);
        }
        free(lexemes);
        free(parts);
        if (window.whole && test_random_below(random, 2)) { /* it had too many */
            kiln_parts_narrow(&window);
            assert_int_equal(kiln_parts_lexemes(&window, "('x')", &lexemes, &parts, &err), 0);
            read_parts(parts, &low, &high);
            free(lexemes);
            free(parts);
        }
        assert_true(high - low < 128 || window.whole);
        assert_true((newer ? low : high) == (count ? next : from / PART));
        next = newer ? high + 1 : low - 1;
        more = kiln_parts_next(&window, test_random_below(random, 60), 49, kiln_clock_ms() + 1000);
        if (more)
            assert_true(newer ? window.at == (high + 1) * PART - 1 : window.at == low * PART);
    }
    assert_true((newer ? high : low) == to / PART);
}

static void windows_cover_all_jobs(void **state)
{
    (void)state;
    struct test_random random = {31};
    for (int i = 0; i < 20000; i++) {
        struct kiln_gallery_index index = {.complete = true, .words = 2, .pictures = 1000000};
        index.first = test_random_below(&random, 3) ? test_random_below(&random, 5000000) : 1;
        index.last = index.first + test_random_below(&random, 4000000);
        index.rarest = test_random_below(&random, 3) ? test_random_below(&random, 20000) : 0;
        const bool newer = test_random_below(&random, 2);
        uint64_t at = test_random_below(&random, 4) ? test_random_below(&random, 10000000)
                      : newer                       ? 0
                                                    : INT64_MAX;
        uint64_t farthest = test_random_below(&random, 4) ? test_random_below(&random, 10000000)
                            : newer                       ? INT64_MAX
                                                          : 0;
        walk(&index, newer, at, farthest, &random);
    }
}

static void a_rare_word_is_asked_for_at_once(void **state)
{
    (void)state;
    const struct kiln_gallery_index index = {
        .pictures = 1000000, .rarest = 100, .first = 1, .last = 1000000};
    struct kiln_parts window;
    kiln_parts_begin(&window, &index, false, INT64_MAX, 0, 49);
    assert_true(window.whole);
    assert_false(kiln_parts_next(&window, 0, 49, kiln_clock_ms() + 1000));
    /* Or where that is cheaper than the parts that are needed, and within its limit. */
    const struct {
        uint32_t rarest, wanted;
        bool whole;
    } cases[] = {
        {600, 49, true}, {650, 49, false}, {999, 150, true}, {1000, 150, false}, {0, 150, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kiln_gallery_index other = index;
        other.rarest = cases[i].rarest;
        kiln_parts_begin(&window, &other, false, INT64_MAX, 0, cases[i].wanted);
        assert_true(window.whole == cases[i].whole);
    }
}

static void the_first_window_is_as_wide_as_the_frequency_says(void **state)
{
    (void)state;
    struct kiln_gallery_index index = {.pictures = 1000000, .first = 1, .last = 64 * PART - 2};
    struct kiln_parts window;
    index.rarest = 640; /* ten in each of 64 parts */
    kiln_parts_begin(&window, &index, false, INT64_MAX, 0, 49);
    assert_int_equal(window.parts, 49 * 3 / 2 / 10 + 1);
    index.rarest = 64000;
    kiln_parts_begin(&window, &index, false, INT64_MAX, 0, 49);
    assert_int_equal(window.parts, 1);
    /* The newest part has just begun. */
    index.last = 64 * PART + 10;
    kiln_parts_begin(&window, &index, false, INT64_MAX, 0, 49);
    assert_int_equal(window.parts, 2);
    index.last = 64 * PART - 2;
    kiln_parts_begin(&window, &index, false, INT64_MAX, 0, 49);
    /* Fewer hits than thought: wider, as far as the time goes. */
    window.begun_ms = kiln_clock_ms();
    assert_true(kiln_parts_next(&window, 0, 49, kiln_clock_ms() + 100000));
    assert_int_equal(window.parts, 8);
    window.begun_ms = kiln_clock_ms() - 100;
    assert_true(kiln_parts_next(&window, 0, 49, kiln_clock_ms() + 20));
    assert_int_equal(window.parts, 1);
}

static void the_rest_of_words_that_are_seldom_together_is_one_window(void **state)
{
    (void)state;
    struct kiln_gallery_index index = {
        .pictures = 1000000, .words = 2, .rarest = 10000, .first = 1, .last = 64 * PART - 2};
    struct kiln_parts window;
    kiln_parts_begin(&window, &index, false, INT64_MAX, 0, 49);
    assert_int_equal(window.parts, 1);
    kiln_parts_allow_whole(&window, &index);
    assert_true(kiln_parts_next(&window, 6, 49, kiln_clock_ms() + 1000)); /* 441 of 63 parts */
    assert_true(window.whole && window.at == 63 * PART);
    kiln_parts_narrow(&window); /* there were more */
    assert_true(!window.whole && window.parts == 1 && window.at == 63 * PART);
    assert_true(kiln_parts_next(&window, 0, 49, kiln_clock_ms() + 1000));
    assert_false(window.whole);
    /* Not with many hits, for a phrase, a single word or long lists. */
    const struct {
        uint32_t had, words, rarest;
        bool phrase;
    } others[] = {
        {7, 2, 10000, false}, {0, 2, 10000, true}, {0, 1, 10000, false}, {0, 2, 60000, false}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        index.words = others[i].words;
        index.rarest = others[i].rarest;
        index.phrase = others[i].phrase;
        kiln_parts_begin(&window, &index, false, INT64_MAX, 0, 49);
        kiln_parts_allow_whole(&window, &index);
        assert_true(kiln_parts_next(&window, others[i].had, 49, kiln_clock_ms() + 1000));
        assert_false(window.whole);
    }
}

static void a_window_has_no_frequent_beginnings(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"('red') & ('sta':*)", "('red')"},
        {"('sta':*) & ('red') & 's:a''(:*)'", "('red') & 's:a''(:*)'"},
        {"('neon' <-> 'pu':*) & ('red')", "('neon' <-> 'pu':*) & ('red')"},
        {"!('sta':*) & ('red')", "!('sta':*) & ('red')"},
        {"('st':*) & ('sta':*) & ('r')", "('st':*) & ('r')"},
    };
    struct kiln_gallery_index index = {.rarest = 50, .first = 1, .last = 1000};
    struct kiln_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int loose = 0; loose < 2; loose++) {
            struct kiln_parts window;
            char *lexemes, *parts;
            snprintf(index.frequent, sizeof index.frequent, "%s",
                     loose ? "('sta':*) ('ring':*)" : "");
            kiln_parts_begin(&window, &index, false, INT64_MAX, 0, 49);
            assert_int_equal(kiln_parts_lexemes(&window, cases[i][0], &lexemes, &parts, &err), 0);
            assert_string_equal(lexemes, cases[i][loose]);
            assert_null(parts); /* few pictures have the word: all of them at once */
            free(lexemes);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_cover_all_jobs),
        cmocka_unit_test(a_rare_word_is_asked_for_at_once),
        cmocka_unit_test(the_first_window_is_as_wide_as_the_frequency_says),
        cmocka_unit_test(the_rest_of_words_that_are_seldom_together_is_one_window),
        cmocka_unit_test(a_window_has_no_frequent_beginnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
