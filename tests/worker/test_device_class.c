/* test_device_class.c - the class of a device is a name that the ledger and the bus can take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/job.h"
#include "worker/state/device_class.h"

static void assert_class(const char *name, const char *wanted)
{
    char class[KILN_NAME_MAX + 1];
    kiln_device_class_of(name, class, sizeof class);
    assert_string_equal(class, wanted);
}

static void makers_names_become_names(void **state)
{
    (void)state;
    assert_class("NVIDIA H200", "nvidia-h200");
    assert_class("NVIDIA GeForce RTX 4090 (rev a1)", "nvidia-geforce-rtx-4090-rev-a1");
    assert_class("Intel(R) Xeon(R) CPU @ 2.20GHz", "intel-r-xeon-r-cpu-2-20ghz");
    assert_class("  \t--\xc3\xa9--", "");
    assert_class("", "");
}

static void long_names_are_cut(void **state)
{
    char name[300], class[KILN_NAME_MAX + 1];
    (void)state;
    memset(name, 'X', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    kiln_device_class_of(name, class, sizeof class);
    assert_int_equal(strlen(class), KILN_NAME_MAX);
}

/* Whatever this machine is, the class is a name and the same again. */
static void every_device_has_a_class(void **state)
{
    static const char *const devices[] = {"cpu", "cuda:0", "cuda:7", "cuda", ""};
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char class[KILN_NAME_MAX + 1], again[KILN_NAME_MAX + 1];
        kiln_device_class(devices[i], class, sizeof class);
        kiln_device_class(devices[i], again, sizeof again);
        assert_true(class[0] != '\0');
        assert_string_equal(class, again);
        for (const char *c = class; *c; c++)
            assert_true((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makers_names_become_names),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(every_device_has_a_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
