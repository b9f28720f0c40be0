/* test_guard_rule.c - when the guard starts a worker again, and when it gives up; and the turning
 * of a log that is being written to. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "scheduler/cli/stack/guard.h"

#define EXITED(code) ((code) << 8)
#define KILLED(signal) (signal)

static const struct kiln_guard_plan plan = {.crashes = 5, .within_s = 300};

static void pauses_grow_and_are_forgiven(void **state)
{
    (void)state;
    struct kiln_guard_life life = {0};
    static const double pauses[] = {1, 2, 4, 8, 16, 32, 60, 60};
    double now = 1000;
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        life.started_s = now;
        now += 50; /* too few within the time to be given up, too short to be steady */
        struct kiln_guard_plan patient = {.crashes = 16, .within_s = 60};
        kiln_guard_ended(&life, &patient, KILLED(11), "boom", now);
        assert_int_equal(life.state, KILN_GUARD_WAITING);
        assert_true(life.due_s - now == pauses[i]);
        assert_string_equal(life.reason, "killed by signal 11: boom");
        now = life.due_s;
    }
    life.started_s = now;
    now += 61;
    kiln_guard_ended(&life, &plan, EXITED(70), "", now);
    assert_true(life.due_s - now == 1);
    assert_string_equal(life.reason, "exit 70");
}

static void too_many_crashes_are_the_end(void **state)
{
    (void)state;
    struct kiln_guard_life life = {0};
    double now = 0;
    for (int i = 0; i < 4; i++, now += 100) /* the first is too old when the fifth comes */
        kiln_guard_ended(&life, &plan, -1, "", now);
    kiln_guard_ended(&life, &plan, -1, "", now);
    assert_int_equal(life.state, KILN_GUARD_WAITING);
    for (int i = 0; i < 2; i++)
        kiln_guard_ended(&life, &plan, KILLED(9), "last words", now + i);
    assert_int_equal(life.state, KILN_GUARD_GIVEN_UP);
    assert_string_equal(life.reason,
                        "5 crashes within 300 s, the last: killed by signal 9: last words");
}

static void some_ends_are_final_at_once(void **state)
{
    (void)state;
    static const int codes[] = {EX_CONFIG, EX_USAGE};
    for (size_t i = 0; i < 2; i++) {
        struct kiln_guard_life life = {0};
        kiln_guard_ended(&life, &plan, EXITED(codes[i]), "no model", 5);
        assert_int_equal(life.state, KILN_GUARD_GIVEN_UP);
        assert_non_null(strstr(life.reason, "no model"));
    }
    struct kiln_guard_life life = {0};
    kiln_guard_ended(&life, &plan, EXITED(0), "bye", 5);
    assert_int_equal(life.state, KILN_GUARD_ENDED);
    assert_string_equal(life.reason, "drained");
}

static void a_reason_is_whole_or_ends_after_a_word(void **state)
{
    (void)state;
    struct kiln_guard_life life = {0};
    char line[1000];
    for (int len = 0; len < 600; len += 6) /* a path that is long, but not unheard of */
        memcpy(line + len, "/model", 6);
    strcpy(line + 600, ": the file is cut short, fetch it anew");
    kiln_guard_ended(&life, &plan, EXITED(EX_CONFIG), line, 5);
    assert_memory_equal(life.reason, "exit 78: /model", 15);
    assert_string_equal(life.reason + 9, line);
    kiln_guard_ended(&life, &plan, EXITED(EX_CONFIG),
                     "2026-11-27T16:52:31.416Z error kiln-worker worker_failed code=corrupt "
                     "error=\"/models/\\\"a\\\"/w: tensor b lies outside\" effect=\"none\"",
                     5);
    assert_string_equal(life.reason, "exit 78: /models/\"a\"/w: tensor b lies outside");
    kiln_guard_ended(&life, &plan, EXITED(EX_CONFIG),
                     "worker_failed error=\"a\\nb\\tc \\u001b[0m \\\\d\" effect=none", 5);
    assert_string_equal(life.reason, "exit 78: a b c ?[0m \\d");
    kiln_guard_ended(&life, &plan, EXITED(EX_CONFIG), "worker_failed error=corrupt effect=none", 5);
    assert_string_equal(life.reason, "exit 78: corrupt");
    for (size_t i = 0; i < sizeof line - 1; i++)
        line[i] = i % 8 == 7 ? ' ' : 'x';
    line[sizeof line - 1] = '\0';
    kiln_guard_ended(&life, &plan, EXITED(EX_CONFIG), line, 5);
    assert_true(strlen(life.reason) > 700);
    assert_non_null(strstr(life.reason, " xxxxxxx ... (its log says more)"));
    memset(line, 'x', sizeof line - 1); /* no word ends */
    kiln_guard_ended(&life, &plan, EXITED(EX_CONFIG), line, 5);
    assert_string_equal(life.reason, "exit 78: ... (its log says more)");
}

static long size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (long)st.st_size : -1;
}

static void a_log_is_turned_under_its_writer(void **state)
{
    (void)state;
    struct kiln_error err = {0};
    int writer = open("w.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(writer >= 0);
    for (int turn = 1; turn <= KILN_LOGS_KEPT + 2; turn++) {
        assert_int_equal(write(writer, "0123456789", 10), 10);
        if (kiln_log_rotate("w.log", 10, &err)) /* not longer yet */
            fail_msg("%s", err.text);
        assert_int_equal(size_of("w.log"), 10);
        for (int i = 0; i < turn; i++)
            assert_int_equal(write(writer, "+", 1), 1);
        if (kiln_log_rotate("w.log", 10, &err))
            fail_msg("%s", err.text);
        assert_int_equal(size_of("w.log"), 0);
        assert_int_equal(size_of("w.log.1"), 10 + turn);
    }
    assert_int_equal(size_of("w.log.4"), 10 + KILN_LOGS_KEPT + 2 - 3);
    assert_int_equal(size_of("w.log.5"), -1);
    assert_int_equal(kiln_log_rotate("none.log", 10, &err), 0);
    close(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_and_are_forgiven),
        cmocka_unit_test(too_many_crashes_are_the_end),
        cmocka_unit_test(some_ends_are_final_at_once),
        cmocka_unit_test(a_reason_is_whole_or_ends_after_a_word),
        cmocka_unit_test(a_log_is_turned_under_its_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
