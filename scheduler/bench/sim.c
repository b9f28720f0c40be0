/* sim.c - `kiln sim`: what the policy makes of a trace, beside what fleets do without one.
 *
 * The trace is read like job files (input_lines.h); the simulation is scheduler/sim/sim.h.
 * --schedule writes every decision, so that the summary can be checked.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/bench/bench.h"
#include "scheduler/cli/jobs/enqueue/input_lines.h"
#include "scheduler/sim/disks.h"
#include "scheduler/sim/report.h"
#include "storage/formats/replace.h"

#define SECONDS_MAX 86400.0

/* A number in [min, max]; fallback when the option was not given.  0 or an exit status. */
static int number_arg(struct kiln_cli *cli, const struct kiln_args *args, const char *name,
                      double min, double max, double fallback, double *ret)
{
    const char *text = kiln_arg(args, name);
    char *end = NULL;
    double value = text ? strtod(text, &end) : fallback;
    if (text && (end == text || *end || !(value >= min && value <= max)))
        return kiln_usage(cli, "--%s is '%s'; a number from %g to %g is needed", name, text, min,
                          max);
    *ret = value;
    return 0;
}

/* 0 or an exit status. */
static int read_options(struct kiln_cli *cli, const struct kiln_args *args,
                        struct kiln_sim_options *ret)
{
    const char *name = kiln_arg(args, "policy");
    int policy = name ? kiln_sim_policy_by_name(name) : KILN_SIM_KILN, status;
    long workers = 0, window = 0, seed = 0, batch = 0, disk = 0;
    double percent = 0, lookup_ms = 0;
    const char *depths = kiln_arg(args, "depths");
    if (policy < 0)
        return kiln_usage(cli, "unknown policy '%s'; use kiln, fifo or affinity", name);
    if (!kiln_arg(args, "trace"))
        return kiln_usage(cli, "something is missing: --trace FILE.csv, or - for stdin");
    if ((status = kiln_arg_int(cli, args, "workers", 1, KILN_SIM_WORKERS_MAX, 8, &workers)) ||
        (status = kiln_arg_int(cli, args, "window", 1, UINT32_MAX, 32, &window)) ||
        (status = kiln_arg_int(cli, args, "seed", 0, LONG_MAX, 0, &seed)) ||
        (status = number_arg(cli, args, "lora-switch-s", 0, SECONDS_MAX, 1, &ret->switch_s)) ||
        (status = number_arg(cli, args, "lora-fetch-s", 0, SECONDS_MAX, 0, &ret->fetch_s)) ||
        (status = kiln_arg_int(cli, args, "lora-disk", KILN_SIM_DISK_MIN, KILN_SIM_DISK_MAX,
                               KILN_SIM_DISK_MAX, &disk)) ||
        (status = number_arg(cli, args, "base-s", 1e-6, SECONDS_MAX, 1, &ret->base_s)) ||
        (status = number_arg(cli, args, "noise", 0, 1, 0, &ret->noise)) ||
        (status = kiln_arg_int(cli, args, "batch", 1, KILN_ASSIGN_MAX, 1, &batch)) ||
        (status = number_arg(cli, args, "batch-fixed", 0, 1, 0, &ret->batch_fixed)) ||
        (status = number_arg(cli, args, "hits", 0, 100, 0, &percent)) ||
        (status = number_arg(cli, args, "lookup-ms", 0, 1e6, 0.2, &lookup_ms)))
        return status;
    if (!kiln_sim_depths_parse(depths ? depths : "1", &ret->hits))
        return kiln_usage(cli,
                          "--depths is '%s'; steps to skip are needed, each with its weight, such "
                          "as 1:3,2:1",
                          depths);
    if (batch > 1 && policy != KILN_SIM_KILN)
        return kiln_usage(cli, "--batch is for the policy kiln; %s renders one picture at a time",
                          name);
    if (percent == 0 && (depths || kiln_arg(args, "lookup-ms")))
        return kiln_usage(cli,
                          "--depths and --lookup-ms say what hits are like; add --hits PERCENT");
    if (ret->fetch_s == 0 && kiln_arg(args, "lora-disk"))
        return kiln_usage(cli,
                          "--lora-disk says how many files a worker keeps; add --lora-fetch-s S");
    ret->disk = (uint32_t)disk;
    ret->batch = (uint32_t)batch;
    ret->hits.share = percent / 100;
    ret->hits.lookup_s = lookup_ms / 1000;
    ret->policy = (enum kiln_sim_policy)policy;
    ret->workers = (uint32_t)workers;
    ret->window = (uint32_t)window;
    ret->seed = (uint64_t)seed;
    return 0;
}

