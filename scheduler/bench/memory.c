/* memory.c - see memory.h.
 *
 * The processes of Postgres share their buffers, which do not grow: of each of them only its own
 * memory counts (RssAnon).  Of the other programs all resident memory counts (VmRSS).
 */
#include "scheduler/bench/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/ledger.h"
#include "storage/ledger/read/ops.h"

#define LOOK_S 0.5
#define MB 1048576.0

static const enum kiln_bench_part shown[] = {KILN_BENCH_REDIS, KILN_BENCH_POSTGRES,
                                             KILN_BENCH_SCHEDULER, KILN_BENCH_WORKER};
static const char *const shown_names[] = {"redis", "postgres", "scheduler", "workers"};
#define SHOWN (sizeof shown / sizeof *shown)

/* A line of /proc/PID/status in bytes, 0 if there is none; *ret_parent: PPid. */
static double status_bytes(pid_t pid, const char *name, pid_t *ret_parent)
{
    char path[64], line[256];
    double kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "re");
    size_t len = strlen(name);
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "PPid:", 5) == 0)
            *ret_parent = (pid_t)atol(line + 5);
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            kilobytes = strtod(line + len + 1, NULL);
    }
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

static double own_bytes(pid_t pid, pid_t *ret_parent)
{
    return status_bytes(pid, "RssAnon", ret_parent);
}

static uint64_t whole_bytes(pid_t pid)
{
    pid_t parent;
    return (uint64_t)status_bytes(pid, "VmRSS", &parent);
}

static void sample(struct kiln_bench_memory *memory, uint64_t reached)
{
    const struct kiln_stack *stack = memory->stack;
    uint64_t now[KILN_BENCH_PARTS] = {
        [KILN_BENCH_REDIS] = whole_bytes(kiln_stack_find_redis(stack)),
        [KILN_BENCH_SCHEDULER] = whole_bytes(kiln_stack_find_scheduler(stack)),
        [KILN_BENCH_WORKER] = whole_bytes(memory->fleet),
        [KILN_BENCH_POSTGRES] =
            (uint64_t)kiln_bench_family(kiln_stack_find_postgres(stack), own_bytes),
    };
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

struct tables {
    json_t *list; /* or NULL, to print */
    long jobs;
    uint64_t bytes;
};

static int add_table(void *arg, const struct kiln_table_size *table, struct kiln_error *err)
{
    struct tables *tables = arg;
    (void)err;
    tables->bytes += table->table_bytes + table->index_bytes;
    if (tables->list)
        return json_array_append_new(
            tables->list,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "table", table->name, "table_bytes",
                      (json_int_t)table->table_bytes, "index_bytes", (json_int_t)table->index_bytes,
                      "rows", (json_int_t)table->live, "dead", (json_int_t)table->dead, "updates",
                      (json_int_t)table->updates, "in_place", (json_int_t)table->in_place));
    if (table->table_bytes + table->index_bytes < (uint64_t)tables->jobs)
        return 0; /* less than a byte a job */
    printf("%-16s %9.1f %9.1f %11llu %11llu %11llu ", table->name, (double)table->table_bytes / MB,
           (double)table->index_bytes / MB, (unsigned long long)table->live,
           (unsigned long long)table->dead, (unsigned long long)table->updates);
    if (table->updates > 0)
        printf("%8.1f %%\n", 100.0 * (double)table->in_place / (double)table->updates);
    else
        printf("%10s\n", "-");
    return 0;
}

int kiln_bench_tables(struct kiln_bench *bench, long jobs, json_t *list, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct tables tables = {.list = list, .jobs = jobs};
    if (!list)
        printf("%-16s %9s %9s %11s %11s %11s %10s\n", "ledger, MB", "table", "indexes", "rows",
               "dead", "updates", "in place");
    int rc = kiln_open_ledger(&bench->own, &ledger, err);
    rc = rc ? rc : kiln_ledger_sizes(ledger, add_table, &tables, err);
    kiln_ledger_close(ledger);
    if (rc == 0 && !list)
        printf("%-16s %9.1f in all, %.0f bytes a job\n", "", (double)tables.bytes / MB,
               (double)tables.bytes / (double)jobs);
    return rc;
}
