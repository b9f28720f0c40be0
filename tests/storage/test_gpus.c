/* test_gpus.c - GPUs read from a tree of files as the driver and the kernel would show them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "storage/daemon/gpus.h"
#include "tests/support/files.h"

#define ROOT "machine"

static void put_gpu(const char *bus, int minor, const char *node, bool handed_in)
{
    char path[128], text[256];
    snprintf(path, sizeof path, ROOT "/proc/driver/nvidia/gpus/%s/information", bus);
    snprintf(text, sizeof text,
             "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-%04d-aaaa\nBus Location: \t %s\n"
             "Device Minor: \t %d\n",
             minor, bus, minor);
    kiln_test_write(path, text);
    snprintf(path, sizeof path, ROOT "/sys/bus/pci/devices/%s/numa_node", bus);
    kiln_test_write(path, node);
    snprintf(path, sizeof path, ROOT "/dev/nvidia%d", minor);
    if (handed_in)
        kiln_test_write(path, "");
}

/* Device numbers that do not follow the addresses, and one GPU that belongs to another container.
 */
static int make_machine(void **state)
{
    (void)state;
    put_gpu("0000:9a:00.0", 0, "1\n", true);
    put_gpu("0000:1b:00.0", 2, "0\n", true);
    put_gpu("0000:5c:00.0", 3, "0\n", false);
    put_gpu("0000:ba:00.0", 1, "-1\n", true);
    kiln_test_write(ROOT "/sys/devices/system/node/node1/cpulist", "16-31,48-63\n");
    return 0;
}

static void the_order_is_that_of_the_addresses(void **state)
{
    (void)state;
    struct kiln_gpu gpus[KILN_GPUS_MAX];
    assert_int_equal(kiln_gpus_list(ROOT, NULL, gpus), 3);
    assert_string_equal(gpus[0].bus, "0000:1b:00.0");
    assert_int_equal(gpus[0].minor, 2);
    assert_int_equal(gpus[0].node, 0);
    assert_string_equal(gpus[1].bus, "0000:9a:00.0");
    assert_int_equal(gpus[1].node, 1);
    assert_int_equal(gpus[2].node, -1);
}

static void a_choice_is_numbered_anew(void **state)
{
    (void)state;
    struct kiln_gpu gpus[KILN_GPUS_MAX];
    assert_int_equal(kiln_gpus_list(ROOT, "2,0", gpus), 2);
    assert_string_equal(gpus[0].bus, "0000:ba:00.0");
    assert_string_equal(gpus[1].bus, "0000:1b:00.0");
    assert_int_equal(kiln_gpus_list(ROOT, "GPU-0000", gpus), 1);
    assert_string_equal(gpus[0].bus, "0000:9a:00.0");
    /* As CUDA does it: what stands behind a stranger is not seen. */
    assert_int_equal(kiln_gpus_list(ROOT, "1,7,0", gpus), 1);
    assert_int_equal(kiln_gpus_list(ROOT, "", gpus), 0);
    assert_int_equal(kiln_gpus_list(ROOT, "-1", gpus), 0);
}

static void device_files_alone_are_counted(void **state)
{
    (void)state;
    struct kiln_gpu gpus[KILN_GPUS_MAX];
    char text[64];
    kiln_test_write(ROOT "/hidden/dev/nvidia1", "");
    kiln_test_write(ROOT "/hidden/dev/nvidia4", "");
    assert_int_equal(kiln_gpus_list(ROOT "/hidden", NULL, gpus), 2);
    assert_string_equal(gpus[1].bus, "");
    assert_int_equal(gpus[1].minor, 4);
    assert_int_equal(gpus[1].node, -1);
    assert_int_equal(kiln_gpus_list("nowhere", NULL, gpus), 0);
    kiln_node_processors(ROOT "/hidden", 1, text, sizeof text);
    assert_string_equal(text, "");
}

static void a_node_names_its_processors(void **state)
{
    (void)state;
    char text[64];
    kiln_node_processors(ROOT, 1, text, sizeof text);
    assert_string_equal(text, "16-31,48-63");
    kiln_node_processors(ROOT, -1, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_is_that_of_the_addresses),
        cmocka_unit_test(a_choice_is_numbered_anew),
        cmocka_unit_test(device_files_alone_are_counted),
        cmocka_unit_test(a_node_names_its_processors),
    };
    return cmocka_run_group_tests(tests, make_machine, NULL);
}
