/* test_ledger_background.c - sessions whose work can wait, on a real Postgres. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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
        /* A user that may not lower the process leaves it as it is. */
        if (nice_of(process) != NICE)
            assert_int_not_equal(setpriority(PRIO_PROCESS, (id_t)process, NICE), 0);
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
        cmocka_unit_test(a_connection_that_names_no_process_changes_none),
    };
    return cmocka_run_group_tests(tests, kiln_rig_start, kiln_rig_stop);
}