static int read_trace(const char *path, struct kiln_trace **ret, struct kiln_error *err)
{
    struct kiln_lines *lines = NULL;
    const char *text = "";
    size_t len;
    int rc = kiln_lines_open(path, false, &lines, err);
    if (rc)
        return rc;
    *ret = kiln_trace_new(kiln_lines_name(lines));
    if (!*ret)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a trace");
    while (rc == 0 && text) {
        if (kiln_lines_next(lines, &text, &len, err))
            rc = kiln_fail_in(err, "%s:%llu", kiln_lines_name(lines),
                              (unsigned long long)kiln_lines_number(lines));
        else
            rc = text ? kiln_trace_line(*ret, kiln_lines_number(lines), text, len, err)
                      : kiln_trace_end(*ret, err);
    }
    kiln_lines_close(lines);
    return rc;
}

/* One job a line, in the order of arrival. */
static int write_schedule(const char *path, const struct kiln_trace *trace,
                          const struct kiln_sim_run *run, struct kiln_error *err)
{
    struct kiln_text csv = {0};
    kiln_text_puts(&csv, "line,worker,arrival_s,start_s,end_s,switched,tenant,loras,skip\n");
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct kiln_trace_job *job = &trace->jobs[i];
        const struct kiln_sim_served *served = &run->served[i];
        kiln_text_printf(&csv, "%u,%u,%.9f,%.9f,%.9f,%d,%s,%s,%u\n", job->line, served->worker,
                         (double)job->arrival_ns / 1e9, (double)served->start_ns / 1e9,
                         (double)served->end_ns / 1e9, served->switched,
                         kiln_intern_text(&trace->tenants, job->tenant),
                         kiln_intern_text(&trace->sets, job->set), served->skip);
    }
    int rc = csv.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory to write %s", path)
                        : kiln_replace_named(path, csv.at, csv.len, 0666, err);
    kiln_text_release(&csv);
    return rc;
}

static int print_report(struct kiln_cli *cli, const struct kiln_sim_comparison *cache,
                        const struct kiln_sim_options *options)
{
    struct kiln_text out = {0};
    if (cli->json) {
        kiln_sim_report_json(&cache->known, &out);
        if (options->hits.share > 0)
            kiln_sim_comparison_json(cache, options, &out);
        kiln_text_puts(&out, "}\n");
    } else {
        kiln_sim_report_text(&cache->known, options, &out);
        if (options->hits.share > 0)
            kiln_sim_comparison_text(cache, options, &out);
    }
    bool whole = !out.failed && fwrite(out.at, 1, out.len, stdout) == out.len;
    if (out.failed)
        kiln_warn(cli, "no memory for the report");
    kiln_text_release(&out);
    return whole ? 0 : EX_IOERR;
}

/* The same trace without the cache, and with one that the policy does not know of.  The baselines
 * know of none. */
static int simulate_others(const struct kiln_trace *trace, const struct kiln_sim_options *options,
                           struct kiln_sim_comparison *ret, struct kiln_error *err)
{
    struct kiln_sim_options other = *options;
    struct kiln_sim_run run = {0};
    other.known = KILN_SIM_HITS_NONE;
    int rc = kiln_sim(trace, &other, &run, err);
    rc = rc ? rc : kiln_sim_report(trace, &other, &run, &ret->full, err);
    kiln_sim_release(&run);
    ret->unknown = ret->known;
    if (rc || options->policy != KILN_SIM_KILN)
        return rc;
    other.known = KILN_SIM_HITS_UNKNOWN;
    rc = kiln_sim(trace, &other, &run, err);
    rc = rc ? rc : kiln_sim_report(trace, &other, &run, &ret->unknown, err);
    kiln_sim_release(&run);
    return rc;
}

int kiln_bench_sim(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_sim_options options = {0};
    struct kiln_trace *trace = NULL;
    struct kiln_sim_run run = {0};
    struct kiln_sim_comparison cache = {0};
    int status = read_options(cli, args, &options);
    if (status)
        return status;
    const char *schedule = kiln_arg(args, "schedule");
    int rc = read_trace(kiln_arg(args, "trace"), &trace, &err);
    rc = rc ? rc : kiln_sim(trace, &options, &run, &err);
    rc = rc ? rc : kiln_sim_report(trace, &options, &run, &cache.known, &err);
    if (rc == 0 && options.hits.share > 0)
        rc = simulate_others(trace, &options, &cache, &err);
    if (rc == 0 && schedule)
        rc = write_schedule(schedule, trace, &run, &err);
    status = rc ? kiln_report(cli, &err) : print_report(cli, &cache, &options);
    kiln_sim_release(&run);
    kiln_trace_free(trace);
    return status;
}
