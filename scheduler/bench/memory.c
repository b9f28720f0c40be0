/* memory.c - see memory.h.
 *
 * Postgres is a family that shares its buffers: of each of its processes what is its own counts
 * (RssAnon), the shared part does not grow.  All others count whole (VmRSS).
 */
#include "scheduler/bench/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/ledger.h"
#include "storage/ledger/upkeep/size.h"

#define LOOK_S 0.5
#define MB 1048576.0

static const enum kiln_bench_part shown[] = {KILN_BENCH_REDIS, KILN_BENCH_POSTGRES,
                                             KILN_BENCH_SCHEDULER, KILN_BENCH_WORKER};
static const char *const shown_names[] = {"redis", "postgres", "scheduler", "workers"};
#define SHOWN (sizeof shown / sizeof *shown)

/* A line of /proc/PID/status in bytes, 0 if there is none; *ret_parent: PPid. */
static uint64_t status_bytes(pid_t pid, const char *name, pid_t *ret_parent)
{
    char path[64], line[256];
    uint64_t kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "re");
    size_t len = strlen(name);
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "PPid:", 5) == 0)
            *ret_parent = (pid_t)atol(line + 5);
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            kilobytes = strtoull(line + len + 1, NULL, 10);
    }
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

static uint64_t family_bytes(pid_t head)
{
    pid_t parent = 0;
    uint64_t bytes = status_bytes(head, "RssAnon", &parent);
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        pid_t pid = (pid_t)atol(entry->d_name);
        parent = 0;
        uint64_t own = pid > 0 ? status_bytes(pid, "RssAnon", &parent) : 0;
        bytes += parent == head ? own : 0;
    }
    if (dir)
        closedir(dir);
    return bytes;
}

static void read_now(const struct kiln_bench_memory *memory, uint64_t bytes[KILN_BENCH_PARTS])
{
    pid_t parent;
    const struct kiln_stack *stack = memory->stack;
    memset(bytes, 0, KILN_BENCH_PARTS * sizeof *bytes);
    bytes[KILN_BENCH_REDIS] = status_bytes(kiln_stack_find_redis(stack), "VmRSS", &parent);
    bytes[KILN_BENCH_SCHEDULER] = status_bytes(kiln_stack_find_scheduler(stack), "VmRSS", &parent);
    bytes[KILN_BENCH_WORKER] = status_bytes(memory->fleet, "VmRSS", &parent);
    bytes[KILN_BENCH_POSTGRES] = family_bytes(kiln_stack_find_postgres(stack));
}

static void sample(struct kiln_bench_memory *memory, uint64_t reached)
{
    uint64_t now[KILN_BENCH_PARTS];
    read_now(memory, now);
    for (int i = 0; i < KILN_BENCH_PARTS; i++)
        memory->peak[i] = now[i] > memory->peak[i] ? now[i] : memory->peak[i];
    memory->looked_s = kiln_now_s();
    uint64_t tenth = memory->total / (KILN_BENCH_SAMPLES - 1);
    if (memory->count == KILN_BENCH_SAMPLES || reached < (uint64_t)memory->count * tenth)
        return;
    memory->at[memory->count].done = reached;
    memcpy(memory->at[memory->count++].bytes, now, sizeof now);
}

void kiln_bench_memory_start(struct kiln_bench_memory *memory, const struct kiln_stack *stack,
                             pid_t fleet, uint64_t total)
{
    *memory = (struct kiln_bench_memory){.stack = stack, .fleet = fleet, .total = total};
    sample(memory, 0);
}

void kiln_bench_memory_look(void *arg, const struct kiln_progress *progress)
{
    struct kiln_bench_memory *memory = arg;
    uint64_t reached = progress->jobs.at[KILN_JOB_DONE];
    if (kiln_now_s() - memory->looked_s >= LOOK_S || reached >= memory->total)
        sample(memory, reached);
}

void kiln_bench_memory_print(const struct kiln_bench_memory *memory)
{
    printf("%-16s ", "memory, MB");
    for (size_t i = 0; i < SHOWN; i++)
        printf(" %9s", shown_names[i]);
    putchar('\n');
    for (int i = 0; i <= memory->count; i++) {
        const uint64_t *bytes = i < memory->count ? memory->at[i].bytes : memory->peak;
        if (i < memory->count)
            printf("%10llu done ", (unsigned long long)memory->at[i].done);
        else
            printf("%15s ", "peak");
        for (size_t k = 0; k < SHOWN; k++)
            printf(" %9.0f", (double)bytes[shown[k]] / MB);
        putchar('\n');
    }
}

json_t *kiln_bench_memory_json(const struct kiln_bench_memory *memory)
{
    json_t *list = json_array();
    for (int i = 0; i <= memory->count; i++) {
        const uint64_t *bytes = i < memory->count ? memory->at[i].bytes : memory->peak;
        json_t *row = json_object();
        if (i < memory->count)
            json_object_set_new(row, "done", json_integer((json_int_t)memory->at[i].done));
        else
            json_object_set_new(row, "peak", json_true());
        for (size_t k = 0; k < SHOWN; k++)
            json_object_set_new(row, shown_names[k], json_integer((json_int_t)bytes[shown[k]]));
        json_array_append_new(list, row);
    }
    return list;
}

/* --- tables ----------------------------------------------------------------------------------- */

struct table_print {
    long jobs;
    uint64_t bytes;
};

static int print_table(void *arg, const struct kiln_table_size *table, struct kiln_error *err)
{
    struct table_print *print = arg;
    (void)err;
    print->bytes += table->table_bytes + table->index_bytes;
    if (table->table_bytes + table->index_bytes < (uint64_t)print->jobs)
        return 0; /* a byte a job is nothing */
    printf("%-16s %9.1f %9.1f %11llu %11llu %11llu ", table->name, (double)table->table_bytes / MB,
           (double)table->index_bytes / MB, (unsigned long long)table->live,
           (unsigned long long)table->dead, (unsigned long long)table->updates);
    if (table->updates > 0)
        printf("%8.1f %%\n", 100.0 * (double)table->in_place / (double)table->updates);
    else
        printf("%10s\n", "-");
    return 0;
}

int kiln_bench_tables_print(struct kiln_bench *bench, long jobs, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct table_print print = {.jobs = jobs};
    printf("%-16s %9s %9s %11s %11s %11s %10s\n", "ledger, MB", "table", "indexes", "rows", "dead",
           "updates", "in place");
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_sizes(ledger, print_table, &print, err);
    kiln_ledger_close(ledger);
    if (rc == 0)
        printf("%-16s %9.1f in all, %.0f bytes a job\n", "", (double)print.bytes / MB,
               (double)print.bytes / (double)jobs);
    return rc;
}

static int add_table(void *arg, const struct kiln_table_size *table, struct kiln_error *err)
{
    (void)err;
    return json_array_append_new(
        arg,
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "table", table->name, "table_bytes",
                  (json_int_t)table->table_bytes, "index_bytes", (json_int_t)table->index_bytes,
                  "rows", (json_int_t)table->live, "dead", (json_int_t)table->dead, "updates",
                  (json_int_t)table->updates, "in_place", (json_int_t)table->in_place));
}

int kiln_bench_tables_json(struct kiln_bench *bench, json_t **ret, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    *ret = json_array();
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_sizes(ledger, add_table, *ret, err);
    kiln_ledger_close(ledger);
    return rc;
}
