/* estimates.c - what work and switches cost, from the cost model; backlogs and heat of the sets.
 *
 * An estimate of a group or a set is kept until the model has learned COST_TURNS more values.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/state.h"

#define COST_TURNS 32
#define OVERLOAD 1.05 /* a set is overloaded beyond this share of the mean load */

struct kiln_cost_shape kiln_policy_shape(const struct kiln_policy *p, uint32_t group, uint32_t jobs,
                                         const struct pol_worker *worker)
{
    const struct pol_group *g = &p->groups[group];
    return (struct kiln_cost_shape){.model = p->models[p->sets[g->set].model].name,
                                    .width = g->width,
                                    .height = g->height,
                                    .steps = g->steps,
                                    .guidance = g->guidance,
                                    .jobs = jobs,
                                    .device = worker ? worker->device : NULL,
                                    .mode = g->runs,
                                    .lora_set = p->sets[g->set].lora_set};
}

/* --- work ------------------------------------------------------------------------------------ */
static bool outdated(const struct kiln_policy *p, uint64_t at)
{
    return at == 0 || kiln_cost_turn(p->costs) + 1 >= at + COST_TURNS;
}

/* Sums of floats drift; an empty set is exactly empty. */
void kiln_policy_add_backlog(struct kiln_policy *p, uint32_t set, double seconds)
{
    struct pol_set *s = &p->sets[set];
    s->backlog_s = s->ready ? fmax(0, s->backlog_s + seconds) : 0;
    p->backlog_s = p->ready ? fmax(0, p->backlog_s + seconds) : 0;
}

double kiln_policy_unit_s(struct kiln_policy *p, uint32_t group)
{
    struct pol_group *g = &p->groups[group];
    if (outdated(p, g->costs_at)) {
        const struct kiln_cost_shape shape = kiln_policy_shape(p, group, 1, NULL);
        double unit_s = kiln_cost_compute(p->costs, &shape);
        kiln_policy_add_backlog(p, g->set, g->ready * (unit_s - g->unit_s));
        g->unit_s = unit_s;
        g->costs_at = kiln_cost_turn(p->costs) + 1;
    }
    return g->unit_s;
}

double kiln_policy_heat(struct kiln_policy *p, uint32_t set, double more)
{
    struct pol_set *s = &p->sets[set];
    double gone_s = (double)(p->last_ms - s->heat_ms) / 1000;
    s->heat = (gone_s > 0 ? s->heat * exp(-gone_s / HEAT_S) : s->heat) + more;
    s->heat_ms = p->last_ms;
    return s->heat;
}

/* --- switches -------------------------------------------------------------------------------- */
double kiln_policy_switch_s(struct kiln_policy *p, uint32_t set)
{
    struct pol_set *s = &p->sets[set];
    if (outdated(p, s->costs_at)) {
        s->switch_s = kiln_cost_switch(p->costs, p->models[s->model].name, s->lora_set);
        s->costs_at = kiln_cost_turn(p->costs) + 1;
    }
    return s->switch_s;
}

uint32_t kiln_policy_set_hash(const struct pol_set *set)
{
    return kiln_hash_bytes(set->model + 1, set->lora_set, strlen(set->lora_set));
}

static bool is_among(const uint32_t *hashes, size_t count, uint32_t hash)
{
    for (size_t i = 0; i < count; i++)
        if (hashes[i] == hash)
            return true;
    return false;
}

enum kiln_switch_kind kiln_policy_switch_kind(const struct kiln_policy *p,
                                              const struct pol_worker *worker, uint32_t set)
{
    if (worker->set == set)
        return KILN_SWITCH_RESIDENT;
    return is_among(worker->recent, RECENT_MAX, kiln_policy_set_hash(&p->sets[set]))
               ? KILN_SWITCH_WARM
               : KILN_SWITCH_COLD;
}

