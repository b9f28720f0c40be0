/* plan.c - see plan.h. */
#include "tests/chaos/plan.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/random.h"

#define GAP_MS 900 /* at most, from the start of one fault to that of the next */
#define BUSY_MS 10 /* and so much more for each draw of somebody who is struck already */

/* What a fault strikes: two of one party must not overlap. */
enum party {
    WORKER,
    SCHEDULER = WORKER + CHAOS_WORKERS,
    REDIS = SCHEDULER + CHAOS_SCHEDULERS,
    POSTGRES,
    STORE,
    PARTIES
};

struct row {
    const char *name;
    enum party party;
    int count;          /* parties of that sort */
    int min_ms, max_ms; /* how long it lasts */
    int weight;
};
static const struct row rows[CHAOS_KINDS] = {
    [CHAOS_WORKER_KILL] = {"kill -9 of worker", WORKER, CHAOS_WORKERS, 0, 1500, 4},
    [CHAOS_WORKER_PAUSE] = {"pause of worker", WORKER, CHAOS_WORKERS, 1800, 3000, 3},
    [CHAOS_WORKER_DRAIN] = {"SIGTERM to worker", WORKER, CHAOS_WORKERS, 200, 800, 1},
    [CHAOS_WORKER_CUT] = {"network cut of worker", WORKER, CHAOS_WORKERS, 500, 3000, 3},
    [CHAOS_WORKER_NO_REDIS] = {"cut from Redis of worker", WORKER, CHAOS_WORKERS, 500, 3000, 2},
    [CHAOS_WORKER_NO_POSTGRES] = {"cut from Postgres of worker", WORKER, CHAOS_WORKERS, 500, 3000,
                                  2},
    [CHAOS_WORKER_NO_STORE] = {"cut from the store of worker", WORKER, CHAOS_WORKERS, 500, 3000, 2},
    [CHAOS_WORKER_RESET] = {"connections reset of worker", WORKER, CHAOS_WORKERS, 0, 0, 2},
    [CHAOS_SCHEDULER_KILL] = {"kill -9 of scheduler", SCHEDULER, CHAOS_SCHEDULERS, 0, 800, 3},
    [CHAOS_SCHEDULER_PAUSE] = {"pause of scheduler", SCHEDULER, CHAOS_SCHEDULERS, 1800, 3000, 2},
    [CHAOS_SCHEDULER_CUT] = {"network cut of scheduler", SCHEDULER, CHAOS_SCHEDULERS, 500, 3000, 2},
    [CHAOS_SCHEDULER_NO_REDIS] = {"cut from Redis of scheduler", SCHEDULER, CHAOS_SCHEDULERS, 500,
                                  3000, 1},
    [CHAOS_SCHEDULER_NO_POSTGRES] = {"cut from Postgres of scheduler", SCHEDULER, CHAOS_SCHEDULERS,
                                     500, 3000, 1},
    [CHAOS_REDIS_KILL] = {"kill -9 of Redis", REDIS, 1, 0, 1200, 2},
    [CHAOS_REDIS_RESTART] = {"restart of Redis", REDIS, 1, 0, 300, 1},
    [CHAOS_REDIS_FREEZE] = {"pause of Redis", REDIS, 1, 300, 2500, 1},
    [CHAOS_REDIS_FLUSH] = {"FLUSHALL", REDIS, 1, 0, 0, 3},
    [CHAOS_POSTGRES_KILL] = {"kill -9 of Postgres", POSTGRES, 1, 0, 800, 2},
    [CHAOS_POSTGRES_RESTART] = {"restart of Postgres", POSTGRES, 1, 0, 300, 1},
    [CHAOS_POSTGRES_FREEZE] = {"pause of Postgres", POSTGRES, 1, 300, 2500, 1},
    [CHAOS_STORE_503] = {"burst of 503 from the store", STORE, 1, 500, 2000, 3},
    [CHAOS_STORE_BREAKS] = {"broken answers of the store", STORE, 1, 500, 2000, 3},
    [CHAOS_STORE_HANGS] = {"silence of the store", STORE, 1, 500, 1500, 1},
    [CHAOS_DISK_FULL] = {"full disk of Redis and Postgres", REDIS, 1, 800, 2000, 2},
};

const char *chaos_kind_name(enum chaos_kind kind)
{
    return rows[kind].name;
}

static enum chaos_kind draw_kind(struct test_random *random)
{
    uint32_t sum = 0;
    for (int kind = 0; kind < CHAOS_KINDS; kind++)
        sum += (uint32_t)rows[kind].weight;
    uint32_t at = test_random_below(random, sum);
    int kind = 0;
    for (; at >= (uint32_t)rows[kind].weight; kind++)
        at -= (uint32_t)rows[kind].weight;
    return (enum chaos_kind)kind;
}

/* A full disk strikes both servers that write to it. */
static int free_at(const int *busy_until, enum chaos_kind kind, int party)
{
    int other = kind == CHAOS_DISK_FULL ? busy_until[POSTGRES] : 0;
    return busy_until[party] > other ? busy_until[party] : other;
}

void chaos_plan_make(struct chaos_plan *plan, uint64_t seed)
{
    struct test_random random = {seed};
    int busy_until[PARTIES] = {0}, now = 300;
    *plan = (struct chaos_plan){.seed = seed};
    for (int i = 0; i < CHAOS_FAULTS;) {
        enum chaos_kind kind = draw_kind(&random);
        const struct row *row = &rows[kind];
        int target = (int)test_random_below(&random, (uint32_t)row->count);
        int party = (int)row->party + target;
        int lasts = row->min_ms +
                    (int)test_random_below(&random, (uint32_t)(row->max_ms - row->min_ms + 1));
        if (free_at(busy_until, kind, party) > now) {
            now += BUSY_MS; /* drawn again, later: all may be busy now */
            continue;
        }
        plan->faults[i++] = (struct chaos_fault){kind, target, now, lasts};
        busy_until[party] = now + lasts + 200;
        if (kind == CHAOS_DISK_FULL)
            busy_until[POSTGRES] = busy_until[party];
        plan->end_ms = now + lasts > plan->end_ms ? now + lasts : plan->end_ms;
        now += (int)test_random_below(&random, GAP_MS);
    }
}

void chaos_plan_print(const struct chaos_plan *plan)
{
    printf("plan of seed %llu:\n", (unsigned long long)plan->seed);
    for (int i = 0; i < CHAOS_FAULTS; i++) {
        const struct chaos_fault *fault = &plan->faults[i];
        printf("  at %5d ms for %4d ms: %s", fault->at_ms, fault->for_ms,
               chaos_kind_name(fault->kind));
        if (rows[fault->kind].count > 1)
            printf(" %d", fault->target);
        putchar('\n');
    }
}
