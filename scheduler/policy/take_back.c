/* take_back.c - the tail: work that is ahead at a busy worker while another one is idle.
 *
 * Work is given to a worker a little before it is idle.  So at the end of a backlog some worker may
 * be idle while another has one assignment running and one ahead.  The one ahead is taken back if
 * the idle worker, loading included, would end it clearly sooner.  The caller returns its jobs to
 * the queue (their attempts grow, so that whatever the first worker still does with them is void)
 * and adds them again; the next pick gives them to the idle worker.
 */
#include <math.h>
#include <stdio.h>

#include "scheduler/policy/state.h"

#define GAIN_S 1.0     /* sooner than this, or it is not worth the messages, */
#define GAIN_SHARE 0.1 /* and than this share of what it takes */
#define BEGINS_MS 500  /* what begins sooner may have begun when the message arrives */
#define WALK_IDLE 8    /* idle workers looked at for the one that is warmest */

/* Of the longest idle workers of the model, the one that can begin with the set first. */
static uint32_t best_idle(const struct kiln_policy *p, uint32_t model,
                          const struct pol_assignment *last, double *ret_load_s)
{
    uint32_t best = KILN_NONE, worker = kiln_treap_first(p->worker_room, p->models[model].rooms);
    for (int i = 0; i < WALK_IDLE && worker != KILN_NONE; i++) {
        const struct pol_worker *w = &p->workers[worker];
        if (w->busy > 0)
            break;
        double load_s = w->set == last->set ? 0 : kiln_policy_load_s(p, w, last->set);
        bool able = w->minor >= last->minor;
        if (able && (best == KILN_NONE || load_s < *ret_load_s)) {
            best = worker;
            *ret_load_s = load_s;
        }
        worker = kiln_treap_next(p->worker_room, p->models[model].rooms, worker);
    }
    return best;
}

/* Seconds gained by giving the worker's last assignment to an idle one of the model. */
static double gain_s(const struct kiln_policy *p, const struct pol_worker *worker, uint32_t model,
                     int64_t now_ms)
{
    const struct pol_assignment *last = &worker->in_flight[worker->in_flight_count - 1];
    double load_s = 0, compute_s = (double)last->expected_s * worker->speed;
    if (last->set == KILN_NONE || last->alone || last->taken ||
        (p->sets[last->set].model != p->pool_model && p->sets[last->set].model != model) ||
        worker->free_ms - (int64_t)((double)last->expected_s * 1000) < now_ms + BEGINS_MS)
        return 0;
    uint32_t idle = best_idle(p, model, last, &load_s);
    if (idle == KILN_NONE)
        return 0;
    double there_s = (double)(worker->free_ms - now_ms) / 1000;
    double here_s = load_s + compute_s / p->workers[idle].speed;
    double gain = there_s - here_s;
    return gain > fmax(GAIN_S, GAIN_SHARE * compute_s) ? gain : 0;
}

bool kiln_policy_take_back(struct kiln_policy *p, int64_t now_ms,
                           struct kiln_policy_taken_back *ret)
{
    uint32_t from = KILN_NONE;
    double most = 0;
    for (uint32_t model = 0; model < MODELS_MAX; model++) {
        uint32_t idle = p->models[model].refs == 0
                            ? KILN_NONE
                            : kiln_treap_first(p->worker_room, p->models[model].rooms);
        if (idle == KILN_NONE || p->workers[idle].busy > 0)
            continue;
        for (uint32_t i = 0; i < p->worker_span; i++) {
            if (!p->worker_used[i] || p->workers[i].busy < 2)
                continue;
            double gain = gain_s(p, &p->workers[i], model, now_ms);
            from = gain > most ? i : from;
            most = fmax(most, gain);
        }
    }
    if (from == KILN_NONE)
        return false;
    struct pol_worker *worker = &p->workers[from];
    struct pol_assignment *last = &worker->in_flight[worker->in_flight_count - 1];
    last->taken = true;
    snprintf(ret->worker, sizeof(ret->worker), "%s", worker->name);
    ret->tag = last->tag;
    ret->gain_s = most;
    return true;
}
