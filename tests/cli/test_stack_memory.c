/* How much memory a process may use, by what the kernel says of its control groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "scheduler/cli/stack/stack.h"

/* Makes ROOT/NAME with that text, and the directories above it. */
static void put(const char *root, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *end = strchr(path, '/'); end; end = strchr(end + 1, '/')) {
        *end = '\0';
        (void)mkdir(path, 0755);
        *end = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_tightest_limit_holds(void **state)
{
    (void)state;
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(kiln_stack_memory("none") == all);
    put("v2", "proc/self/cgroup", "0::/user.slice/me.scope\n");
    put("v2", "sys/fs/cgroup/user.slice/me.scope/memory.max", "max\n");
    assert_true(kiln_stack_memory("v2") == all);
    put("v2", "sys/fs/cgroup/user.slice/memory.max", "50331648\n");
    assert_int_equal(kiln_stack_memory("v2"), 48 << 20);
    put("v2", "sys/fs/cgroup/user.slice/me.scope/memory.max", "33554432\n");
    assert_int_equal(kiln_stack_memory("v2"), 32 << 20);
    put("v2", "sys/fs/cgroup/user.slice/memory.max", "9223372036854771712\n");
    put("v2", "sys/fs/cgroup/user.slice/me.scope/memory.max", "max\n");
    assert_true(kiln_stack_memory("v2") == all);
}

static void a_container_sees_its_own_group_as_the_root(void **state)
{
    (void)state;
    put("own", "proc/self/cgroup", "0::/\n");
    put("own", "sys/fs/cgroup/memory.max", "33554432\n");
    assert_int_equal(kiln_stack_memory("own"), 32 << 20);
    put("outer", "proc/self/cgroup", "0::/docker/1f\n"); /* named as the host does */
    put("outer", "sys/fs/cgroup/memory.max", "33554432\n");
    assert_int_equal(kiln_stack_memory("outer"), 32 << 20);
}

static void version_1_has_a_tree_for_memory(void **state)
{
    (void)state;
    put("v1", "proc/self/cgroup",
        "12:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f\n0::/docker/1f\n");
    put("v1", "sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "33554432\n");
    assert_int_equal(kiln_stack_memory("v1"), 32 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tightest_limit_holds),
        cmocka_unit_test(a_container_sees_its_own_group_as_the_root),
        cmocka_unit_test(version_1_has_a_tree_for_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
