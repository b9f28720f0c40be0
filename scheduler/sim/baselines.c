/* baselines.c - fifo and affinity: what a fleet does without a policy.
 *
 * Waiting jobs hang in two lists, all in order of arrival and those of each set; a Fenwick tree
 * over the trace counts how many wait before a job, so that "among the window oldest" is asked in
 * O(log n) for any window.  Free workers queue in the order in which they became free.
 */
#include <stdlib.h>

#include "scheduler/sim/rule.h"

struct link { /* of a job in a list */
    uint32_t before, after;
};

struct list {
    uint32_t first, last;
};

struct baseline {
    const struct kiln_sim_world *world;
    uint32_t window;   /* 0: fifo */
    struct list all;   /* waiting jobs, the oldest first */
    struct list *sets; /* the same, of each set */
    struct link *in_all, *in_set;
    uint32_t *tree;   /* Fenwick: waiting jobs by place in the trace */
    struct list free; /* workers, the longest free first */
    struct link *in_free;
};

static void list_append(struct list *list, struct link *links, uint32_t item)
{
    links[item] = (struct link){list->last, KILN_NONE};
    if (list->last == KILN_NONE)
        list->first = item;
    else
        links[list->last].after = item;
    list->last = item;
}

static void list_remove(struct list *list, struct link *links, uint32_t item)
{
    struct link link = links[item];
    if (link.before == KILN_NONE)
        list->first = link.after;
    else
        links[link.before].after = link.after;
    if (link.after == KILN_NONE)
        list->last = link.before;
    else
        links[link.after].before = link.before;
}

static void tree_add(struct baseline *base, uint32_t job, uint32_t change)
{
    for (uint32_t at = job + 1; at <= base->world->trace->count; at += at & -at)
        base->tree[at] += change;
}

/* Waiting jobs older than this one. */
static uint32_t tree_before(const struct baseline *base, uint32_t job)
{
    uint32_t sum = 0;
    for (uint32_t at = job; at > 0; at -= at & -at)
        sum += base->tree[at];
    return sum;
}

static uint32_t set_of(const struct baseline *base, uint32_t job)
{
    return base->world->trace->jobs[job].set;
}

static int add(void *self, uint32_t job, struct kiln_error *err)
{
    struct baseline *base = self;
    (void)err;
    list_append(&base->all, base->in_all, job);
    if (base->window > 0) {
        list_append(&base->sets[set_of(base, job)], base->in_set, job);
        tree_add(base, job, 1);
    }
    return 0;
}

static uint32_t pick(void *self, int64_t now_ns, uint32_t *ret_jobs, uint32_t *ret_worker)
{
    struct baseline *base = self;
    uint32_t job = base->all.first, worker = base->free.first;
    (void)now_ns;
    /* A worker goes on with the first job of its set, if that is among the window oldest. */
    for (uint32_t i = worker; base->window > 0 && i != KILN_NONE; i = base->in_free[i].after) {
        uint32_t set = base->world->resident[i];
        uint32_t own = set == KILN_NONE ? KILN_NONE : base->sets[set].first;
        if (own == KILN_NONE || tree_before(base, own) >= base->window)
            continue;
        job = own;
        worker = i;
        break;
    }
    list_remove(&base->all, base->in_all, job);
    list_remove(&base->free, base->in_free, worker);
    if (base->window > 0) {
        list_remove(&base->sets[set_of(base, job)], base->in_set, job);
        tree_add(base, job, UINT32_MAX);
    }
    *ret_jobs = job;
    *ret_worker = worker;
    return 1;
}

static void finished(void *self, uint32_t worker, const uint32_t *jobs, uint32_t count,
                     bool switched, uint32_t fetches, double seconds)
{
    struct baseline *base = self;
    (void)jobs, (void)count, (void)switched, (void)fetches, (void)seconds;
    list_append(&base->free, base->in_free, worker);
}

static int64_t next_ns(void *self, int64_t now_ns)
{
    (void)self, (void)now_ns;
    return INT64_MAX;
}

static void free_baseline(void *self)
{
    struct baseline *base = self;
    free(base->sets);
    free(base->in_all);
    free(base->in_set);
    free(base->in_free);
    free(base->tree);
    free(base);
}

int kiln_sim_rule_baseline(const struct kiln_sim_world *world, struct kiln_sim_rule *ret,
                           struct kiln_error *err)
{
    const struct list empty = {KILN_NONE, KILN_NONE};
    uint32_t jobs = world->trace->count, workers = world->options->workers;
    struct baseline *base = calloc(1, sizeof *base);
    if (!base)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a baseline");
    base->world = world;
    base->window = world->options->policy == KILN_SIM_AFFINITY ? world->options->window : 0;
    base->all = base->free = empty;
    base->sets = malloc(world->trace->sets.count * sizeof *base->sets);
    base->in_all = malloc(jobs * sizeof *base->in_all);
    base->in_set = malloc(jobs * sizeof *base->in_set);
    base->in_free = malloc(workers * sizeof *base->in_free);
    base->tree = calloc((size_t)jobs + 1, sizeof *base->tree);
    if (!base->sets || !base->in_all || !base->in_set || !base->in_free || !base->tree) {
        free_baseline(base);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a baseline of %u jobs", jobs);
    }
    for (uint32_t i = 0; i < world->trace->sets.count; i++)
        base->sets[i] = empty;
    for (uint32_t i = 0; i < workers; i++)
        list_append(&base->free, base->in_free, i);
    *ret = (struct kiln_sim_rule){base, add, pick, finished, next_ns, free_baseline};
    return 0;
}
