/* fair.c - for every pair of tenants the range of the difference of what they have received.
 *
 * While both wait, the largest |W_f(t1, t2) - W_g(t1, t2)| is the largest minus the smallest value
 * that the difference of their totals has had since both wait; when one of them begins to wait,
 * its pairs begin anew.
 */
#include "scheduler/sim/fair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_OUT UINT32_MAX

struct pair { /* of total[i] - total[j] with i < j */
    double low, high;
};

struct kiln_fair {
    uint32_t *index; /* of each tenant among the kept ones, or LEFT_OUT */
    uint32_t kept, active_count;
    double total_s[KILN_FAIR_TENANTS];
    uint32_t waiting[KILN_FAIR_TENANTS];
    uint32_t active[KILN_FAIR_TENANTS]; /* those with waiting jobs, in no order */
    double gap_s;
    struct pair *pairs; /* [kept][kept], the upper half is used */
};

struct heavy {
    double work_s;
    uint32_t tenant;
};

static int compare_heavy(const void *a, const void *b)
{
    const struct heavy *x = a, *y = b;
    if (x->work_s != y->work_s)
        return x->work_s > y->work_s ? -1 : 1;
    return x->tenant < y->tenant ? -1 : 1;
}

struct kiln_fair *kiln_fair_new(const double *work_s, uint32_t tenants)
{
    struct kiln_fair *fair = calloc(1, sizeof *fair);
    struct heavy *order = malloc(tenants * sizeof *order);
    if (fair) {
        fair->kept = tenants < KILN_FAIR_TENANTS ? tenants : KILN_FAIR_TENANTS;
        fair->index = malloc(tenants * sizeof *fair->index);
        fair->pairs = malloc((size_t)fair->kept * fair->kept * sizeof *fair->pairs);
    }
    if (!fair || !order || !fair->index || !fair->pairs) {
        free(order);
        kiln_fair_free(fair);
        return NULL;
    }
    for (uint32_t i = 0; i < tenants; i++)
        order[i] = (struct heavy){work_s[i], i};
    qsort(order, tenants, sizeof *order, compare_heavy);
    for (uint32_t i = 0; i < tenants; i++) /* those with most work are kept */
        fair->index[order[i].tenant] = i < fair->kept ? i : LEFT_OUT;
    free(order);
    return fair;
}

void kiln_fair_free(struct kiln_fair *fair)
{
    if (!fair)
        return;
    free(fair->index);
    free(fair->pairs);
    free(fair);
}

static struct pair *pair_of(struct kiln_fair *fair, uint32_t a, uint32_t b, double *ret_difference)
{
    uint32_t i = a < b ? a : b, j = a < b ? b : a;
    *ret_difference = fair->total_s[i] - fair->total_s[j];
    return &fair->pairs[(size_t)i * fair->kept + j];
}

void kiln_fair_arrived(struct kiln_fair *fair, uint32_t tenant)
{
    uint32_t me = fair->index[tenant];
    if (me == LEFT_OUT || fair->waiting[me]++ > 0)
        return;
    for (uint32_t i = 0; i < fair->active_count; i++) {
        double difference;
        struct pair *pair = pair_of(fair, me, fair->active[i], &difference);
        pair->low = pair->high = difference;
    }
    fair->active[fair->active_count++] = me;
}

void kiln_fair_started(struct kiln_fair *fair, uint32_t tenant, double seconds)
{
    uint32_t me = fair->index[tenant], at = 0;
    if (me == LEFT_OUT)
        return;
    fair->total_s[me] += seconds;
    for (uint32_t i = 0; i < fair->active_count; i++) {
        if (fair->active[i] == me) {
            at = i;
            continue;
        }
        double difference;
        struct pair *pair = pair_of(fair, me, fair->active[i], &difference);
        pair->low = fmin(pair->low, difference);
        pair->high = fmax(pair->high, difference);
        fair->gap_s = fmax(fair->gap_s, pair->high - pair->low);
    }
    if (--fair->waiting[me] == 0)
        fair->active[at] = fair->active[--fair->active_count];
}

double kiln_fair_gap(const struct kiln_fair *fair)
{
    return fair->gap_s;
}
