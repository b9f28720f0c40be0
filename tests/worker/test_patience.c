/* test_patience.c - a batch that hangs meets one limit: the worker's, where that is on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/engine/renderer.h"

/* What the library is told by a worker with that stall_s. */
static int32_t patience_with(const char *stall_s)
{
    struct kiln_load_watch watch;
    struct kiln_renderer *engine;
    struct kiln_error err;
    struct kiln_config *config = kiln_config_new();
    assert_non_null(config);
    assert_int_equal(kiln_config_set(config, "stall_s", stall_s, "test", &err), 0);
    assert_int_equal(kiln_config_set(config, "model", "none", "test", &err), 0);
    kiln_load_watch_init(&watch, 0);
    (void)diffusionz_patience(600);
    /* The double of the library has no model to open. */
    assert_int_equal(kiln_renderer_pipeline_open(config, &watch, &engine, &err), KILN_UNSUPPORTED);
    kiln_load_watch_release(&watch);
    kiln_config_free(config);
    return diffusionz_patience(600);
}

static void the_library_waits_longer_than_the_worker(void **state)
{
    (void)state;
    assert_true(patience_with("900") > 900);
    assert_true(patience_with("0.5") > 2 && patience_with("0.5") < 600);
    assert_true(patience_with("86400") > 86400);
    assert_int_equal(patience_with("0"), 600); /* off: then the library's own */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_waits_longer_than_the_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
