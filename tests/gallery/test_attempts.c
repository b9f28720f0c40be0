/* test_attempts.c - guessing tokens: a limit for each address, and one for all of them together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "scheduler/gallery/web/attempts.h"

#define NOW 1000000

static bool allowed(struct kiln_web_attempts *attempts, const char *address, int64_t now_ms)
{
    unsigned wait_s;
    bool good = kiln_web_attempt_allowed(attempts, address, now_ms, &wait_s);
    assert_int_equal(good, wait_s == 0);
    return good;
}

/* Wrong tokens until there is a refusal; how many were looked at. */
static int guess(struct kiln_web_attempts *attempts, const char *address, int64_t now_ms)
{
    int count = 0;
    for (; count < 1000 && allowed(attempts, address, now_ms); count++)
        kiln_web_attempt_note(attempts, address, false, now_ms);
    return count;
}

static void address_text(unsigned number, char out[32])
{
    snprintf(out, 32, "10.%u.%u.%u", number >> 16 & 255, number >> 8 & 255, number & 255);
}

static void an_address_has_a_few_guesses_and_then_one_a_second(void **state)
{
    (void)state;
    struct kiln_web_attempts *attempts = kiln_web_attempts_new();
    assert_int_equal(guess(attempts, "192.0.2.1", NOW), KILN_WEB_ATTEMPTS);
    assert_int_equal(guess(attempts, "192.0.2.1", NOW + 999), 0);
    assert_int_equal(guess(attempts, "192.0.2.1", NOW + 1000), 1);
    assert_int_equal(guess(attempts, "192.0.2.1", NOW + 4000), 3);
    assert_true(allowed(attempts, "192.0.2.2", NOW)); /* others are not concerned */
    assert_int_equal(guess(attempts, "192.0.2.1", NOW + 3600000), KILN_WEB_ATTEMPTS);
    kiln_web_attempts_free(attempts);
}

static void a_right_token_pays_no_debt(void **state)
{
    (void)state;
    struct kiln_web_attempts *attempts = kiln_web_attempts_new();
    for (int i = 0; i < KILN_WEB_ATTEMPTS; i++) { /* a reader who guesses the producer's */
        kiln_web_attempt_note(attempts, "192.0.2.1", true, NOW);
        kiln_web_attempt_note(attempts, "192.0.2.1", false, NOW);
    }
    assert_false(allowed(attempts, "192.0.2.1", NOW));
    for (int i = 0; i < 100000; i++) /* right ones alone cost nothing */
        kiln_web_attempt_note(attempts, "192.0.2.9", true, NOW);
    assert_true(allowed(attempts, "192.0.2.9", NOW));
    kiln_web_attempts_free(attempts);
}

static void a_host_of_a_network_is_the_network(void **state)
{
    (void)state;
    struct kiln_web_attempts *attempts = kiln_web_attempts_new();
    assert_int_equal(guess(attempts, "2001:db8:1:2::1", NOW), KILN_WEB_ATTEMPTS);
    assert_false(allowed(attempts, "2001:db8:1:2:ffff::7", NOW));
    assert_true(allowed(attempts, "2001:db8:1:3::1", NOW));
    assert_int_equal(guess(attempts, "not an address", NOW), KILN_WEB_ATTEMPTS);
    assert_false(allowed(attempts, "", NOW));
    kiln_web_attempts_free(attempts);
}

static void many_addresses_share_a_ceiling_which_spares_who_is_in(void **state)
{
    (void)state;
    struct kiln_web_attempts *attempts = kiln_web_attempts_new();
    int looked_at = 0;
    char address[32];
    kiln_web_attempt_note(attempts, "192.0.2.1", true, NOW);
    for (unsigned i = 0; i < 100000; i++) {
        address_text(i, address);
        if (allowed(attempts, address, NOW)) {
            kiln_web_attempt_note(attempts, address, false, NOW);
            looked_at++;
        }
    }
    assert_int_equal(looked_at, KILN_WEB_ATTEMPTS_ALL);
    assert_true(allowed(attempts, "192.0.2.1", NOW));
    assert_false(allowed(attempts, "192.0.2.2", NOW));
    assert_true(allowed(attempts, "192.0.2.2", NOW + KILN_WEB_ATTEMPT_ALL_MS));
    kiln_web_attempts_free(attempts);
}

/* The table is smaller than the network: whoever is deep in debt is not forgotten for others. */
static void the_highest_debts_are_kept(void **state)
{
    (void)state;
    struct kiln_web_attempts *attempts = kiln_web_attempts_new();
    char address[32];
    assert_int_equal(guess(attempts, "192.0.2.1", NOW), KILN_WEB_ATTEMPTS);
    for (unsigned i = 0; i < 100000; i++) {
        address_text(i, address);
        kiln_web_attempt_note(attempts, address, true, NOW);
    }
    assert_false(allowed(attempts, "192.0.2.1", NOW));
    kiln_web_attempts_free(attempts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_a_few_guesses_and_then_one_a_second),
        cmocka_unit_test(a_right_token_pays_no_debt),
        cmocka_unit_test(a_host_of_a_network_is_the_network),
        cmocka_unit_test(many_addresses_share_a_ceiling_which_spares_who_is_in),
        cmocka_unit_test(the_highest_debts_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
