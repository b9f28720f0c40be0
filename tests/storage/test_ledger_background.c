/* test_ledger_background.c - sessions whose work can wait, on a real Postgres. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/ledger/internal.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/priority.h"
#include "tests/support/rig.h"

#define NICE 10 /* of such a session */

/* What a session is to its server: the process that serves it, and whether commits wait. */
static void look(struct kiln_ledger *session, pid_t *ret_process, bool *ret_waits)
{
    static const struct kiln_statement statement = {
        "background_look", "SELECT pg_backend_pid(), current_setting('synchronous_commit') = 'on'"};
    struct kiln_params params = {0};
    uint32_t process;
    kiln_test_ok(
        kiln_ledger_ask(session, &statement, &params, KILN_FIELDS(process, *ret_waits), &rig.err),
        rig.err);
    *ret_process = (pid_t)process;
}

static int nice_of(pid_t process)
{
    return getpriority(PRIO_PROCESS, (id_t)process);
}

/* Of the session's autogroup; `wanted` on a kernel without autogroups. */
static int group_nice_of(pid_t process, int wanted)
{
    char path[64];
    int nice = wanted;
    snprintf(path, sizeof path, "/proc/%ld/autogroup", (long)process);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "/autogroup-%*d nice %d", &nice) != 1)
            nice = wanted; /* the process is in none */
        fclose(file);
    }
    return nice;
}

/* Whether the server process of the session got these nice values, its autogroup within a few
 * statements, as Linux allows few such changes a second.  A user that may not lower the process
 * leaves it as it is. */
static void assert_lowered(struct kiln_ledger *session, int nice)
{
    pid_t process;
    bool waits;
    look(session, &process, &waits);
    if (nice_of(process) != nice) {
        assert_int_not_equal(setpriority(PRIO_PROCESS, (id_t)process, nice), 0);
        return;
    }
    for (int i = 0; i < 200 && group_nice_of(process, nice) != nice; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        look(session, &process, &waits);
    }
    assert_int_equal(group_nice_of(process, nice), nice);
}

/* Also after its connection was lost. */
static void a_session_in_the_background_comes_last(void **state)
{
    struct kiln_ledger *session;
    pid_t process;
    bool waits;
    (void)state;
    kiln_test_ok(kiln_ledger_open(rig.stack->config, "background", &session, &rig.err), rig.err);
    kiln_ledger_in_background(session);
    for (int turn = 0; turn < 2; turn++) {
        look(session, &process, &waits);
        assert_false(waits);
        assert_lowered(session, NICE);
        free(kiln_test_sql(rig.stack, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                                      " WHERE application_name = 'background'"));
    }
    kiln_ledger_close(session);
}

static void other_sessions_stay_as_they_are(void **state)
{
    pid_t process;
    bool waits;
    (void)state;
    look(rig.ledger, &process, &waits);
    assert_true(waits);
    assert_int_equal(nice_of(process), nice_of(0));
}

/* The last test, since no priority can be raised again.  Such sessions wait for the disk. */
static void a_session_has_the_priority_of_its_client(void **state)
{
    struct kiln_ledger *session;
    pid_t process;
    bool waits;
    (void)state;
    assert_true(kiln_lower(gettid(), NICE - 3) || errno == EAGAIN);
    assert_int_equal(nice_of(0), NICE - 3);
    kiln_test_ok(kiln_ledger_open(rig.stack->config, "lower", &session, &rig.err), rig.err);
    look(session, &process, &waits);
    assert_true(waits);
    assert_lowered(session, NICE - 3);
    kiln_ledger_close(session);
}

/* What was lowered further by somebody else stays so. */
static void a_priority_is_never_raised(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        bool lowered = setsid() > 0;
        for (int nice = 12; lowered && nice > 0; nice -= 8)
            for (int i = 0; !(lowered = kiln_lower(getpid(), nice)) && errno == EAGAIN && i < 200;
                 i++)
                nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        _exit(lowered && nice_of(0) == 12 && group_nice_of(getpid(), 12) == 12 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Only a process of the server that listens on the socket is touched: a connection that does not
 * say which one that is has none. */
static void a_connection_that_names_no_process_changes_none(void **state)
{
    (void)state;
    PGconn *conn = PQconnectdb("host=/nonexistent");
    assert_int_equal(PQstatus(conn), CONNECTION_BAD);
    assert_false(kiln_pg_lower(conn, NICE));
    PQfinish(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_in_the_background_comes_last),
        cmocka_unit_test(other_sessions_stay_as_they_are),
        cmocka_unit_test(a_priority_is_never_raised),
        cmocka_unit_test(a_connection_that_names_no_process_changes_none),
        cmocka_unit_test(a_session_has_the_priority_of_its_client),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