static int compare_files(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void kiln_policy_set_files(struct kiln_policy *p, uint32_t worker, const uint64_t *files,
                           uint32_t count)
{
    struct pol_worker *w = &p->workers[worker];
    w->tells_files = files != NULL;
    w->file_count = !files                             ? 0
                    : count < KILN_HEARTBEAT_FILES_MAX ? count
                                                       : KILN_HEARTBEAT_FILES_MAX;
    if (w->file_count == 0)
        return;
    memcpy(p->disks[worker].at, files, w->file_count * sizeof *files);
    qsort(p->disks[worker].at, w->file_count, sizeof *files, compare_files);
}

uint32_t kiln_policy_fetches(const struct kiln_policy *p, const struct pol_worker *worker,
                             uint32_t set)
{
    const struct pol_set *s = &p->sets[set];
    const uint64_t *files = p->disks[worker - p->workers].at;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < s->file_count && worker->tells_files; i++)
        missing += !bsearch(&s->files[i], files, worker->file_count, sizeof *files, compare_files);
    return missing;
}

double kiln_policy_load_s(const struct kiln_policy *p, const struct pol_worker *worker,
                          uint32_t set)
{
    const struct kiln_cost_load load = {.model = p->models[p->sets[set].model].name,
                                        .lora_set = p->sets[set].lora_set,
                                        .device = worker->device,
                                        .kind = kiln_policy_switch_kind(p, worker, set),
                                        .fetches = kiln_policy_fetches(p, worker, set)};
    return kiln_cost_load(p->costs, &load);
}

/* A run that begins at half the side needs graphs of both sizes; a start needs none of its own. */
uint32_t kiln_policy_size_hash(const struct pol_group *group)
{
    if (strncmp(group->mode, "coarse", 6) == 0)
        return kiln_hash_u64((uint64_t)group->width << 32 | 1u << 31 | group->height);
    return kiln_hash_u64((uint64_t)group->width << 32 | group->height);
}

bool kiln_policy_has_size(const struct pol_worker *worker, const struct pol_group *group)
{
    return is_among(worker->sizes, SIZES_MAX, kiln_policy_size_hash(group));
}

double kiln_policy_capture_s(const struct kiln_policy *p, const struct pol_worker *worker,
                             uint32_t group)
{
    if (kiln_policy_has_size(worker, &p->groups[group]))
        return 0;
    const struct kiln_cost_shape shape = kiln_policy_shape(p, group, 1, worker);
    return kiln_cost_capture(p->costs, &shape);
}

int64_t kiln_policy_lead_ms(const struct kiln_policy *p)
{
    return LEAD_MS + (int64_t)(1000 * fmin(p->load_s, LEAD_LOAD_S));
}

/* --- a set among others ---------------------------------------------------------------------- */
/* Seconds until the holders have rendered all that waits for the set, once they are at it. */
double kiln_policy_holders_s(const struct kiln_policy *p, uint32_t set)
{
    return p->sets[set].backlog_s / fmax(p->sets[set].holder_speed, 1e-3);
}

/* Its holders would still be at it when all others have finished. */
bool kiln_policy_overloaded(struct kiln_policy *p, uint32_t set)
{
    double mean = p->backlog_s / fmax(p->speed_sum, 1e-3);
    return kiln_policy_holders_s(p, set) > mean * OVERLOAD + kiln_policy_switch_s(p, set);
}

/* Seconds of loading that one more holder of the set will probably save, by how often the set is
 * asked for lately. */
double kiln_policy_worth_s(struct kiln_policy *p, uint32_t set, uint32_t holders)
{
    double asked = kiln_policy_heat(p, set, 0) / fmax(holders, 1);
    return kiln_policy_switch_s(p, set) * asked / (1 + asked);
}

/* What the worker loses by giving its set up. */
double kiln_policy_regret_s(struct kiln_policy *p, const struct pol_worker *worker)
{
    return worker->set == KILN_NONE
               ? 0
               : kiln_policy_worth_s(p, worker->set, p->sets[worker->set].holders);
}
