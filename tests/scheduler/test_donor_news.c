/* test_donor_news.c - a job is looked at again whenever a donor came that may be its own, hardly
 * otherwise, and at the same cost however many jobs have its prompt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/cache/news.h"
#include "schemas/random.h"
#include "schemas/reuse/block.h"

static struct kiln_donor_news *news;

static int start(void **state)
{
    (void)state;
    news = kiln_donor_news_new();
    return !news;
}

static int end(void **state)
{
    (void)state;
    kiln_donor_news_free(news);
    return 0;
}

static struct kiln_reuse_look look_now(uint32_t exact, uint32_t canonical, uint32_t subject)
{
    struct kiln_reuse_look look = {kiln_donor_news_turn(news), {{exact, canonical, subject}}};
    kiln_donor_news_narrow(news, 0, &look.marks); /* waits for any donor of the subject */
    return look;
}

static void a_donor_outdates_looks_that_share_a_mark(void **state)
{
    (void)state;
    const struct kiln_reuse_look never = {0};
    const struct kiln_reuse_marks donor = {{1, 2, 3}}, nothing = {{0, 0, 0}};
    assert_true(kiln_donor_news_since(news, &never));
    const struct kiln_reuse_look same = look_now(1, 2, 3), typed = look_now(4, 2, 3),
                                 worded = look_now(5, 6, 3), other = look_now(7, 8, 9),
                                 bare = look_now(1, 0, 0);
    assert_false(kiln_donor_news_ever(news, &same.marks));
    kiln_donor_news_add(news, &donor, 0);
    assert_true(kiln_donor_news_since(news, &same) && kiln_donor_news_since(news, &typed));
    assert_true(kiln_donor_news_since(news, &worded) && kiln_donor_news_since(news, &bare));
    assert_false(kiln_donor_news_since(news, &other));
    assert_true(kiln_donor_news_ever(news, &worded.marks));
    assert_false(kiln_donor_news_ever(news, &other.marks));
    const struct kiln_reuse_look again = look_now(1, 2, 3);
    assert_false(kiln_donor_news_since(news, &again));
    /* A mark of one way is none of another, and that of a donor without words is only its own. */
    const struct kiln_reuse_look turned = look_now(3, 1, 2), last = look_now(10, 11, 12);
    kiln_donor_news_add(news, &donor, 0);
    assert_false(kiln_donor_news_since(news, &turned));
    kiln_donor_news_add(news, &(struct kiln_reuse_marks){{10, 0, 0}}, 0);
    assert_true(kiln_donor_news_since(news, &last));
    const struct kiln_reuse_look none = look_now(0, 0, 0);
    kiln_donor_news_add(news, &nothing, 0);
    assert_false(kiln_donor_news_since(news, &none) || kiln_donor_news_ever(news, &none.marks));
    kiln_donor_news_all(news);
    assert_true(kiln_donor_news_since(news, &none) && kiln_donor_news_since(news, &other));
}

/* Of many donors with a job's subject those that lack what it waits for are no news to it; one that
 * says all of it always is. */
static void donors_that_say_less_are_no_news(void **state)
{
    (void)state;
    enum { ROUNDS = 2000 };
    uint64_t random = 50;
    size_t served = 0, vain = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t job = kiln_random_next(&random) & kiln_random_next(&random) &
                             kiln_random_next(&random),
                       other = kiln_random_next(&random) & kiln_random_next(&random),
                       donor = i % 8 ? other : other | job;
        const struct kiln_reuse_marks subject = {{0, 0, 5}};
        struct kiln_reuse_look look = {.turn = kiln_donor_news_turn(news), .marks = subject};
        kiln_donor_news_narrow(news, job, &look.marks);
        kiln_donor_news_add(news, &subject, donor);
        const bool serves = kiln_reuse_said_serves(job, donor);
        assert_true(!serves || kiln_donor_news_since(news, &look));
        assert_true(!serves || kiln_donor_news_ever(news, &look.marks));
        served += serves;
        vain += !serves && kiln_donor_news_since(news, &look);
    }
    assert_in_range(served, ROUNDS / 8, ROUNDS / 2);
    assert_in_range(vain, 0, ROUNDS / 4); /* a donor says a quarter of all there is */
    /* A job that says nothing waits for any donor of its subject. */
    struct kiln_reuse_look bare = {.turn = kiln_donor_news_turn(news), .marks = {{0, 0, 5}}};
    kiln_donor_news_narrow(news, 0, &bare.marks);
    kiln_donor_news_add(news, &(struct kiln_reuse_marks){{0, 0, 6}}, 1);
    assert_false(kiln_donor_news_since(news, &bare));
    kiln_donor_news_add(news, &(struct kiln_reuse_marks){{0, 0, 5}}, 1);
    assert_true(kiln_donor_news_since(news, &bare));
}

/* Against the plain way: nothing is missed, and less than one look in 100 is for nothing where
 * 1,000 donors came since. */
static void nothing_is_missed(void **state)
{
    (void)state;
    enum { DONORS = 20000, SINCE = 1000, LOOKS = 200 };
    static struct kiln_reuse_marks donors[DONORS];
    uint64_t random = 33;
    size_t vain = 0;
    for (size_t i = 0; i < DONORS; i++) {
        struct kiln_reuse_look look = {0};
        for (int k = 0; k < KILN_REUSE_MARKS; k++)
            donors[i].at[k] = (uint32_t)kiln_random_next(&random) | 1;
        kiln_donor_news_add(news, &donors[i], 0);
        if (i < SINCE || i % (DONORS / LOOKS) != 0)
            continue;
        look.turn = kiln_donor_news_turn(news) - SINCE;
        const size_t of = kiln_random_next(&random) % (i + 1);
        look.marks.at[i % KILN_REUSE_MARKS] = donors[of].at[i % KILN_REUSE_MARKS];
        kiln_donor_news_narrow(news, 0, &look.marks);
        if (of > i - SINCE)
            assert_true(kiln_donor_news_since(news, &look));
        else
            vain += kiln_donor_news_since(news, &look);
    }
    assert_in_range(vain, 0, LOOKS / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_donor_outdates_looks_that_share_a_mark, start, end),
        cmocka_unit_test_setup_teardown(donors_that_say_less_are_no_news, start, end),
        cmocka_unit_test_setup_teardown(nothing_is_missed, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
