/* measure.c - routes of labelled prompts, compared with their labels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/bench/routing/routing.h"
#include "schemas/random.h"

#define RESAMPLES 1000
#define BINS 10

const int kiln_routing_thresholds[KILN_ROUTING_THRESHOLDS] = {300, 500, 600, 800};

/* Counts that a share is made of, for one prompt: value = sum up / sum down. */
struct fraction {
    double up, down;
};

static uint64_t set_hash(const struct kiln_route *route)
{
    uint64_t hash = 0; /* a sum: the order of the team does not matter */
    for (uint32_t i = 0; i < route->count; i++) {
        char text[64];
        const int len =
            snprintf(text, sizeof text, "%u:%.4g", route->picks[i].lora, route->picks[i].scale);
        hash += kiln_map_hash(text, (size_t)len);
    }
    return hash;
}

static struct kiln_routing_outcome outcome_of(const struct kiln_routing_case *c,
                                              const struct kiln_route *route)
{
    struct kiln_routing_outcome out = {.best_p = -1};
    for (uint32_t m = 0; m < c->must_count; m++) {
        bool found = false;
        for (uint32_t i = 0; i < route->count; i++)
            found |= kiln_routing_in(&c->must[m], route->picks[i].lora);
        out.found += found;
        out.missed += !found;
    }
    for (uint32_t i = 0; i < route->count; i++) {
        const uint32_t lora = route->picks[i].lora;
        const bool fine = kiln_routing_wanted(c, lora) || kiln_routing_in(&c->may, lora);
        out.extra += !fine;
        if (i == 0)
            out.top_right = fine;
    }
    out.active = out.extra > 0;
    for (uint32_t i = 0; i < route->shown_count; i++)
        if (route->shown[i].p > out.best_p) {
            const uint32_t lora = route->shown[i].lora;
            out.best_p = route->shown[i].p;
            out.best_right = kiln_routing_wanted(c, lora) || kiln_routing_in(&c->may, lora);
        }
    return out;
}

static double ratio(const struct fraction *at, size_t count)
{
    double up = 0, down = 0;
    for (size_t i = 0; i < count; i++) {
        up += at[i].up;
        down += at[i].down;
    }
    return down > 0 ? up / down : 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The share over prompts, and the middle 95 % of it over resampled prompts. */
static struct kiln_routing_share share_of(const struct fraction *at, size_t count,
                                          struct fraction *scratch)
{
    static double values[RESAMPLES];
    uint64_t state = 1;
    struct kiln_routing_share share = {.value = ratio(at, count), .count = count};
    if (count == 0)
        return share;
    for (int r = 0; r < RESAMPLES; r++) {
        for (size_t i = 0; i < count; i++)
            scratch[i] = at[kiln_random_next(&state) % count];
        values[r] = ratio(scratch, count);
    }
    qsort(values, RESAMPLES, sizeof *values, by_value);
    share.low = values[RESAMPLES * 25 / 1000];
    share.high = values[RESAMPLES * 975 / 1000 - 1];
    return share;
}

enum figure { TOP, F1, NONE };

/* kind < 0: all prompts. */
static struct kiln_routing_share figure(const struct kiln_routing_set *set,
                                        const struct kiln_routing_outcome *out, int kind,
                                        enum figure which, struct fraction *at,
                                        struct fraction *scratch)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct kiln_routing_case *c = &set->at[i];
        if ((kind >= 0 && (int)c->kind != kind) || (which == NONE) != (c->must_count == 0))
            continue;
        if (which == TOP)
            at[count++] = (struct fraction){out[i].top_right, 1};
        else if (which == NONE)
            at[count++] = (struct fraction){out[i].active, 1};
        else
            at[count++] = (struct fraction){2.0 * out[i].found,
                                            2.0 * out[i].found + out[i].extra + out[i].missed};
    }
    return share_of(at, count, scratch);
}

/* Of the prompts that write names of LoRAs in this way, those that got any. */
static struct kiln_routing_share unwanted(const struct kiln_routing_set *set,
                                          const struct kiln_routing_outcome *out,
                                          enum kiln_routing_writes writes, struct fraction *at,
                                          struct fraction *scratch)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->at[i].writes == writes)
            at[count++] = (struct fraction){out[i].active, 1};
    return share_of(at, count, scratch);
}

static void at_thresholds(const struct kiln_routing_outcome *out, size_t count, struct fraction *at,
                          struct fraction *scratch, struct kiln_routing_result *ret)
{
    for (int t = 0; t < KILN_ROUTING_THRESHOLDS; t++) {
        size_t routed = 0;
        for (size_t i = 0; i < count; i++)
            at[i] = (struct fraction){out[i].best_p >= kiln_routing_thresholds[t], 1};
        ret->routed[t] = share_of(at, count, scratch);
        for (size_t i = 0; i < count; i++)
            if (out[i].best_p >= kiln_routing_thresholds[t])
                at[routed++] = (struct fraction){!out[i].best_right, 1};
        ret->wrong[t] = share_of(at, routed, scratch);
    }
}

static int by_p(const void *a, const void *b)
{
    const struct kiln_routing_outcome *x = a, *y = b;
    return x->best_p != y->best_p ? (x->best_p > y->best_p ? -1 : 1)
                                  : x->best_right - y->best_right;
}

/* The most probable LoRA of each prompt, the surest first: how often it is wrong among so many of
 * the prompts that have a candidate.  Ties count as unluckily as they can. */
