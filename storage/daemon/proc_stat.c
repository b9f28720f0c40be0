/* proc_stat.c - see proc_stat.h. */
#include "storage/daemon/proc_stat.h"

#include <stdio.h>
#include <string.h>

bool kiln_proc_stat_parse(const char *text, struct kiln_proc_stat *ret)
{
    const char *after = strrchr(text, ')'); /* the name before it may hold anything */
    int parent;
    if (!after || sscanf(after,
                         ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d "
                         "%ld %*d %llu %llu %llu",
                         &ret->state, &parent, &ret->user, &ret->system, &ret->children_user,
                         &ret->children_system, &ret->threads, &ret->start, &ret->virtual_bytes,
                         &ret->resident_pages) != 10)
        return false;
    ret->parent = parent;
    return true;
}

bool kiln_proc_stat(pid_t pid, struct kiln_proc_stat *ret)
{
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[len] = '\0';
    return kiln_proc_stat_parse(text, ret);
}
