/* deadlines.c - from when on is a deadline (queued_ms + max_wait_s) urgent?
 *
 * A deadline that is near is not the only danger: a thousand jobs due in five minutes must begin
 * now if they need five minutes of the whole fleet.  So work with a deadline is summed up by
 * deadline, and a deadline d is critical once
 *
 *     work due up to d  >  speed of the fleet * (share of (d - now) - reserve)
 *
 * The reserve is the time until some worker is free, has the set and has rendered a batch.  The
 * share is a half: a worker that leaves a set with deadlines in it must load the set again, which
 * the sum does not know.  Starting when all of the time is needed would leave none for that.
 * All deadlines up to the last critical one are urgent: the horizon.  As long as nothing else is
 * begun while some deadline is critical, each one that could be met when its job came is met.
 *
 * The sums are two rings of buckets, so that a look costs the same for ten deadlines and for a
 * million: fine ones for the next minutes, coarse ones for the next hours.  A job stays in the ring
 * it was put into; a deadline beyond both is not summed, and is urgent when it is near.
 */
#include <math.h>

#include "scheduler/policy/state.h"

#define HORIZON_MS 100    /* the horizon is good for so long */
#define RESERVE_MIN_S 0.5 /* messages, and the daemon's step */
#define SHARE 0.5         /* of the fleet's time: more work due than that is critical */

double kiln_policy_reserve_s(const struct kiln_policy *p)
{
    double short_s = p->batch_s < AHEAD_S ? AHEAD_S : 0; /* of short ones more lie ahead than one */
    return RESERVE_MIN_S + short_s + 2 * p->batch_s;
}

static float *bucket_of(struct kiln_policy *p, const struct pol_job *job, int64_t due_ms)
{
    int64_t at = due_ms / (job->later ? BUCKET_COARSE_MS : BUCKET_FINE_MS);
    return (job->later ? p->coarse : p->fine) + (uint64_t)at % BUCKETS;
}

/* Whether the ring reaches so far from now on, with a bucket of slack for its moving start. */
static bool reaches(int64_t ahead_ms, int64_t bucket_ms)
{
    return ahead_ms < bucket_ms * (BUCKETS - 2);
}

void kiln_policy_add_deadline(struct kiln_policy *p, uint32_t job)
{
    struct pol_job *j = &p->jobs[job];
    uint32_t group = p->queues[j->queue].group, set = p->groups[group].set;
    int64_t due_ms = p->job_due[job].hi, ahead_ms = due_ms - p->last_ms;
    p->deadlines++;
    j->later = !reaches(ahead_ms, BUCKET_FINE_MS);
    if (ahead_ms <= 0 || !reaches(ahead_ms, BUCKET_COARSE_MS))
        return;
    /* The first job of a set without a holder pays for loading it. */
    double load_s =
        p->sets[set].ready <= 1 && p->sets[set].holders == 0 ? kiln_policy_switch_s(p, set) : 0;
    j->due_s = (float)(kiln_policy_unit_s(p, group) + load_s);
    *bucket_of(p, j, due_ms) += j->due_s;
}

void kiln_policy_remove_deadline(struct kiln_policy *p, uint32_t job)
{
    struct pol_job *j = &p->jobs[job];
    p->deadlines--;
    if (j->due_s > 0) {
        float *bucket = bucket_of(p, j, p->job_due[job].hi);
        *bucket = fmaxf(0, *bucket - j->due_s);
        j->due_s = 0;
    }
}

/* The end of the last critical fine bucket, adding coarse ones as they begin. */
static int64_t last_critical(const struct kiln_policy *p, int64_t now_ms, double reserve_s)
{
    int64_t critical = INT64_MIN;
    int64_t fine = now_ms / BUCKET_FINE_MS, coarse = now_ms / BUCKET_COARSE_MS;
    int64_t end = coarse + BUCKETS - 1;
    double work_s = 0;
    for (int64_t i = 0; i < BUCKETS - 1; i++, fine++) {
        int64_t begin_ms = fine * BUCKET_FINE_MS;
        if (coarse * BUCKET_COARSE_MS <= begin_ms)
            work_s += (double)p->coarse[(uint64_t)coarse++ % BUCKETS];
        work_s += (double)p->fine[(uint64_t)fine % BUCKETS];
        double left_s = (double)(begin_ms - now_ms) / 1000;
        if (work_s > p->speed_sum * (left_s * SHARE - reserve_s) && work_s > 0)
            critical = begin_ms + BUCKET_FINE_MS - 1;
    }
    for (; coarse < end; coarse++) {
        int64_t begin_ms = coarse * BUCKET_COARSE_MS;
        work_s += (double)p->coarse[(uint64_t)coarse % BUCKETS];
        double left_s = (double)(begin_ms - now_ms) / 1000;
        if (work_s > p->speed_sum * (left_s * SHARE - reserve_s))
            critical = begin_ms + BUCKET_COARSE_MS - 1;
    }
    return critical;
}

int64_t kiln_policy_horizon(struct kiln_policy *p, int64_t now_ms)
{
    if (p->deadlines == 0)
        return INT64_MIN;
    if (p->horizon_at_ms != INT64_MIN && now_ms >= p->horizon_at_ms &&
        now_ms - p->horizon_at_ms < HORIZON_MS)
        return p->horizon_ms;
    double reserve_s = kiln_policy_reserve_s(p);
    int64_t near = now_ms + (int64_t)(reserve_s * 1000) + HORIZON_MS;
    int64_t critical = last_critical(p, now_ms, reserve_s);
    p->horizon_ms = critical > near ? critical : near;
    p->horizon_at_ms = now_ms;
    return p->horizon_ms;
}
