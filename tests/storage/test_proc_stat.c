/* test_proc_stat.c - what is read of /proc/PID/stat: names that look like fields, this process, one
 * that has ended and is not waited for, one that is not there. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "storage/daemon/proc_stat.h"

#define FIELDS                                                                                     \
    "R 41 42 43 0 -1 4194304 10 20 30 40 51 52 53 54 20 0 7 0 8000 9000000 123 "                   \
    "18446744073709551615 1 1 0\n"

static void fields_are_read(void **state)
{
    static const char *const names[] = {"postgres", "a) Z 1 (b", ") Z ", "x y", ""};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kiln_proc_stat stat = {0};
        char text[512];
        snprintf(text, sizeof text, "40 (%s) " FIELDS, names[i]);
        assert_true(kiln_proc_stat_parse(text, &stat));
        assert_int_equal(stat.state, 'R');
        assert_int_equal(stat.parent, 41);
        assert_int_equal(stat.user, 51);
        assert_int_equal(stat.system, 52);
        assert_int_equal(stat.children_user, 53);
        assert_int_equal(stat.children_system, 54);
        assert_int_equal(stat.threads, 7);
        assert_int_equal(stat.start, 8000);
        assert_int_equal(stat.virtual_bytes, 9000000);
        assert_int_equal(stat.resident_pages, 123);
    }
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = {"", "40", "40 (name", "40 (name)", "40 (name) R 41"};
    struct kiln_proc_stat stat;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(kiln_proc_stat_parse(texts[i], &stat));
}

static void processes_tell_how_they_are(void **state)
{
    struct kiln_proc_stat stat;
    (void)state;
    assert_true(kiln_proc_stat(getpid(), &stat));
    assert_int_equal(stat.state, 'R');
    assert_int_equal(stat.parent, getppid());
    assert_true(stat.threads >= 1 && stat.virtual_bytes > 0 && stat.resident_pages > 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_true(kiln_proc_stat(child, &stat));
    assert_int_equal(stat.parent, getpid());
    assert_true(stat.state != 'Z');
    kill(child, SIGKILL);
    for (int64_t until = kiln_clock_ms() + 60000; stat.state != 'Z' && kiln_clock_ms() < until;)
        assert_true(kiln_proc_stat(child, &stat));
    assert_int_equal(stat.state, 'Z');
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(kiln_proc_stat(child, &stat));
}

/* Child and test share one processor, and the child runs only when it is idle: so the signal is
 * pending until the test waits. */
static void a_kill_is_seen_before_it_is_carried_out(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct sched_param idle = {0};
        (void)sched_setscheduler(0, SCHED_IDLE, &idle);
        for (;;)
            (void)getppid();
    }
    usleep(20000);
    assert_false(kiln_proc_killed(child));
    kill(child, SIGKILL);
    struct kiln_proc_stat stat;
    bool killed = kiln_proc_killed(child);
    bool ended = !kiln_proc_stat(child, &stat) || stat.state == 'Z';
    assert_true(killed || ended);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(kiln_proc_killed(child));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_read),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(processes_tell_how_they_are),
        cmocka_unit_test(a_kill_is_seen_before_it_is_carried_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
