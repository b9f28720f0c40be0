/* test_intake_ahead.c - a full page goes into the ledger while the next one is read: in order,
 * once, and nothing is acknowledged before it is there, whatever happens to the page on its way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/scheduler/intake_rig.h"

enum { PAGE = 128, JOBS = 300 }; /* the first page is full, the second is the rest */

/* One step, after which the first page is under way. */
static void send_the_first_page(size_t first, size_t jobs, const char *token)
{
    uint64_t inserted = 1;
    kiln_test_enqueue(stack, "b", token, LINE, first, jobs, true);
    kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err);
    assert_int_equal(inserted, 0);
    assert_int_equal(counts().entries, 0);
}

static void all_are_in_once(const char *token, uint64_t accepted, uint64_t duplicate)
{
    const struct kiln_receipt receipt = kiln_test_receipt(stack, token);
    assert_int_equal(receipt.accepted, accepted);
    assert_int_equal(receipt.duplicate, duplicate);
    assert_int_equal(receipt.refused, 0);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job"), JOBS);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE key = 'k' || index"),
                     JOBS);
    stream_is_empty();
}

static void a_page_goes_in_while_the_next_one_is_read(void **state)
{
    (void)state;
    send_the_first_page(0, JOBS, "t");
    uint64_t inserted = 0;
    kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err);
    assert_int_equal(inserted, JOBS);
    assert_int_equal(counts().entries, JOBS + 1);
    assert_int_equal(counts().duplicate, 0);
    all_are_in_once("t", JOBS, 0);
}

static void the_last_page_may_be_full(void **state)
{
    (void)state;
    uint64_t inserted = 1;
    kiln_test_enqueue(stack, "b", "t", LINE, 0, PAGE, false);
    kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err);
    assert_int_equal(inserted, 0);
    kiln_test_ok(kiln_intake_step(intake, 20, &inserted, &err), err);
    assert_int_equal(inserted, PAGE);
    assert_int_equal(counts().entries, PAGE);
    stream_is_empty();
}

/* Numbers that the ledger gives out follow the stream across pages. */
static void numbers_follow_the_stream(void **state)
{
    (void)state;
    for (int i = 0; i < JOBS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        const char *const fields[] = {"batch", "b", "job", LINE, "key", key};
        kiln_test_append(stack, fields, 3);
    }
    assert_int_equal(take_all(), JOBS);
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job WHERE key = 'k' || index"),
                     JOBS);
}

static void a_page_with_a_known_key_is_taken_in_again(void **state)
{
    (void)state;
    kiln_test_enqueue(stack, "b", "t1", LINE, 5, 1, true);
    assert_int_equal(take_some(), 1);
    const uint64_t before = counts().entries;
    kiln_test_enqueue(stack, "b", "t2", LINE, 0, JOBS, true);
    assert_int_equal(take_all(), JOBS - 1);
    assert_int_equal(counts().entries, before + JOBS + 1);
    assert_int_equal(counts().duplicate, 1);
    all_are_in_once("t2", JOBS - 1, 1);
}

/* The server may have taken the page or not: its jobs are there once, and once in the receipt. */
static void a_connection_that_is_lost_under_way(void **state)
{
    (void)state;
    send_the_first_page(0, JOBS, "t");
    free(kiln_test_sql(stack, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                              " WHERE application_name = 'kiln-scheduler intake'"));
    (void)take_all();
    all_are_in_once("t", JOBS, 0);
}

static void a_leader_that_ends_takes_its_page_in(void **state)
{
    (void)state;
    send_the_first_page(0, JOBS, "t");
    kiln_intake_close(intake);
    intake = NULL;
    assert_int_equal(kiln_test_count(stack, "SELECT count(*) FROM job"), PAGE);
    kiln_test_ok(kiln_intake_open(stack->config, routes, &intake, &err), err);
    assert_int_equal(take_all(), JOBS - PAGE);
    assert_int_equal(counts().duplicate, 0);
    all_are_in_once("t", JOBS, 0);
}

/* A refusal in the next page is written while the one before is under way. */
static void a_bad_line_behind_a_page_under_way(void **state)
{
    (void)state;
    send_the_first_page(0, JOBS, "t");
    kiln_test_enqueue(stack, "b", "bad", "{\"prompt\":7}", JOBS, 1, true);
    assert_int_equal(take_some(), JOBS);
    assert_int_equal(kiln_test_receipt(stack, "bad").refused, 1);
    all_are_in_once("t", JOBS, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_page_goes_in_while_the_next_one_is_read),
        TEST(the_last_page_may_be_full),
        TEST(numbers_follow_the_stream),
        TEST(a_page_with_a_known_key_is_taken_in_again),
        TEST(a_connection_that_is_lost_under_way),
        TEST(a_leader_that_ends_takes_its_page_in),
        TEST(a_bad_line_behind_a_page_under_way),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
