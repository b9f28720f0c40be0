/* call_times.c - see call_times.h. */
#include "worker/engine/call_times.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 256
#define STEPS_AT_ONCE 6 /* different first steps of one batch; with more it stays as it is */

struct entry {
    struct kiln_call_kind kind;
    uint32_t step, pictures, samples; /* samples 0: free */
    double ms[KILN_CALL_TIMES_KEPT];  /* the last ones, in a ring */
    uint64_t learned;                 /* turn of the last one */
};

struct kiln_call_times {
    pthread_mutex_t lock;
    struct entry entries[ENTRIES];
    uint64_t turn;
    uint32_t refused; /* batches that were not cut */
};

struct kiln_call_times *kiln_call_times_new(void)
{
    struct kiln_call_times *times = calloc(1, sizeof *times);
    if (times)
        pthread_mutex_init(&times->lock, NULL);
    return times;
}

void kiln_call_times_free(struct kiln_call_times *times)
{
    if (!times)
        return;
    pthread_mutex_destroy(&times->lock);
    free(times);
}

/* --- what was measured ------------------------------------------------------------------------ */

static bool is_of(const struct entry *entry, const struct kiln_call_kind *kind, uint32_t step,
                  uint32_t pictures)
{
    return entry->samples > 0 && entry->step == step && entry->pictures == pictures &&
           entry->kind.width == kind->width && entry->kind.height == kind->height &&
           entry->kind.steps == kind->steps && entry->kind.loras == kind->loras &&
           strcmp(entry->kind.mode, kind->mode) == 0;
}

/* The entry of these calls, or else the one that was longest not corrected. */
static struct entry *find(struct kiln_call_times *times, const struct kiln_call_kind *kind,
                          uint32_t step, uint32_t pictures)
{
    struct entry *oldest = &times->entries[0];
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *entry = &times->entries[i];
        if (is_of(entry, kind, step, pictures))
            return entry;
        if (entry->learned < oldest->learned)
            oldest = entry;
    }
    return oldest;
}

void kiln_call_times_learn(struct kiln_call_times *times, const struct kiln_call_kind *kind,
                           uint32_t step, uint32_t pictures, double ms)
{
    pthread_mutex_lock(&times->lock);
    struct entry *entry = find(times, kind, step, pictures);
    if (!is_of(entry, kind, step, pictures))
        *entry = (struct entry){.kind = *kind, .step = step, .pictures = pictures};
    entry->ms[entry->samples++ % KILN_CALL_TIMES_KEPT] = ms;
    entry->learned = ++times->turn;
    pthread_mutex_unlock(&times->lock);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the last calls that began at this step, with so many pictures or, where these are
 * not enough, with the next numbers below (way -1) or above (1); NAN: there are too few. */
static double usual_ms(const struct kiln_call_times *times, const struct kiln_call_kind *kind,
                       uint32_t step, uint32_t pictures, int way)
{
    const struct entry *of[KILN_ASSIGN_MAX + 1] = {NULL};
    double ms[KILN_CALL_TIMES_KNOWN + KILN_CALL_TIMES_KEPT];
    size_t count = 0;
    for (int i = 0; i < ENTRIES; i++) {
        const struct entry *entry = &times->entries[i];
        if (entry->pictures <= KILN_ASSIGN_MAX && is_of(entry, kind, step, entry->pictures))
            of[entry->pictures] = entry;
    }
    for (uint32_t n = pictures; n >= 1 && n <= KILN_ASSIGN_MAX && count < KILN_CALL_TIMES_KNOWN;
         n += (uint32_t)way) {
        const size_t kept = !of[n] ? 0
                            : of[n]->samples < KILN_CALL_TIMES_KEPT ? of[n]->samples
                                                                    : KILN_CALL_TIMES_KEPT;
        if (kept > 0)
            memcpy(ms + count, of[n]->ms, kept * sizeof *ms);
        count += kept;
    }
    if (count < KILN_CALL_TIMES_KNOWN)
        return NAN;
    qsort(ms, count, sizeof *ms, compare);
    return ms[count / 2];
}

/* The most that a call takes: as calls of more pictures do, if it was not measured itself. */
static double most_ms(const struct kiln_call_times *times, const struct kiln_call_kind *kind,
                      uint32_t step, uint32_t pictures)
{
    const double ms = usual_ms(times, kind, step, pictures, 1);
    return isnan(ms) ? INFINITY : ms;
}

/* The least: as calls of fewer pictures do, or else by those in full, of which it leaves out steps,
 * but neither text nor decoding. */
static double least_ms(const struct kiln_call_times *times, const struct kiln_call_kind *kind,
                       uint32_t step, uint32_t pictures)
{
    double ms = usual_ms(times, kind, step, pictures, -1);
    if (isnan(ms) && step < kind->steps)
        ms = usual_ms(times, kind, 0, pictures, -1) * (kind->steps - step) / kind->steps;
    return isnan(ms) ? 0 : ms;
}

/* --- the choice ------------------------------------------------------------------------------- */

/* The most that the batch takes if pictures that begin at steps[i], a call of own_ms[i] at most, do
 * so where bit i of kept is set, and run in full elsewhere. */
static double batch_ms(const struct kiln_call_times *times, const struct kiln_call_kind *kind,
                       const uint32_t pictures[KILN_STEPS_MAX], const uint32_t *steps,
                       const double *own_ms, int count, uint32_t kept)
{
    uint32_t full = pictures[0];
    double ms = 0;
    for (int i = 0; i < count; i++)
        if (kept & 1u << i)
            ms += own_ms[i];
        else
            full += pictures[steps[i]];
    return full ? ms + most_ms(times, kind, 0, full) : ms;
}

bool kiln_call_times_sort_out(struct kiln_call_times *times, const struct kiln_call_kind *kind,
                              uint32_t pictures[KILN_STEPS_MAX])
{
    uint32_t steps[STEPS_AT_ONCE];
    int count = 0;
    for (uint32_t step = 1; step < KILN_STEPS_MAX; step++) {
        if (pictures[step] == 0)
            continue;
        if (count == STEPS_AT_ONCE)
            return false;
        steps[count++] = step;
    }
    if (count == 0 || (count == 1 && pictures[0] == 0)) /* one call, with fewer steps */
        return false;
    pthread_mutex_lock(&times->lock);
    const uint32_t all = (1u << count) - 1;
    double own_ms[STEPS_AT_ONCE];
    uint32_t best = all;
    double best_ms = pictures[0] ? least_ms(times, kind, 0, pictures[0]) : 0; /* of all calls */
    for (int i = 0; i < count; i++) {
        own_ms[i] = most_ms(times, kind, steps[i], pictures[steps[i]]);
        best_ms += least_ms(times, kind, steps[i], pictures[steps[i]]);
    }
    for (uint32_t kept = 0; kept < all; kept++) {
        const double ms = batch_ms(times, kind, pictures, steps, own_ms, count, kept);
        if (ms < best_ms) { /* not if it is unknown */
            best_ms = ms;
            best = kept;
        }
    }
    if (best != all && ++times->refused % KILN_CALL_TIMES_AGAIN == 0)
        best = all;
    pthread_mutex_unlock(&times->lock);
    for (int i = 0; i < count; i++)
        if (!(best & 1u << i)) {
            pictures[0] += pictures[steps[i]];
            pictures[steps[i]] = 0;
        }
    return best != all;
}
