/* bench_devices_report.c - idle time from beats, and the table of `kiln bench fleet`. */
#include <stdio.h>
#include <unistd.h>

#include "scheduler/cli/bench_devices.h"

void kiln_bench_idle_see(struct kiln_bench_idle *idle, const struct kiln_beat *beat, bool full)
{
    int number;
    if (sscanf(beat->worker, "worker-%d", &number) != 1 || number < 0 ||
        number >= KILN_STACK_WORKERS_MAX)
        return;
    struct kiln_bench_idle_worker *at = &idle->at[number];
    if (!at->seen) {
        at->seen = true;
        at->base = beat->wanted_ms;
    }
    if (!full || beat->wanted_ms == at->base)
        return; /* no batch has ended in this queue */
    if (!at->first)
        at->from = *beat;
    at->first = true;
    at->to = *beat;
}

void kiln_bench_idle_sum(const struct kiln_bench_idle *idle, struct kiln_bench_row *row)
{
    double ready = 0, wanted = 0, computed = 0;
    for (int i = 0; i < KILN_STACK_WORKERS_MAX; i++) {
        if (!idle->at[i].first)
            continue;
        const struct kiln_beat *from = &idle->at[i].from, *to = &idle->at[i].to;
        ready += (double)(to->ready_ms - from->ready_ms);
        wanted += (double)(to->wanted_ms - from->wanted_ms);
        computed += (double)(to->computed_ms - from->computed_ms);
    }
    row->idle = ready > 0 ? 1 - computed / ready : -1;
    row->idle_in_hand = wanted > 0 ? 1 - computed / wanted : -1;
}

static json_t *share_json(double share)
{
    return share < 0 ? json_null() : json_real(share);
}

static json_t *row_json(const struct kiln_bench_row *row)
{
    return json_pack(
        "{s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:f, s:f}", "devices", (json_int_t)row->devices,
        "jobs", (json_int_t)row->jobs, "seconds", row->seconds, "pictures_per_s", row->rate,
        "efficiency", row->share, "idle_share", share_json(row->idle), "idle_in_hand_share",
        share_json(row->idle_in_hand), "job_p50_s", row->job_p50_s, "job_p95_s", row->job_p95_s);
}

static const char *percent(double share, char out[16])
{
    snprintf(out, 16, share < 0 ? "-" : "%.2f %%", 100 * share);
    return out;
}

void kiln_bench_devices_print(const struct kiln_bench *bench, const struct kiln_bench_row *rows,
                              int count)
{
    const struct kiln_config *config = bench->own.config;
    if (bench->cli->json) {
        json_t *list = json_array();
        for (int i = 0; i < count; i++)
            json_array_append_new(list, row_json(&rows[i]));
        (void)kiln_print_json(
            bench->cli,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:I}", "bench", "fleet", "engine",
                      kiln_config_text(config, KILN_KEY_ENGINE), "model",
                      kiln_config_text(config, KILN_KEY_MODEL), "dtype",
                      kiln_config_text(config, KILN_KEY_DTYPE), "sizes", bench->sizes, "loras",
                      bench->loras, "batch_max", kiln_config_int(config, KILN_KEY_BATCH_MAX),
                      "measured", list, "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
        return;
    }
    printf("%-8s %6s %9s %11s %11s %9s %9s %8s %8s\n", "DEVICES", "JOBS", "SECONDS", "PICTURES/S",
           "EFFICIENCY", "IDLE", "IN HAND", "JOB P50", "P95 s");
    for (int i = 0; i < count; i++) {
        const struct kiln_bench_row *row = &rows[i];
        char idle[16], in_hand[16];
        printf("%-8ld %6ld %9.2f %11.2f %9.1f %% %9s %9s %8.2f %8.2f\n", row->devices, row->jobs,
               row->seconds, row->rate, 100 * row->share, percent(row->idle, idle),
               percent(row->idle_in_hand, in_hand), row->job_p50_s, row->job_p95_s);
    }
}
