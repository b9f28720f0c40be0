/* test_numa.c - a process bound beside a GPU that files describe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/files.h"
#include "worker/numa.h"

#define ROOT "machine"

/* One GPU of node 0, to which a processor belongs that this process may use; one of node 1, whose
 * processors it may not; one of no node. */
static int make_machine(void **state)
{
    (void)state;
    cpu_set_t allowed;
    int first = 0;
    char text[64];
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(first, &allowed))
        first++;
    kiln_test_write(ROOT "/proc/driver/nvidia/gpus/0000:1b:00.0/information",
                    "Device Minor: \t 0\n");
    kiln_test_write(ROOT "/proc/driver/nvidia/gpus/0000:9a:00.0/information",
                    "Device Minor: \t 1\n");
    kiln_test_write(ROOT "/proc/driver/nvidia/gpus/0000:ba:00.0/information",
                    "Device Minor: \t 2\n");
    kiln_test_write(ROOT "/dev/nvidia0", "");
    kiln_test_write(ROOT "/dev/nvidia1", "");
    kiln_test_write(ROOT "/dev/nvidia2", "");
    kiln_test_write(ROOT "/sys/bus/pci/devices/0000:1b:00.0/numa_node", "0\n");
    kiln_test_write(ROOT "/sys/bus/pci/devices/0000:9a:00.0/numa_node", "1\n");
    kiln_test_write(ROOT "/sys/bus/pci/devices/0000:ba:00.0/numa_node", "-1\n");
    snprintf(text, sizeof text, "%d,1000-1010\n", first);
    kiln_test_write(ROOT "/sys/devices/system/node/node0/cpulist", text);
    kiln_test_write(ROOT "/sys/devices/system/node/node1/cpulist", "1001-1003\n");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_ORDER");
    return 0;
}

static void lists_of_processors(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "a",     "1-",    "3-1", "0,,1",
                                        "0;1", "99999", "1-2-3", "-1"};
    cpu_set_t set;
    assert_true(kiln_numa_processors("0-2,8", &set));
    assert_int_equal(CPU_COUNT(&set), 4);
    assert_true(CPU_ISSET(2, &set) && CPU_ISSET(8, &set) && !CPU_ISSET(3, &set));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (kiln_numa_processors(wrong[i], &set))
            fail_msg("'%s' was taken for a list", wrong[i]);
}

static void the_node_is_that_of_the_number(void **state)
{
    (void)state;
    char bus[32];
    const char *why;
    kiln_numa_order_gpus();
    assert_string_equal(getenv("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
    assert_int_equal(kiln_numa_node(ROOT, "cuda:1", bus, sizeof bus, &why), 1);
    assert_string_equal(bus, "0000:9a:00.0");
    assert_int_equal(kiln_numa_node(ROOT, "cuda", bus, sizeof bus, &why), 0);
    assert_int_equal(kiln_numa_node(ROOT, "cuda:2", bus, sizeof bus, &why), -1);
    assert_string_equal(why, "the GPU belongs to no node");
    assert_int_equal(kiln_numa_node(ROOT, "cuda:3", bus, sizeof bus, &why), -1);
    assert_string_equal(why, "the system does not show the GPU");
    assert_string_equal(bus, "");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    assert_int_equal(kiln_numa_node(ROOT, "cuda:0", bus, sizeof bus, &why), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1); /* then nobody knows which is which */
    kiln_numa_order_gpus();
    assert_int_equal(kiln_numa_node(ROOT, "cuda:1", bus, sizeof bus, &why), -1);
    assert_string_equal(why, "CUDA_DEVICE_ORDER is not PCI_BUS_ID");
    unsetenv("CUDA_DEVICE_ORDER");
}

/* In a child: there is no way back to processors that were given up. */
static void a_process_runs_where_its_node_is(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t set;
        const char *why;
        bool bound = kiln_numa_bind(ROOT, 0, &why);
        _exit(bound && sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void what_cannot_be_done_changes_nothing(void **state)
{
    (void)state;
    cpu_set_t before, after;
    const char *why;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_false(kiln_numa_bind(ROOT, 1, &why));
    assert_string_equal(why, "none of the node's processors is allowed here");
    assert_false(kiln_numa_bind(ROOT, 5, &why));
    assert_string_equal(why, "the system does not name the node's processors");
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_processors),
        cmocka_unit_test(the_node_is_that_of_the_number),
        cmocka_unit_test(a_process_runs_where_its_node_is),
        cmocka_unit_test(what_cannot_be_done_changes_nothing),
    };
    return cmocka_run_group_tests(tests, make_machine, NULL);
}
