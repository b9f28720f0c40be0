/* memory.c - how much memory the processes of a stack may use. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/stack/stack.h"

/* A limit is a number, or "max". */
static void lower_to(uint64_t *bytes, const char *path)
{
    unsigned long long limit;
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fscanf(file, "%llu", &limit) == 1 && limit < *bytes)
        *bytes = limit;
    fclose(file);
}

uint64_t kiln_stack_memory(const char *root)
{
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char line[PATH_MAX], path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%.1024s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    /* 0::/user.slice of version 2, 4:memory:/docker/1f of version 1 */
    while (file && fgets(line, sizeof line, file)) {
        char *kinds = strchr(line, ':'), *group = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        const bool first = strcmp(kinds + 1, "memory") == 0;
        if (!first && kinds[1])
            continue;
        /* A container may see the tree from its own group on: then only the upper end is there. */
        for (char *end = group; end;) {
            snprintf(path, sizeof path, "%.1024s/sys/fs/cgroup%s%s/%s", root,
                     first ? "/memory" : "", group, first ? "memory.limit_in_bytes" : "memory.max");
            lower_to(&bytes, path);
            end = strrchr(group, '/');
            if (end)
                *end = '\0';
        }
    }
    if (file)
        fclose(file);
    return bytes;
}
