/* test_load_watch.c - the lines about a model that is loading, and when they are written. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/telemetry/log.h"
#include "worker/engine/load_watch.h"

/* Logs about the watch at that time: what is said has all of the parts; NULL: nothing is. */
static void expect(struct kiln_load_watch *watch, double now_ms, const char *const *parts)
{
    char line[2048];
    int saved = dup(STDERR_FILENO), file = open("log.txt", O_CREAT | O_TRUNC | O_RDWR, 0600);
    assert_true(saved >= 0 && file >= 0);
    dup2(file, STDERR_FILENO);
    kiln_load_watch_say(watch, now_ms);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t len = pread(file, line, sizeof line - 1, 0);
    line[len > 0 ? len : 0] = '\0';
    close(file);
    if (!parts)
        assert_string_equal(line, "");
    for (; parts && *parts; parts++)
        if (!strstr(line, *parts))
            fail_msg("\"%s\" does not say \"%s\"", line, *parts);
}

static void a_load_that_comes_on_is_said_now_and_then(void **state)
{
    (void)state;
    struct kiln_load_watch watch;
    kiln_load_watch_init(&watch, 1000);
    kiln_load_watch_note(&watch, "m/vae", 0, 0);
    expect(&watch, 1000 + KILN_LOAD_SAY_MS - 1, NULL);
    kiln_load_watch_note(&watch, "m/vae/a.safetensors", 1250000000, 2500000000);
    expect(&watch, 1000 + KILN_LOAD_SAY_MS,
           (const char *[]){" info kiln-worker engine_loading ", "for_s=30", "read_gb=1.25",
                            "of_gb=2.50", "waits_for=m/vae/a.safetensors", NULL});
    expect(&watch, 1000 + KILN_LOAD_SAY_MS + 1, NULL);
    kiln_load_watch_release(&watch);
}

static void a_load_that_hangs_is_warned_of(void **state)
{
    (void)state;
    struct kiln_load_watch watch;
    kiln_load_watch_init(&watch, 0);
    kiln_load_watch_note(&watch, "device cuda:3", 0, 0);
    expect(&watch, KILN_LOAD_SAY_MS, (const char *[]){" info ", "device cuda:3", NULL});
    for (int i = 2; i < 4; i++)
        expect(&watch, i * KILN_LOAD_SAY_MS,
               (const char *[]){" warning ", "device cuda:3", "nothing has come for 30 s", NULL});
    kiln_load_watch_note(&watch, "m/vae", 0, 0);
    expect(&watch, 4 * KILN_LOAD_SAY_MS, (const char *[]){" info ", "for_s=120", NULL});
    kiln_load_watch_release(&watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_that_comes_on_is_said_now_and_then),
        cmocka_unit_test(a_load_that_hangs_is_warned_of),
    };
    kiln_log_setup("kiln-worker", KILN_LOG_INFO, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
