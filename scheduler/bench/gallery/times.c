/* times.c - see times.h. */
#include "scheduler/bench/gallery/times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "schemas/random.h"

uint32_t kiln_bench_arrivals(double rate, double seconds, uint64_t seed, double *due_s,
                             uint32_t max)
{
    uint32_t count = 0;
    for (double at = 0; count < max; due_s[count++] = at) {
        at -= log(kiln_random_share(&seed)) / rate;
        if (at >= seconds)
            break;
    }
    return count;
}

int kiln_bench_times_fit(struct kiln_bench_times *times, uint32_t more, struct kiln_error *err)
{
    const uint32_t room = times->count + more;
    double *at_ms = realloc(times->at_ms, (room + 1) * sizeof *at_ms);
    if (!at_ms)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %u times", room);
    times->at_ms = at_ms;
    times->room = room;
    return 0;
}

void kiln_bench_times_release(struct kiln_bench_times *times)
{
    free(times->at_ms);
    times->at_ms = NULL;
}

void kiln_bench_times_add(struct kiln_bench_times *times, double ms)
{
    if (times->count < times->room)
        times->at_ms[times->count++] = ms;
}

static int by_size(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double kiln_bench_times_at(struct kiln_bench_times *times, double share)
{
    if (times->count == 0)
        return 0;
    qsort(times->at_ms, times->count, sizeof *times->at_ms, by_size);
    const uint32_t at = (uint32_t)(times->count * share);
    return times->at_ms[at < times->count ? at : times->count - 1];
}

static double mean_of(const struct kiln_bench_times *times)
{
    double sum = 0;
    for (uint32_t i = 0; i < times->count; i++)
        sum += times->at_ms[i];
    return times->count ? sum / times->count : 0;
}

void kiln_bench_times_report(struct kiln_bench_times *times, const char *name, double seconds,
                             json_t *list)
{
    const double p50 = kiln_bench_times_at(times, 0.5), p99 = kiln_bench_times_at(times, 0.99);
    const double most = kiln_bench_times_at(times, 1), mean = mean_of(times);
    if (!list)
        printf("%-37s %7.2f %7.2f %7.1f %7.1f ms  p50, mean, p99, most of %u; %.1f a second, "
               "%u failed\n",
               name, p50, mean, p99, most, times->count, times->count / seconds, times->failed);
    else
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "what",
                                              name, "count", (json_int_t)times->count, "failed",
                                              (json_int_t)times->failed, "p50_ms", p50, "mean_ms",
                                              mean, "p99_ms", p99, "most_ms", most, "a_second",
                                              times->count / seconds));
}
