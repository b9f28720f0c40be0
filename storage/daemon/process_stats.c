/* process_stats.c - see process_stats.h. */
#include "storage/daemon/process_stats.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "schemas/telemetry/metrics.h"
#include "storage/daemon/proc_stat.h"

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

void kiln_process_stats(struct kiln_text *text)
{
    struct kiln_proc_stat stat;
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK), boot = boot_time();
    int files = open_files();
    if (files > 0)
        kiln_metric_single(text, "process_open_fds", "gauge", "Open file descriptors.", files);
    if (!kiln_proc_stat(getpid(), &stat))
        return;
    kiln_metric_single(text, "process_cpu_seconds_total", "counter", "Processor time.",
                       (double)(stat.user + stat.system) * tick);
    kiln_metric_single(text, "process_resident_memory_bytes", "gauge", "Resident memory.",
                       (double)stat.resident_pages * (double)sysconf(_SC_PAGESIZE));
    kiln_metric_single(text, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
                       (double)stat.virtual_bytes);
    kiln_metric_single(text, "process_threads", "gauge", "Threads.", (double)stat.threads);
    if (boot > 0)
        kiln_metric_single(text, "process_start_time_seconds", "gauge",
                           "Start, in seconds since 1970.", boot + (double)stat.start * tick);
}
