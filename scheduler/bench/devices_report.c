/* devices_report.c - the table of `kiln bench fleet`. */
#include <stdio.h>
#include <unistd.h>

#include "scheduler/bench/devices.h"

static json_t *row_json(const struct kiln_bench_row *row)
{
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:f, s:f, s:f, s:f, s:f}", "devices",
                     (json_int_t)row->devices, "jobs", (json_int_t)row->jobs, "seconds",
                     row->seconds, "pictures_per_s", row->rate, "efficiency", row->share,
                     "idle_share", kiln_bench_share_json(row->idle), "idle_in_hand_share",
                     kiln_bench_share_json(row->idle_in_hand), "job_p50_s", row->job_p50_s,
                     "job_p95_s", row->job_p95_s, "tail_s", row->tail_s, "encode_ms",
                     row->encode_ms, "upload_ms", row->upload_ms);
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
    printf("%-8s %6s %9s %11s %11s %9s %9s %8s %8s %7s %7s %7s\n", "DEVICES", "JOBS", "SECONDS",
           "PICTURES/S", "EFFICIENCY", "IDLE", "IN HAND", "JOB P50", "P95 s", "TAIL s", "ENCODE",
           "STORE ms");
    for (int i = 0; i < count; i++) {
        const struct kiln_bench_row *row = &rows[i];
        char idle[16], in_hand[16];
        printf("%-8ld %6ld %9.2f %11.2f %9.1f %% %9s %9s %8.2f %8.2f %7.2f %7.1f %7.1f\n",
               row->devices, row->jobs, row->seconds, row->rate, 100 * row->share,
               percent(row->idle, idle), percent(row->idle_in_hand, in_hand), row->job_p50_s,
               row->job_p95_s, row->tail_s, row->encode_ms, row->upload_ms);
    }
}
