/* soon.c - the waiting jobs that go soon and of which it must be looked up where they may begin.
 *
 * Only the first of each queue are looked at: those behind them have time, and what is found for
 * them now is outdated when their turn comes.  So the work does not grow with the queue.  The more
 * queues of a LoRA set there are, the fewer jobs of each; sets have equal shares, of whatever
 * model, but for those that no stored latent serves.
 */
#include "scheduler/policy/state.h"

#define EACH_MIN 64                     /* jobs of a queue, a batch of which is to be full */
#define SETS_MAX (8 * KILN_POLICY_SOON) /* LoRA sets that are looked at, with rows or without */

struct walk {
    const struct kiln_policy *p;
    kiln_policy_outdated *outdated;
    const void *arg;
    uint64_t *ids;
    size_t count, max;
    uint32_t each, left; /* of a queue, and of all */
};

static void walk_queue(struct walk *walk, uint32_t queue)
{
    const struct kiln_policy *p = walk->p;
    const uint32_t root = p->queues[queue].jobs;
    uint32_t job = kiln_treap_first(p->job_rank, root);
    for (uint32_t i = 0; i < walk->each && job != KILN_NONE && walk->left > 0; i++) {
        const struct pol_job *j = &p->jobs[job];
        walk->left--;
        if (j->asks && walk->count < walk->max && walk->outdated(walk->arg, &j->look))
            walk->ids[walk->count++] = j->id;
        job = kiln_treap_next(p->job_rank, root, job);
    }
}

/* Calls each for the queues of a set's groups, by rank, while anything is left. */
static void each_queue(struct walk *walk, uint32_t groups,
                       void (*each)(struct walk *walk, uint32_t queue))
{
    const struct kiln_policy *p = walk->p;
    uint32_t group = kiln_treap_first(p->group_rank, groups);
    for (; group != KILN_NONE && walk->left > 0;
         group = kiln_treap_next(p->group_rank, groups, group)) {
        const uint32_t queues = p->groups[group].queues;
        uint32_t queue = kiln_treap_first(p->queue_rank, queues);
        for (; queue != KILN_NONE && walk->left > 0;
             queue = kiln_treap_next(p->queue_rank, queues, queue))
            each(walk, queue);
    }
}

static void count_queue(struct walk *walk, uint32_t queue)
{
    (void)queue;
    walk->left--;
}

static void walk_set(struct walk *walk, uint32_t groups, uint32_t jobs)
{
    const uint32_t queues_max = jobs > EACH_MIN ? jobs / EACH_MIN : 1;
    walk->left = queues_max;
    each_queue(walk, groups, count_queue);
    const uint32_t queues = queues_max - walk->left;
    walk->each = jobs / (queues > 0 ? queues : 1);
    walk->left = jobs;
    each_queue(walk, groups, walk_queue);
}

size_t kiln_policy_to_look(const struct kiln_policy *p, kiln_policy_serves *serves,
                           kiln_policy_outdated *outdated, const void *arg, uint64_t *ret,
                           size_t max)
{
    struct walk walk = {.p = p, .outdated = outdated, .arg = arg, .ids = ret};
    uint32_t listed[KILN_POLICY_SOON], sets = 0;
    for (uint32_t i = 0; i < p->asking_set_count && i < SETS_MAX && sets < KILN_POLICY_SOON; i++)
        if (serves(arg, p->sets[p->asking_sets[i]].lora_set))
            listed[sets++] = p->asking_sets[i];
    for (uint32_t i = 0; i < sets; i++) {
        const uint32_t left = sets - i; /* what others leave is shared */
        walk.max = walk.count + (max - walk.count + left - 1) / left;
        walk_set(&walk, p->sets[listed[i]].groups, KILN_POLICY_SOON / sets);
    }
    return walk.count;
}
