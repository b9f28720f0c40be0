/* changes.c - how much the first step of a run changes of its start: the bounds that kiln.json
 * gets, and what they would give up; see teleport.h and pipeline/engine/change.c.
 *
 * The bounds of a class and depth are quantiles over its runs that came out right.  Runs of pairs
 * that the guard refuses show how much a check by these bounds would catch, if the guard were
 * wrong.
 */
#include <math.h>
#include <stdlib.h>

#include "worker/bench/teleport/teleport.h"

#define RIGHT_MIN 100 /* runs that came out right, for bounds */
#define TAIL 0.001    /* on each side */

int kiln_teleport_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the two values beside it, as R's type 7. */
static double quantile(const double *sorted, size_t count, double share)
{
    const double at = share * (double)(count - 1);
    const size_t low = (size_t)at;
    return low + 1 < count ? sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low])
                           : sorted[low];
}

/* The mean change of a pair's runs; NaN if it was not measured. */
static double change_of(const struct kiln_teleport_table *table, int run, size_t pair)
{
    return kiln_teleport_column(table, run, KILN_TELEPORT_CHANGE)[pair] /
           kiln_teleport_column(table, run, KILN_TELEPORT_PICTURES)[pair];
}

static bool right(const struct kiln_teleport_table *table, int run, size_t pair)
{
    return kiln_teleport_column(table, run, KILN_TELEPORT_WHOLE)[pair] ==
           kiln_teleport_column(table, run, KILN_TELEPORT_PICTURES)[pair];
}

/* The sorted changes of a group's runs; all: also those that came out wrong. */
static size_t collect(const struct kiln_teleport_bench *bench,
                      const struct kiln_teleport_table *table, int group, int run, bool all,
                      double *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < table->pairs; i++)
        if (bench->pairs.items[i].group == group && change_of(table, run, i) > 0 &&
            (all || right(table, run, i)))
            ret[n++] = change_of(table, run, i);
    qsort(ret, n, sizeof *ret, kiln_teleport_by_value);
    return n;
}

int kiln_teleport_bounds(const struct kiln_teleport_bench *bench,
                         const struct kiln_teleport_table *table, int group, int run,
                         double ret_bounds[2], struct kiln_error *err)
{
    double *room = malloc((table->pairs + 1) * sizeof *room);
    if (!room)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    const size_t n = collect(bench, table, group, run, false, room);
    const bool tells = n >= RIGHT_MIN && bench->options.seeds == 1;
    ret_bounds[0] = tells ? quantile(room, n, TAIL) : NAN;
    ret_bounds[1] = tells ? quantile(room, n, 1 - TAIL) : NAN;
    free(room);
    return 0;
}

/* The bounds of all accepted groups together: the least and the most. */
static int widest(const struct kiln_teleport_bench *bench, const struct kiln_teleport_table *table,
                  int run, double ret[2], struct kiln_error *err)
{
    int code = 0;
    ret[0] = ret[1] = NAN;
    for (int g = 0; g < KILN_REUSE_CLASS_COUNT - 1 && code == 0; g++) {
        double bounds[2];
        code = kiln_teleport_bounds(bench, table, g, run, bounds, err);
        if (code || isnan(bounds[0]))
            continue;
        ret[0] = isnan(ret[0]) ? bounds[0] : fmin(ret[0], bounds[0]);
        ret[1] = isnan(ret[1]) ? bounds[1] : fmax(ret[1], bounds[1]);
    }
    return code;
}

/* Of the runs of a group that came out wrong, and of those that came out right, how many are out of
 * bounds. */
static void print_caught(const struct kiln_teleport_bench *bench,
                         const struct kiln_teleport_table *table, int group, int run,
                         const double bounds[2])
{
    size_t wrong = 0, good = 0, caught = 0, lost = 0;
    for (size_t i = 0; i < table->pairs; i++) {
        const double change = change_of(table, run, i);
        if (bench->pairs.items[i].group != group || !(change > 0))
            continue;
        const bool out = change < bounds[0] || change > bounds[1], is = right(table, run, i);
        wrong += !is;
        good += is;
        caught += !is && out;
        lost += is && out;
    }
    printf(" %zu of %zu, %zu of %zu |", caught, wrong, lost, good);
}

static int print_group(const struct kiln_teleport_bench *bench,
                       const struct kiln_teleport_table *table, int group, bool caught,
                       double *room, struct kiln_error *err)
{
    int code = 0;
    printf("| %s |", bench->pairs.groups[group].name);
    for (int run = 0; run < bench->run_count && code == 0; run++) {
        if (bench->runs[run].kind != KILN_TELEPORT_SKIP)
            continue;
        const size_t n = collect(bench, table, group, run, true, room);
        double bounds[2];
        code = caught ? widest(bench, table, run, bounds, err)
                      : kiln_teleport_bounds(bench, table, group, run, bounds, err);
        if (code)
            break;
        if (caught)
            print_caught(bench, table, group, run, bounds);
        else if (n == 0)
            printf(" - |");
        else if (isnan(bounds[0]))
            printf(" %.3f |", quantile(room, n, 0.5));
        else
            printf(" %.3f (%.3f to %.3f) |", quantile(room, n, 0.5), bounds[0], bounds[1]);
    }
    puts("");
    return code;
}

static void print_head(const struct kiln_teleport_bench *bench)
{
    printf("| pairs |");
    for (int32_t depth = bench->first_depth; depth < bench->end_depth; depth++)
        printf(" skip %d |", depth);
    printf("\n| --- |");
    for (int32_t depth = bench->first_depth; depth < bench->end_depth; depth++)
        printf(" --- |");
    puts("");
}

int kiln_teleport_print_changes(const struct kiln_teleport_bench *bench,
                                const struct kiln_teleport_table *table, struct kiln_error *err)
{
    bool any = false;
    for (int run = 0; run < bench->run_count; run++)
        for (size_t i = 0; i < table->pairs && bench->runs[run].kind == KILN_TELEPORT_SKIP; i++)
            any = any || change_of(table, run, i) > 0;
    if (!any) /* records of an older bench */
        return 0;
    double *room = malloc((table->pairs + 1) * sizeof *room);
    int code = room ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    for (int caught = 0; caught < 2 && code == 0; caught++) {
        puts(caught
                 ? "\nWhat bounds would give up, the widest of the accepted classes: of the runs "
                   "that came out wrong, and of those that\ncame out right\n"
                 : "\nWhat the first step changes of the start, as a share of its size: median, "
                   "and bounds of those runs of a class that\ncame out right (0.1 % to 99.9 "
                   "%)\n");
        print_head(bench);
        for (int g = 0; g < bench->pairs.group_count && code == 0; g++)
            if (bench->pairs.groups[g].pairs > 0)
                code = print_group(bench, table, g, caught, room, err);
    }
    free(room);
    return code;
}