static void risks(struct kiln_routing_outcome *out, size_t count, struct kiln_routing_result *ret)
{
    static const int coverage[] = {50, 70, 90};
    double wrong = 0, sum = 0, bin_p[BINS] = {0}, bin_right[BINS] = {0}, ece = 0;
    size_t with = 0;
    qsort(out, count, sizeof *out, by_p);
    while (with < count && out[with].best_p >= 0)
        with++;
    size_t bin_count[BINS] = {0};
    for (size_t i = 0; i < with; i++) {
        wrong += !out[i].best_right;
        sum += wrong / (double)(i + 1);
        for (int c = 0; c < 3; c++)
            if (i + 1 == with * (size_t)coverage[c] / 100)
                ret->risk[c] = wrong / (double)(i + 1);
        const int bin = out[i].best_p * BINS / 1001;
        bin_p[bin] += out[i].best_p / 1000.0;
        bin_right[bin] += out[i].best_right;
        bin_count[bin]++;
    }
    for (int b = 0; b < BINS; b++)
        ece += fabs(bin_p[b] - bin_right[b]);
    ret->aurc = with ? sum / (double)with : 0;
    ret->ece = with ? ece / (double)with : 0;
}

/* Numbers that differ among `jobs` draws from values[0..count). */
static size_t distinct(const uint64_t *values, size_t count, size_t jobs)
{
    struct kiln_map seen = {0};
    uint64_t state = 1;
    for (size_t i = 0; i < jobs && count > 0; i++) {
        const uint64_t value = values[kiln_random_next(&state) % count];
        (void)kiln_map_put(&seen, value ? value : 1, 0);
    }
    const size_t found = seen.count;
    kiln_map_release(&seen);
    return found;
}

int kiln_routing_sets(const struct kiln_routing_under_test *of, const struct kiln_routing_set *sets,
                      size_t set_count, size_t jobs, size_t *ret, size_t *ret_labels,
                      struct kiln_error *err)
{
    size_t count = 0, room = 0;
    for (size_t s = 0; s < set_count; s++)
        room += sets[s].count;
    struct kiln_routing_reader reader = {0};
    uint64_t *routed = calloc(room + 1, sizeof *routed), *labels = calloc(room + 1, sizeof *labels);
    int rc = routed && labels ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for routes");
    rc = rc ? rc : kiln_routing_reader_open(of, &reader, err);
    for (size_t s = 0; s < set_count && !rc; s++)
        for (size_t i = 0; i < sets[s].count && !rc; i++) {
            const struct kiln_routing_case *c = &sets[s].at[i];
            struct kiln_router_request request;
            struct kiln_route route;
            rc = kiln_routing_request(&reader, c->prompt, &request, err);
            rc = rc ? rc : kiln_router_route(reader.reader, &request, &route, err);
            if (rc)
                break;
            routed[count] = set_hash(&route);
            for (uint32_t m = 0; m < c->must_count; m++)
                labels[count] +=
                    kiln_map_hash((const char *)&c->must[m].at[0], sizeof c->must[m].at[0]);
            count++;
        }
    if (!rc) {
        *ret = distinct(routed, count, jobs);
        *ret_labels = distinct(labels, count, jobs);
    }
    free(routed);
    free(labels);
    kiln_routing_reader_release(&reader);
    return rc;
}

int kiln_routing_measure(const struct kiln_routing_under_test *of,
                         const struct kiln_routing_set *set,
                         const struct kiln_router_weights *weights, struct kiln_routing_result *ret,
                         struct kiln_error *err)
{
    struct kiln_routing_reader reader = {0};
    struct kiln_routing_outcome *out = calloc(set->count + 1, sizeof *out);
    struct fraction *at = calloc(2 * set->count + 1, sizeof *at), *scratch = at + set->count;
    int rc = out && at ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for routes");
    rc = rc ? rc : kiln_routing_reader_open(of, &reader, err);
    for (size_t i = 0; i < set->count && !rc; i++) {
        struct kiln_router_request request;
        struct kiln_route route;
        rc = kiln_routing_request(&reader, set->at[i].prompt, &request, err);
        request.weights = weights;
        rc = rc ? rc : kiln_router_route(reader.reader, &request, &route, err);
        if (!rc)
            out[i] = outcome_of(&set->at[i], &route);
    }
    if (!rc) {
        *ret = (struct kiln_routing_result){.ece = 0};
        for (int k = 0; k < KILN_ROUTING_KINDS; k++) {
            ret->top[k] = figure(set, out, k, TOP, at, scratch);
            ret->f1[k] = figure(set, out, k, F1, at, scratch);
            ret->none[k] = figure(set, out, k, NONE, at, scratch);
        }
        ret->top_all = figure(set, out, -1, TOP, at, scratch);
        ret->f1_all = figure(set, out, -1, F1, at, scratch);
        for (int w = 0; w < KILN_ROUTING_WRITES; w++)
            ret->unwanted[w] = unwanted(set, out, w, at, scratch);
        at_thresholds(out, set->count, at, scratch, ret);
        risks(out, set->count, ret);
    }
    free(at);
    free(out);
    kiln_routing_reader_release(&reader);
    return rc;
}

int kiln_routing_print_wrong(const struct kiln_routing_under_test *of,
                             const struct kiln_routing_set *set, struct kiln_error *err)
{
    struct kiln_routing_reader reader = {0};
    int rc = kiln_routing_reader_open(of, &reader, err);
    for (size_t i = 0; i < set->count && !rc; i++) {
        const struct kiln_routing_case *c = &set->at[i];
        struct kiln_router_request request;
        struct kiln_route route;
        rc = kiln_routing_request(&reader, c->prompt, &request, err);
        rc = rc ? rc : kiln_router_route(reader.reader, &request, &route, err);
        if (rc)
            break;
        const struct kiln_routing_outcome out = outcome_of(c, &route);
        if (!out.active && out.missed == 0)
            continue;
        printf("%-8s %s\n         %s\n", kiln_routing_kinds[c->kind], c->prompt, route.reason);
    }
    kiln_routing_reader_release(&reader);
    return rc;
}
