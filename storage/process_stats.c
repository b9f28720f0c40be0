/* process_stats.c - /proc/self, read with two calls of fopen and one of opendir a page. */
#include "storage/process_stats.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "schemas/metrics.h"

/* Fields of /proc/self/stat behind the name, which may hold blanks and brackets itself. */
struct stat_fields {
    unsigned long long user_ticks, system_ticks, start_ticks, virtual_bytes, resident_pages;
    long threads;
};

static bool read_stat(struct stat_fields *ret)
{
    char line[2048] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    size_t len = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    line[len] = '\0';
    const char *rest = strrchr(line, ')');
    return rest && sscanf(rest + 1,
                          " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d "
                          "%ld %*d %llu %llu %llu",
                          &ret->user_ticks, &ret->system_ticks, &ret->threads, &ret->start_ticks,
                          &ret->virtual_bytes, &ret->resident_pages) == 6;
}

/* Seconds since 1970 at which the machine was started; 0 if that is not known. */
static double boot_time(void)
{
    char line[256];
    unsigned long long boot = 0;
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "btime %llu", &boot) == 1)
            break;
    if (file)
        fclose(file);
    return (double)boot;
}

static int open_files(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

static void add(struct kiln_text *text, const char *name, const char *type, const char *help,
                double value)
{
    kiln_metric_family(text, name, type, help);
    kiln_metric_sample(text, name, NULL, value);
}

void kiln_process_stats(struct kiln_text *text)
{
    struct stat_fields stat;
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK), boot = boot_time();
    int files = open_files();
    if (files > 0)
        add(text, "process_open_fds", "gauge", "Open file descriptors.", files);
    if (!read_stat(&stat))
        return;
    add(text, "process_cpu_seconds_total", "counter", "Processor time.",
        (double)(stat.user_ticks + stat.system_ticks) * tick);
    add(text, "process_resident_memory_bytes", "gauge", "Resident memory.",
        (double)stat.resident_pages * (double)sysconf(_SC_PAGESIZE));
    add(text, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
        (double)stat.virtual_bytes);
    add(text, "process_threads", "gauge", "Threads.", (double)stat.threads);
    if (boot > 0)
        add(text, "process_start_time_seconds", "gauge", "Start, in seconds since 1970.",
            boot + (double)stat.start_ticks * tick);
}
