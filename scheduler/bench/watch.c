/* watch.c - see watch.h.
 *
 * Reads the heartbeats of the stack's workers ten times a second.  A worker sends one at the end of
 * each batch, and its times are those of that moment.
 */
#include "scheduler/bench/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/wire/wire.h"
#include "storage/bus/bus.h"

#define LOOK_S 0.1

struct worker {
    char name[KILN_NAME_MAX + 1];
    bool first;
    uint64_t base; /* wanted_ms before the queue was filled */
    struct kiln_heartbeat from, to;
};

struct kiln_bench_watch {
    struct kiln_bus *bus;
    const char *pool;
    uint64_t jobs;
    bool full;
    double next_s;
    struct worker at[KILN_STACK_WORKERS_MAX];
    int count;
};

static int note_heartbeat(void *arg, const char *name, const char *text, size_t len)
{
    struct kiln_bench_watch *watch = arg;
    struct kiln_heartbeat heartbeat;
    int number = 0;
    while (number < watch->count && strcmp(watch->at[number].name, name) != 0)
        number++;
    if (number == KILN_STACK_WORKERS_MAX || kiln_heartbeat_decode(text, len, &heartbeat, NULL) != 0)
        return 0;
    struct worker *at = &watch->at[number];
    if (number == watch->count) {
        snprintf(at->name, sizeof at->name, "%s", name);
        at->base = heartbeat.wanted_ms;
        watch->count++;
    }
    if (!watch->full || heartbeat.wanted_ms == at->base)
        return 0; /* no batch has ended since the queue is full */
    if (!at->first)
        at->from = heartbeat;
    at->first = true;
    at->to = heartbeat;
    return 0;
}

/* If the bus does not answer, one sample is lost. */
static void read_heartbeats(struct kiln_bench_watch *watch, bool full)
{
    struct kiln_error err;
    watch->next_s = kiln_now_s() + LOOK_S;
    watch->full = full;
    (void)!kiln_bus_heartbeats(watch->bus, watch->pool, NULL, note_heartbeat, watch, &err);
}

void kiln_bench_watch_look(void *arg, const struct kiln_progress *progress)
{
    struct kiln_bench_watch *watch = arg;
    bool full = progress->accepted < watch->jobs || progress->jobs.at[KILN_JOB_QUEUED] > 0;
    if (kiln_now_s() >= watch->next_s)
        read_heartbeats(watch, full);
}

int kiln_bench_watch_open(struct kiln_bench *bench, uint64_t jobs, struct kiln_bench_watch **ret,
                          struct kiln_error *err)
{
    struct kiln_bench_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a bench");
    watch->pool = kiln_pool(&bench->own);
    watch->jobs = jobs;
    int rc = kiln_open_bus(&bench->own, &watch->bus, err);
    if (rc) {
        free(watch);
        return rc;
    }
    read_heartbeats(watch, false); /* the counts before this batch */
    *ret = watch;
    return 0;
}

struct kiln_bench_idle kiln_bench_watch_close(struct kiln_bench_watch *watch)
{
    double ready = 0, wanted = 0, computed = 0;
    for (int i = 0; watch && i < KILN_STACK_WORKERS_MAX; i++) {
        if (!watch->at[i].first)
            continue;
        const struct kiln_heartbeat *from = &watch->at[i].from, *to = &watch->at[i].to;
        /* Both are rounded to milliseconds, so the part may be longer than the whole. */
        uint64_t whole = to->ready_ms - from->ready_ms, part = to->wanted_ms - from->wanted_ms;
        ready += (double)whole;
        wanted += (double)(part < whole ? part : whole);
        computed += (double)(to->computed_ms - from->computed_ms);
    }
    if (watch)
        kiln_bus_close(watch->bus);
    free(watch);
    return (struct kiln_bench_idle){.of_all = ready > 0 ? 1 - computed / ready : -1,
                                    .in_hand = wanted > 0 ? 1 - computed / wanted : -1};
}

json_t *kiln_bench_share_json(double share)
{
    return share < 0 ? json_null() : json_real(share);
}
