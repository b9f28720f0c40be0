/* cpu.c - the processor time of the stack's processes.
 *
 * For Postgres the times of its living children are added up; the parent's own count includes those
 * that have ended.
 */
#include "scheduler/bench/cpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/daemon/proc_stat.h"

static const char *const part_names[KILN_BENCH_PARTS] = {
    [KILN_BENCH_CLIENT] = "client",     [KILN_BENCH_REDIS] = "redis",
    [KILN_BENCH_POSTGRES] = "postgres", [KILN_BENCH_SCHEDULER] = "scheduler",
    [KILN_BENCH_WORKER] = "worker",
};

/* Seconds of user and system time, including children that have ended; 0 if there is no such
 * process.  *ret_parent: its parent. */
static double process_seconds(pid_t pid, pid_t *ret_parent)
{
    struct kiln_proc_stat stat;
    if (!kiln_proc_stat(pid, &stat))
        return 0;
    *ret_parent = stat.parent;
    return (double)(stat.user + stat.system + stat.children_user + stat.children_system) /
           (double)sysconf(_SC_CLK_TCK);
}

double kiln_bench_family(pid_t head, double (*of)(pid_t pid, pid_t *ret_parent))
{
    pid_t parent = 0;
    double sum = of(head, &parent);
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        pid_t pid = (pid_t)atol(entry->d_name);
        parent = 0;
        double value = pid > 0 ? of(pid, &parent) : 0;
        if (parent == head)
            sum += value;
    }
    if (dir)
        closedir(dir);
    return sum;
}

static void read_now(double seconds[KILN_BENCH_PARTS], const struct kiln_stack *stack, pid_t fleet)
{
    pid_t parent;
    pid_t postgres = kiln_stack_find_postgres(stack);
    pid_t worker = fleet ? fleet : kiln_worker_find(stack, "worker-0", NULL, NULL);
    memset(seconds, 0, KILN_BENCH_PARTS * sizeof *seconds);
    seconds[KILN_BENCH_CLIENT] = process_seconds(getpid(), &parent);
    seconds[KILN_BENCH_REDIS] = process_seconds(kiln_stack_find_redis(stack), &parent);
    seconds[KILN_BENCH_SCHEDULER] = process_seconds(kiln_stack_find_scheduler(stack), &parent);
    seconds[KILN_BENCH_WORKER] = process_seconds(worker, &parent);
    if (postgres)
        seconds[KILN_BENCH_POSTGRES] = kiln_bench_family(postgres, process_seconds);
}

void kiln_bench_cpu_start(struct kiln_bench_cpu *cpu, const struct kiln_stack *stack)
{
    read_now(cpu->seconds, stack, cpu->fleet);
}

void kiln_bench_cpu_stop(struct kiln_bench_cpu *cpu, const struct kiln_stack *stack)
{
    double now[KILN_BENCH_PARTS];
    read_now(now, stack, cpu->fleet);
    for (int i = 0; i < KILN_BENCH_PARTS; i++)
        cpu->seconds[i] = now[i] - cpu->seconds[i];
}

void kiln_bench_cpu_print(const struct kiln_bench_cpu *cpu, long jobs)
{
    double sum = 0;
    printf("%-16s ", "");
    for (int i = 0; i < KILN_BENCH_PARTS; i++) {
        sum += cpu->seconds[i];
        printf("%s %.0f, ", part_names[i], cpu->seconds[i] * 1e6 / (double)jobs);
    }
    printf("in all %.0f us\n", sum * 1e6 / (double)jobs);
}

json_t *kiln_bench_cpu_json(const struct kiln_bench_cpu *cpu, long jobs)
{
    json_t *object = json_object();
    for (int i = 0; i < KILN_BENCH_PARTS; i++)
        json_object_set_new(object, part_names[i], json_real(cpu->seconds[i] * 1e6 / (double)jobs));
    return object;
}
