/* proc_stat.c - see proc_stat.h. */
#include "storage/daemon/proc_stat.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Returns the number of bytes of /proc/PID/NAME in text, which ends with a NUL. */
static size_t read_proc(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(text, 1, size - 1, file) : 0;
    if (file)
        fclose(file);
    text[len] = '\0';
    return len;
}

bool kiln_proc_stat(pid_t pid, struct kiln_proc_stat *ret)
{
    char text[2048];
    (void)read_proc(pid, "stat", text, sizeof text);
    return kiln_proc_stat_parse(text, ret);
}

/* SigPnd: pending for its main thread; ShdPnd: for all threads.  Bit 0 is signal 1. */
bool kiln_proc_killed(pid_t pid)
{
    static const char *const masks[] = {"\nSigPnd:", "\nShdPnd:"};
    char text[4096];
    if (read_proc(pid, "status", text, sizeof text) == 0)
        return false;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const char *at = strstr(text, masks[i]);
        if (at && strtoull(at + strlen(masks[i]), NULL, 16) & 1ull << (SIGKILL - 1))
            return true;
    }
    return false;
}
