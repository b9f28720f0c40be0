/* test_spin.c - the program is started again once, with its arguments and a short wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/spin.h"

enum { STARTED_AGAIN = 7, WENT_ON = 8, SET_BY_OTHERS = 9 };

static const char *program;

/* What the child ended with that set one variable, or none, and then asked for a short wait. */
static int ends_with(const char *name, const char *value)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *argv[] = {(char *)program, "again", NULL};
        unsetenv("GOMP_SPINCOUNT");
        unsetenv("OMP_WAIT_POLICY");
        if (name)
            setenv(name, value, 1);
        kiln_spin_briefly(argv);
        _exit(WENT_ON);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_program_starts_again_with_a_short_wait(void **state)
{
    (void)state;
    assert_int_equal(ends_with(NULL, NULL), STARTED_AGAIN);
}

static void what_others_have_set_stays(void **state)
{
    (void)state;
    assert_int_equal(ends_with("GOMP_SPINCOUNT", "5"), WENT_ON);
    assert_int_equal(ends_with("OMP_WAIT_POLICY", "passive"), WENT_ON);
}

/* The second start: once more would go on. */
static int again(char **argv)
{
    const char *count = getenv("GOMP_SPINCOUNT");
    kiln_spin_briefly(argv);
    return count && strcmp(count, "2000") == 0 ? STARTED_AGAIN : SET_BY_OTHERS;
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc == 2 && strcmp(argv[1], "again") == 0)
        return again(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_starts_again_with_a_short_wait),
        cmocka_unit_test(what_others_have_set_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
