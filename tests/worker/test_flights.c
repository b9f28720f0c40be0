/* test_flights.c - the table of assignments in flight: bounds, flags, settling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/text/utf8.h"
#include "worker/state/flights.h"
#include "worker/state/picture.h"

static struct kiln_assignment make(const char *id, uint32_t jobs)
{
    struct kiln_assignment assignment = {.width = 64, .height = 64, .steps = 2, .job_count = jobs};
    snprintf(assignment.id, sizeof assignment.id, "%s", id);
    assignment.jobs = calloc(jobs ? jobs : 1, sizeof assignment.jobs[0]);
    for (uint32_t i = 0; i < jobs; i++)
        assignment.jobs[i].id = 100 + i;
    return assignment;
}

static struct kiln_flight *add(struct kiln_flights *table, const char *id, uint32_t jobs,
                               int expected)
{
    struct kiln_assignment assignment = make(id, jobs);
    struct kiln_flight *flight = NULL;
    struct kiln_error err;
    assert_int_equal(kiln_flights_add(table, &assignment, 1, &flight, &err), expected);
    kiln_assignment_release(&assignment);
    return flight;
}

static void test_bounds(void **state)
{
    (void)state;
    struct kiln_flights table;
    struct kiln_heartbeat beat = {0};
    kiln_flights_init(&table);
    add(&table, "none", 0, KILN_BAD_INPUT);
    add(&table, "many", KILN_ASSIGN_MAX + 1, KILN_BAD_INPUT);
    add(&table, "a", 1, 0);
    add(&table, "a", 1, KILN_EXISTS);
    add(&table, "b", 2, 0);
    add(&table, "c", KILN_ASSIGN_MAX, 0);
    for (uint32_t i = 3; i < KILN_HEARTBEAT_HELD_MAX; i++) {
        char id[16];
        snprintf(id, sizeof id, "more-%u", i);
        add(&table, id, 3, 0);
    }
    add(&table, "last", 1, KILN_FULL);
    kiln_flights_list(&table, &beat);
    assert_int_equal(beat.held_count, KILN_HEARTBEAT_HELD_MAX);
    assert_string_equal(beat.held[1], "b");
    kiln_flights_release(&table);
}

static void test_settle(void **state)
{
    (void)state;
    struct kiln_flights table;
    kiln_flights_init(&table);
    struct kiln_flight *flight = add(&table, "a", 3, 0);
    assert_false(kiln_flights_settle(&table, flight, 1));
    assert_false(kiln_flights_settle(&table, flight, 1)); /* once is enough */
    assert_false(kiln_flights_settle(&table, flight, 0));
    assert_int_equal(table.count, 1);
    assert_true(kiln_flights_settle(&table, flight, 2));
    assert_int_equal(table.count, 0);
    kiln_flight_free(flight);
    kiln_flights_release(&table);
}

static void test_flags(void **state)
{
    (void)state;
    struct kiln_flights table;
    kiln_flights_init(&table);
    struct kiln_flight *a = add(&table, "a", 3, 0), *b = add(&table, "b", 2, 0);
    assert_int_equal(kiln_flights_stop_job(&table, 0, KILN_STOP_CANCELLED), 0);
    assert_int_equal(kiln_flights_stop_job(&table, 999, KILN_STOP_CANCELLED), 0);
    assert_int_equal(kiln_flights_stop_job(&table, 102, KILN_STOP_CANCELLED), 1);
    assert_int_equal(kiln_flight_stop(a, 2), KILN_STOP_CANCELLED);
    assert_int_equal(kiln_flight_stop(a, 1), KILN_STOP_NONE);
    assert_false(kiln_flights_settle(&table, b, 1));
    assert_int_equal(kiln_flights_stop_assignment(&table, "b", KILN_STOP_DROPPED), 1);
    assert_int_equal(kiln_flights_stop_all(&table, KILN_STOP_DRAINED), 2);
    assert_int_equal(kiln_flight_stop(a, 2), KILN_STOP_CANCELLED); /* the first reason stays */
    assert_int_equal(kiln_flight_stop(b, 0), KILN_STOP_DROPPED);
    assert_int_equal(kiln_flight_stop(a, 0), KILN_STOP_DRAINED);
    kiln_flights_release(&table);
}

static void test_outcomes(void **state)
{
    (void)state;
    struct kiln_flights table;
    kiln_flights_init(&table);
    struct kiln_flight *flight = add(&table, "a", 1, 0);
    struct kiln_picture *picture = kiln_picture_new(flight, 0);
    kiln_picture_fail(picture, KILN_DEVICE, "it broke");
    assert_int_equal(picture->outcome, KILN_OUTCOME_RETURN);
    assert_false(picture->final);
    kiln_picture_fail(picture, KILN_UNSUPPORTED, "LoKr");
    assert_true(picture->final);
    char sentence[400] = "";
    while (strlen(sentence) < 390)
        strcat(sentence, "\xe5\xb8\x82");
    for (int cut = 0; cut < 3; cut++) { /* a longer one is cut between two characters */
        kiln_picture_fail(picture, KILN_DEVICE, sentence + 3 * 10 - cut);
        size_t len = strlen(picture->reason);
        assert_in_range(len, sizeof picture->reason - 3, sizeof picture->reason - 1);
        assert_true(kiln_utf8_valid(picture->reason + cut, len - (size_t)cut, NULL));
    }
    kiln_picture_stop(picture, KILN_STOP_DRAINED);
    assert_int_equal(picture->outcome, KILN_OUTCOME_RETURN);
    assert_int_equal(picture->code, KILN_OK);
    assert_false(picture->final);
    kiln_picture_stop(picture, KILN_STOP_CANCELLED);
    assert_int_equal(picture->outcome, KILN_OUTCOME_GONE);
    assert_int_equal(picture->code, KILN_CANCELLED);
    kiln_picture_free(picture);
    kiln_flights_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_outcomes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
