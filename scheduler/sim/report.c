/* report.c - sums, quantiles and bounds of a run, as JSON and as a table.
 *
 * Work is what the pictures really took (with --noise not what the trace says), so that the bound
 * is one of the very jobs that were rendered.  The makespan is compared with the bound of work and
 * loads alone; jobs that come late impose another one, which the table shows when it is larger.
 */
#include "scheduler/sim/report.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/policy/bounds.h"

/* Division, not a product with 1e-9: whole seconds stay whole in the output. */
static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The nearest rank: the smallest of the sorted values that `percent` of them do not exceed. */
static int64_t percentile(const int64_t *sorted, uint32_t count, uint32_t percent)
{
    uint64_t rank = ((uint64_t)count * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

static int fill_latencies(const struct kiln_trace *trace, const struct kiln_sim_run *run,
                          struct kiln_sim_report *ret, struct kiln_error *err)
{
    int64_t *latencies = malloc(trace->count * sizeof *latencies);
    if (!latencies)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %u latencies", trace->count);
    double sum_s = 0;
    for (uint32_t i = 0; i < trace->count; i++) {
        latencies[i] = run->served[i].end_ns - trace->jobs[i].arrival_ns;
        sum_s += seconds(latencies[i]);
    }
    qsort(latencies, trace->count, sizeof *latencies, compare_ns);
    ret->latency_mean_s = sum_s / trace->count;
    ret->latency_p50_s = seconds(percentile(latencies, trace->count, 50));
    ret->latency_p99_s = seconds(percentile(latencies, trace->count, 99));
    free(latencies);
    return 0;
}

static void fill_steps(const struct kiln_trace *trace, const struct kiln_sim_run *run,
                       struct kiln_sim_report *ret)
{
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct kiln_trace_shape shape = kiln_trace_shape(trace, trace->jobs[i].shape);
        const uint32_t skip = run->served[i].skip;
        const struct kiln_mode own = kiln_sim_hit_mode(shape, 0),
                               mode = kiln_sim_hit_mode(shape, skip);
        const double steps = kiln_mode_forwards(&own, shape.steps);
        ret->may_hit += kiln_sim_may_hit(trace, i);
        ret->hits += skip > 0;
        ret->steps += steps;
        ret->steps_saved += steps - kiln_mode_forwards(&mode, shape.steps);
    }
}

static int fill_waits(const struct kiln_trace *trace, const struct kiln_sim_run *run,
                      struct kiln_sim_report *ret, struct kiln_error *err)
{
    int64_t *waits = malloc(trace->count * sizeof *waits);
    if (!waits)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %u waits", trace->count);
    double sum_s = 0;
    for (uint32_t i = 0; i < trace->count; i++) {
        int64_t max_wait = trace->jobs[i].max_wait_ns;
        waits[i] = run->served[i].start_ns - trace->jobs[i].arrival_ns;
        sum_s += seconds(waits[i]);
        ret->promises += max_wait > 0;
        ret->missed_max_wait += max_wait > 0 && waits[i] > max_wait;
    }
    qsort(waits, trace->count, sizeof *waits, compare_ns);
    ret->wait_mean_s = sum_s / trace->count;
    ret->wait_p50_s = seconds(percentile(waits, trace->count, 50));
    ret->wait_p99_s = seconds(percentile(waits, trace->count, 99));
    ret->wait_max_s = seconds(waits[trace->count - 1]);
    free(waits);
    return 0;
}

/* A cold start: no set is resident anywhere. */
static int fill_bounds(const struct kiln_trace *trace, const struct kiln_sim_options *options,
                       const struct kiln_sim_run *run, struct kiln_sim_report *ret,
                       struct kiln_error *err)
{
    struct kiln_bound_fleet fleet = kiln_bound_fleet_of(options->workers);
    struct kiln_bound_set *sets = calloc(trace->sets.count, sizeof *sets);
    struct kiln_bound_job *jobs = calloc(trace->count, sizeof *jobs);
    if (!sets || !jobs) {
        free(sets);
        free(jobs);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the bounds");
    }
    for (uint32_t i = trace->count; i-- > 0;) {
        double work_s = seconds(run->served[i].work_ns);
        struct kiln_bound_set *set = &sets[trace->jobs[i].set];
        jobs[i] = (struct kiln_bound_job){.arrival_s = seconds(trace->jobs[i].arrival_ns),
                                          .work_s = work_s,
                                          .last = work_s > 0 && set->work_s <= 0};
        set->work_s += work_s;
        set->longest_s = work_s > set->longest_s ? work_s : set->longest_s;
        set->switch_s = options->switch_s;
    }
    struct kiln_bound bound = kiln_bound_of(sets, trace->sets.count, fleet);
    ret->lower_bound_s = bound.makespan_s;
    ret->arrivals_s = kiln_bound_arrivals(jobs, trace->count, options->switch_s, fleet);
    ret->switches_min = bound.switches;
    ret->work_s = bound.work_s;
    free(sets);
    free(jobs);
    return 0;
}

int kiln_sim_report(const struct kiln_trace *trace, const struct kiln_sim_options *options,
                    const struct kiln_sim_run *run, struct kiln_sim_report *ret,
                    struct kiln_error *err)
{
    struct kiln_sim_report report = {.jobs = trace->count,
                                     .makespan_s = seconds(run->end_ns),
                                     .switches = run->switches,
                                     .switch_s = (double)run->switches * options->switch_s +
                                                 (double)run->fetches * options->fetch_s,
                                     .fetch_s = options->fetch_s,
                                     .fetches = run->fetches,
                                     .fair_gap_gpu_s = run->fair_gap_s,
                                     .calls = run->calls,
                                     .lookup_s = run->lookup_s};
    int rc = fill_waits(trace, run, &report, err);
    rc = rc ? rc : fill_latencies(trace, run, &report, err);
    fill_steps(trace, run, &report);
    rc = rc ? rc : fill_bounds(trace, options, run, &report, err);
    if (rc)
        return rc;
    report.ratio = kiln_bound_ratio(report.makespan_s, report.lower_bound_s);
    *ret = report;
    return 0;
}

/* --- JSON ------------------------------------------------------------------------------------ */
static void number(struct kiln_text *out, const char *key, double value)
{
    kiln_text_printf(out, ",\"%s\":", key);
    kiln_text_double(out, value);
}

static void whole(struct kiln_text *out, const char *key, uint64_t value)
{
    kiln_text_printf(out, ",\"%s\":", key);
    kiln_text_u64(out, value);
}

void kiln_sim_report_json(const struct kiln_sim_report *report, struct kiln_text *out)
{
    kiln_text_printf(out, "{\"jobs\":%u", report->jobs);
    number(out, "makespan_s", report->makespan_s);
    number(out, "lower_bound_s", report->lower_bound_s);
    number(out, "ratio", report->ratio);
    whole(out, "switches", report->switches);
    whole(out, "switches_min", report->switches_min);
    number(out, "wait_p50_s", report->wait_p50_s);
    number(out, "wait_p99_s", report->wait_p99_s);
    number(out, "wait_max_s", report->wait_max_s);
    whole(out, "missed_max_wait", report->missed_max_wait);
    number(out, "fair_gap_gpu_s", report->fair_gap_gpu_s);
    if (report->fetch_s > 0)
        whole(out, "fetches", report->fetches);
}

static void column_json(struct kiln_text *out, const char *key,
                        const struct kiln_sim_report *report)
{
    kiln_text_printf(out, ",\"%s\":{\"calls\":", key);
    kiln_text_u64(out, report->calls);
    number(out, "work_s", report->work_s);
    number(out, "makespan_s", report->makespan_s);
    number(out, "jobs_per_s", report->jobs / report->makespan_s);
    number(out, "latency_mean_s", report->latency_mean_s);
    number(out, "latency_p50_s", report->latency_p50_s);
    number(out, "latency_p99_s", report->latency_p99_s);
    number(out, "wait_max_s", report->wait_max_s);
    kiln_text_puts(out, "}");
}

void kiln_sim_comparison_json(const struct kiln_sim_comparison *cache,
                              const struct kiln_sim_options *options, struct kiln_text *out)
{
    kiln_text_printf(out, ",\"cache\":{\"may_hit\":%u", cache->known.may_hit);
    whole(out, "hits", cache->known.hits);
    number(out, "steps", cache->full.steps);
    number(out, "steps_saved", cache->known.steps_saved);
    number(out, "lookup_s", cache->known.lookup_s);
    column_json(out, "full", &cache->full);
    if (options->policy == KILN_SIM_KILN)
        column_json(out, "unknown", &cache->unknown);
    column_json(out, "known", &cache->known);
    kiln_text_puts(out, "}");
}

/* --- the table ------------------------------------------------------------------------------- */
/* Four digits where values are small: ratios are told apart by the third. */
static void row(struct kiln_text *out, const char *name, double value, const char *unit,
                const char *meaning)
{
    kiln_text_printf(out, "%-16s %12.*f", name, value < 10 ? 4 : 1, value);
    if (meaning[0])
        kiln_text_printf(out, " %-5s  %s\n", unit, meaning);
    else
        kiln_text_printf(out, "%s%s\n", unit[0] ? " " : "", unit);
}

void kiln_sim_report_text(const struct kiln_sim_report *report,
                          const struct kiln_sim_options *options, struct kiln_text *out)
{
    double fleet_s = report->makespan_s * options->workers;
    kiln_text_printf(out, "%u jobs, %u workers, policy %s", report->jobs, options->workers,
                     kiln_sim_policy_name(options->policy));
    if (options->policy == KILN_SIM_AFFINITY)
        kiln_text_printf(out, " over %u jobs", options->window);
    kiln_text_printf(out, ", %g s to change the LoRA set\n\n", options->switch_s);

    row(out, "makespan", report->makespan_s, "s", "first arrival to the end of the last picture");
    row(out, "lower bound", report->lower_bound_s, "s",
        "no schedule is shorter: work and one load of each set, shared evenly");
    row(out, "ratio", report->ratio, "", "makespan over lower bound");
    if (report->arrivals_s > report->lower_bound_s) {
        row(out, "arrivals end", report->arrivals_s, "s",
            "no schedule is shorter: jobs come that late, and their sets are loaded");
        row(out, "ratio to that", kiln_bound_ratio(report->makespan_s, report->arrivals_s), "", "");
    }
    kiln_text_printf(out, "%-16s %12llu        at least %llu: each set once\n", "switches",
                     (unsigned long long)report->switches,
                     (unsigned long long)report->switches_min);
    if (options->fetch_s > 0)
        kiln_text_printf(out, "%-16s %12llu        files of LoRAs, %g s each; disks of %u\n",
                         "fetches", (unsigned long long)report->fetches, options->fetch_s,
                         options->disk);
    row(out, "computing", 100 * report->work_s / fleet_s, "%", "of the fleet's time");
    row(out, "switching", 100 * report->switch_s / fleet_s, "%", "of the fleet's time");
    row(out, "wait, mean", report->wait_mean_s, "s", "from arrival to the start of its compute");
    row(out, "wait, half", report->wait_p50_s, "s", "half of the jobs wait no longer");
    row(out, "wait, 99 %", report->wait_p99_s, "s", "99 of 100 wait no longer");
    row(out, "wait, longest", report->wait_max_s, "s", "");
    kiln_text_printf(out, "%-16s %12u        of %u jobs with a max_wait_s\n", "missed promises",
                     report->missed_max_wait, report->promises);
    row(out, "fairness gap", report->fair_gap_gpu_s, "GPU-s",
        "between tenants that both had work waiting all the while");
}

/* --- the hits -------------------------------------------------------------------------------- */
static void column_row(struct kiln_text *out, const char *name, const double *values,
                       const bool *shown, const char *unit)
{
    kiln_text_printf(out, "%-20s", name);
    for (int i = 0; i < 3; i++)
        if (shown[i])
            kiln_text_printf(out, " %14.*f", fabs(values[i]) < 10 ? 4 : 1, values[i]);
    kiln_text_printf(out, "  %s\n", unit);
}

/* By how much less of something there is, in percent. */
static double less(double of, double before)
{
    return before > 0 ? 100 * (1 - of / before) : 0;
}

void kiln_sim_comparison_text(const struct kiln_sim_comparison *cache,
                              const struct kiln_sim_options *options, struct kiln_text *out)
{
    const struct kiln_sim_report *full = &cache->full, *unknown = &cache->unknown,
                                 *known = &cache->known;
    const bool shown[3] = {true, options->policy == KILN_SIM_KILN, true};
#define COLUMN_ROW(name, field, unit)                                                              \
    column_row(out, name,                                                                          \
               ((double[]){(double)full->field, (double)unknown->field, (double)known->field}),    \
               shown, unit)
    kiln_text_printf(out,
                     "\n%u of %u jobs that may begin from a stored latent do: %.1f of %.1f steps "
                     "saved (%.1f %%); %.3f s of look-ups\n\n%-20s %14s",
                     known->hits, known->may_hit, known->steps_saved, full->steps,
                     less(full->steps - known->steps_saved, full->steps), known->lookup_s, "",
                     "in full");
    if (shown[1])
        kiln_text_printf(out, " %14s", "hits, unknown");
    kiln_text_printf(out, " %14s\n", shown[1] ? "hits, known" : "with hits");
    COLUMN_ROW("makespan", makespan_s, "s");
    column_row(out, "throughput",
               (double[]){full->jobs / full->makespan_s, unknown->jobs / unknown->makespan_s,
                          known->jobs / known->makespan_s},
               shown, "pictures/s");
    COLUMN_ROW("computing", work_s, "GPU-s");
    COLUMN_ROW("calls of engines", calls, "");
    COLUMN_ROW("latency, mean", latency_mean_s, "s");
    COLUMN_ROW("latency, half", latency_p50_s, "s");
    COLUMN_ROW("latency, 99 %", latency_p99_s, "s");
    COLUMN_ROW("wait, longest", wait_max_s, "s");
#undef COLUMN_ROW
    kiln_text_printf(out, "hits save %.1f %% of the latency and %.1f %% of the makespan",
                     less(known->latency_mean_s, full->latency_mean_s),
                     less(known->makespan_s, full->makespan_s));
    if (shown[1])
        kiln_text_printf(out,
                         "; of what is left, grouping by the steps left saves %.1f %% and %.1f %%",
                         less(known->latency_mean_s, unknown->latency_mean_s),
                         less(known->makespan_s, unknown->makespan_s));
    kiln_text_puts(out, "\n");
}
