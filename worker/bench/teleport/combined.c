/* combined.c - the tables of runs from several donors, as Markdown; see teleport.h.
 *
 * Rows at one depth cost the same: from one donor, from several in each way, and fewer steps from
 * noise.  Each stands for all pairs of a set, and for that third of them whose four nearest donors
 * differ least: if combination pays anywhere, it does where the donors agree.
 */
#include <math.h>
#include <stdlib.h>

#include "worker/bench/teleport/teleport.h"

/* Pairs that count: of one group, of all accepted ones, or of all refused ones. */
enum { ACCEPTED = -1, REFUSED = -2 };

struct set {
    const struct kiln_teleport_bench *bench;
    const struct kiln_teleport_table *table;
    int group;
    const double *apart; /* of the pairs; NULL: all count */
    double apart_most;
};

static bool counts(const struct set *set, size_t pair)
{
    const int group = set->bench->pairs.items[pair].group;
    const bool refused = set->bench->pairs.groups[group].class == KILN_REUSE_NONE;
    if (set->group >= 0 ? group != set->group : refused != (set->group == REFUSED))
        return false;
    return !set->apart || set->apart[pair] <= set->apart_most;
}

struct values {
    double *off, *asked, *off_whole, *pictures, *near, *again; /* [pairs] each */
};

static void print_row(const struct set *set, int run, const struct values *v)
{
    const struct kiln_teleport_table *table = set->table;
    const bool started = set->bench->runs[run].kind != KILN_TELEPORT_FEWER;
    size_t n = 0;
    for (size_t i = 0; i < table->pairs; i++) {
        if (!counts(set, i) || isnan(kiln_teleport_column(table, run, KILN_TELEPORT_PICTURES)[i]))
            continue;
        v->off[n] = kiln_teleport_difference(set->bench, table, run, KILN_TELEPORT_RIGHT, i);
        v->off_whole[n] = kiln_teleport_difference(set->bench, table, run, KILN_TELEPORT_WHOLE, i);
        v->asked[n] = kiln_teleport_column(table, run, KILN_TELEPORT_ASKED)[i];
        v->pictures[n] = kiln_teleport_column(table, run, KILN_TELEPORT_PICTURES)[i];
        v->near[n] = started ? kiln_teleport_column(table, run, KILN_TELEPORT_TO_DONOR)[i] : NAN;
        v->again[n++] = kiln_teleport_column(table, 1, KILN_TELEPORT_TO_FULL)[i];
    }
    printf(" %zu |", n);
    kiln_figure_print(kiln_estimate_ratio(v->off, v->asked, n), 100, 2, true);
    kiln_figure_print(kiln_estimate_ratio(v->off_whole, v->pictures, n), 100, 2, true);
    kiln_figure_print(kiln_estimate_ratio(v->near, v->again, n), 100, 0, false);
}

/* How far apart the donors of the nearest third are at most; NaN if none were measured. */
static double third(const struct set *set, double *room)
{
    size_t n = 0;
    for (size_t i = 0; i < set->table->pairs; i++)
        if (counts(set, i) && !isnan(set->apart[i]))
            room[n++] = set->apart[i];
    qsort(room, n, sizeof *room, kiln_teleport_by_value);
    return n ? room[(n - 1) / 3] : NAN;
}

static int run_of(const struct kiln_teleport_bench *bench, enum kiln_teleport_kind kind,
                  int32_t depth, int from)
{
    int run = from;
    while (run < bench->run_count &&
           !(bench->runs[run].kind == kind && bench->runs[run].depth == depth))
        run++;
    return run < bench->run_count ? run : -1;
}

static void print_depth(struct set *set, int32_t depth, const struct values *values)
{
    static const enum kiln_teleport_kind kinds[] = {KILN_TELEPORT_SKIP, KILN_TELEPORT_COMBINED,
                                                    KILN_TELEPORT_FEWER};
    const struct kiln_teleport_bench *bench = set->bench;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int run = run_of(bench, kinds[k], depth, 0); run >= 0;
             run = run_of(bench, kinds[k], depth, run + 1)) {
            const double *apart = set->apart;
            printf("| %s | %d |", bench->runs[run].name, bench->options.steps - depth);
            set->apart = NULL;
            print_row(set, run, values);
            set->apart = apart;
            print_row(set, run, values);
            puts("");
        }
}

static void print_set(struct set *set, const char *name, const struct values *values)
{
    int four = -1; /* a run from four donors, which says how far apart these are */
    for (int run = 0; run < set->bench->run_count && four < 0; run++)
        if (set->bench->runs[run].donors == 4)
            four = run;
    set->apart = kiln_teleport_column(set->table, four, KILN_TELEPORT_APART);
    set->apart_most = INFINITY;
    set->apart_most = third(set, values->off);
    if (isnan(set->apart_most))
        return;
    printf("\n%s; the third whose four donors differ by at most %.3f\n\n", name, set->apart_most);
    puts("| run | cost | n | attributes | whole | nearest donor, % | n, third | attributes | whole "
         "| nearest donor, % |");
    puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (int32_t depth = 1; depth < set->bench->options.steps; depth++)
        print_depth(set, depth, values);
}

int kiln_teleport_print_combined(const struct kiln_teleport_bench *bench,
                                 const struct kiln_teleport_table *table, struct kiln_error *err)
{
    enum { COLUMNS = 6 };
    if (!bench->options.combine)
        return 0;
    double *all = malloc(COLUMNS * (table->pairs + 1) * sizeof *all);
    if (!all)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    const size_t n = table->pairs;
    const struct values values = {all, all + n, all + 2 * n, all + 3 * n, all + 4 * n, all + 5 * n};
    puts(
        "\nSeveral donors, combined: differences in points to the mean of the full runs of a pair; "
        "distance of low-pass latents\nto the nearest of the donors, % of that between two full "
        "runs\n");
    print_set(&(struct set){bench, table, KILN_REUSE_SAME_PROMPT - 1, NULL, 0}, "Same prompt",
              &values);
    print_set(&(struct set){bench, table, ACCEPTED, NULL, 0}, "All accepted pairs", &values);
    print_set(&(struct set){bench, table, REFUSED, NULL, 0}, "Refused pairs", &values);
    free(all);
    return 0;
}
