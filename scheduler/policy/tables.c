/* tables.c - the rows of the policy: models, sets, groups, queues, tenants, workers.
 *
 * A row is made when the first job or worker needs it and freed when nothing refers to it any more.
 * So years of passing LoRA sets and tenants fit the same tables.
 */
#include <stdio.h>
#include <string.h>

#include "scheduler/policy/state.h"
#include "schemas/wire/wire.h"

static uint32_t hash_text(uint32_t seed, const char *text)
{
    return kiln_hash_bytes(seed, text, strlen(text));
}

uint32_t kiln_policy_name_hash(const char *name)
{
    uint32_t hash = name && name[0] ? hash_text(0, name) : 0;
    return name && name[0] && hash == 0 ? 1 : hash;
}

/* Finds a name among rows of `size` bytes that begin with their name. */
static uint32_t find_name(const struct kiln_slots *slots, const void *rows, size_t size,
                          const char *name)
{
    uint32_t slot = kiln_slots_find(slots, hash_text(0, name));
    while (slot != KILN_NONE && strcmp((const char *)rows + slot * size, name) != 0)
        slot = kiln_slots_next(slots, slot);
    return slot;
}

/* A slot for a row of this name, which is not there yet; KILN_NONE for a name that is too long. */
static uint32_t make_name(struct kiln_slots *slots, const char *name)
{
    return strlen(name) > KILN_NAME_MAX ? KILN_NONE : kiln_slots_alloc(slots, hash_text(0, name));
}

uint32_t kiln_policy_find_job(const struct kiln_policy *p, uint64_t id)
{
    uint32_t slot = kiln_slots_find(&p->job_slots, kiln_hash_u64(id));
    while (slot != KILN_NONE && p->jobs[slot].id != id)
        slot = kiln_slots_next(&p->job_slots, slot);
    return slot;
}

uint32_t kiln_policy_find_worker(const struct kiln_policy *p, const char *name)
{
    return find_name(&p->worker_slots, p->workers, sizeof(*p->workers), name);
}

uint32_t kiln_policy_make_worker(struct kiln_policy *p, const char *name)
{
    uint32_t slot = make_name(&p->worker_slots, name);
    if (slot == KILN_NONE)
        return slot;
    p->workers[slot] =
        (struct pol_worker){.set = KILN_NONE, .model = KILN_NONE, .free_ms = p->last_ms};
    snprintf(p->workers[slot].name, sizeof(p->workers[slot].name), "%s", name);
    p->workers[slot].name_hash = kiln_policy_name_hash(name);
    p->worker_used[slot] = true;
    if (slot >= p->worker_span)
        p->worker_span = slot + 1;
    p->workers_alive++;
    return slot;
}

uint32_t kiln_policy_get_model(struct kiln_policy *p, const char *name)
{
    uint32_t slot = find_name(&p->model_slots, p->models, sizeof(*p->models), name);
    if (slot != KILN_NONE || (slot = make_name(&p->model_slots, name)) == KILN_NONE)
        return slot;
    p->models[slot] = (struct pol_model){.free_sets = KILN_NONE,
                                         .held_sets = KILN_NONE,
                                         .due_sets = KILN_NONE,
                                         .loaded_sets = KILN_NONE,
                                         .rooms = KILN_NONE};
    snprintf(p->models[slot].name, sizeof(p->models[slot].name), "%s", name);
    return slot;
}

uint32_t kiln_policy_get_tenant(struct kiln_policy *p, const char *name)
{
    uint32_t slot = find_name(&p->tenant_slots, p->tenants, sizeof(*p->tenants), name);
    if (slot != KILN_NONE || (slot = make_name(&p->tenant_slots, name)) == KILN_NONE)
        return slot;
    memset(&p->tenants[slot], 0, sizeof(p->tenants[slot]));
    snprintf(p->tenants[slot].name, sizeof(p->tenants[slot].name), "%s", name);
    return slot;
}

/* The hashes behind the names of a set ("name:scale@HASH"); a name has no '@'. */
static void read_files(struct pol_set *set)
{
    const char *at = set->lora_set;
    while (set->file_count < KILN_LORAS_MAX && (at = strchr(at, '@')) != NULL)
        set->files[set->file_count++] = kiln_lora_digits(++at);
}

uint32_t kiln_policy_find_set(const struct kiln_policy *p, uint32_t model, const char *lora_set)
{
    uint32_t slot = kiln_slots_find(&p->set_slots, hash_text(model, lora_set));
    while (slot != KILN_NONE &&
           (p->sets[slot].model != model || strcmp(p->sets[slot].lora_set, lora_set) != 0))
        slot = kiln_slots_next(&p->set_slots, slot);
    return slot;
}

uint32_t kiln_policy_get_set(struct kiln_policy *p, uint32_t model, const char *lora_set)
{
    uint32_t slot = kiln_policy_find_set(p, model, lora_set);
    if (slot != KILN_NONE || strlen(lora_set) >= KILN_LORA_SET_MAX ||
        (slot = kiln_slots_alloc(&p->set_slots, hash_text(model, lora_set))) == KILN_NONE)
        return slot;
    struct pol_set *set = &p->sets[slot];
    memset(set, 0, sizeof(*set));
    snprintf(set->lora_set, sizeof(set->lora_set), "%s", lora_set);
    set->model = model;
    read_files(set);
    set->groups = set->deadlines = set->ranked_holders = KILN_NONE;
    p->models[model].refs++;
    return slot;
}

static bool is_sought(const struct kiln_policy *p, uint32_t group)
{
    return p->groups[group].avoid != 0 && p->sets[p->groups[group].set].file_count > 0;
}

/* The mode in which the job is expected to run.  What coarse=auto means is not known here: its
 * small steps, at most a tenth of the run, are not taken off. */
static void expected_mode(const struct kiln_policy_job *job, char ret[KILN_MODE_MAX])
{
    struct kiln_mode mode = {.kind = KILN_MODE_EXACT};
    const char *own = job->mode ? job->mode : "";
    snprintf(ret, KILN_MODE_MAX, "%s", own);
    if (job->skip == 0 ||
        (job->skip_coarse && !(kiln_mode_parse(own, &mode) && mode.kind == KILN_MODE_COARSE)))
        return;
    mode = kiln_mode_begun_at(&mode, job->skip, job->skip_coarse);
    kiln_mode_text(&mode, ret);
}

uint32_t kiln_policy_get_group(struct kiln_policy *p, uint32_t set,
                               const struct kiln_policy_job *job)
{
    const uint32_t avoid = kiln_policy_name_hash(job->avoid);
    uint32_t words[8] = {set,       job->width,       job->height, job->steps,
                         job->skip, job->skip_coarse, job->alone,  avoid};
    uint32_t hash = kiln_hash_bytes(0, words, sizeof(words));
    hash = kiln_hash_bytes(hash, &job->guidance, sizeof(job->guidance));
    const char *mode = job->mode ? job->mode : "";
    hash = hash_text(hash, mode);
    uint32_t slot = kiln_slots_find(&p->group_slots, hash);
    for (; slot != KILN_NONE; slot = kiln_slots_next(&p->group_slots, slot)) {
        const struct pol_group *g = &p->groups[slot];
        if (g->set == set && g->width == job->width && g->height == job->height &&
            g->steps == job->steps && g->skip == job->skip && g->skip_coarse == job->skip_coarse &&
            g->guidance == job->guidance && g->alone == job->alone && g->avoid == avoid &&
            strcmp(g->mode, mode) == 0)
            break;
    }
    if (slot != KILN_NONE || strlen(mode) >= KILN_MODE_MAX ||
        (slot = kiln_slots_alloc(&p->group_slots, hash)) == KILN_NONE)
        return slot;
    p->groups[slot] = (struct pol_group){.set = set,
                                         .width = job->width,
                                         .height = job->height,
                                         .steps = job->steps,
                                         .skip = job->skip,
                                         .skip_coarse = job->skip_coarse,
                                         .guidance = job->guidance,
                                         .alone = job->alone,
                                         .avoid = avoid,
                                         .queues = KILN_NONE};
    struct kiln_mode read;
    snprintf(p->groups[slot].mode, KILN_MODE_MAX, "%s", mode);
    p->groups[slot].minor =
        kiln_mode_parse(mode, &read) ? kiln_mode_minor(&read) : KILN_MODE_MINOR_ALL;
    if (p->sets[set].file_count > 0 && p->groups[slot].minor < KILN_WIRE_MINOR_FILES)
        p->groups[slot].minor = KILN_WIRE_MINOR_FILES;
    p->sought += is_sought(p, slot);
    expected_mode(job, p->groups[slot].runs);
    p->sets[set].refs++;
    return slot;
}

uint32_t kiln_policy_get_queue(struct kiln_policy *p, uint32_t group, uint32_t tenant)
{
    uint32_t words[2] = {group, tenant};
    uint32_t hash = kiln_hash_bytes(0, words, sizeof(words));
    uint32_t slot = kiln_slots_find(&p->queue_slots, hash);
    while (slot != KILN_NONE &&
           (p->queues[slot].group != group || p->queues[slot].tenant != tenant))
        slot = kiln_slots_next(&p->queue_slots, slot);
    if (slot != KILN_NONE || (slot = kiln_slots_alloc(&p->queue_slots, hash)) == KILN_NONE)
        return slot;
    p->queues[slot] = (struct pol_queue){.group = group, .tenant = tenant, .jobs = KILN_NONE};
    p->groups[group].refs++;
    p->tenants[tenant].refs++;
    return slot;
}

void kiln_policy_drop_model(struct kiln_policy *p, uint32_t model)
{
    if (p->models[model].refs == 0)
        kiln_slots_free(&p->model_slots, model);
}

void kiln_policy_drop_set(struct kiln_policy *p, uint32_t set)
{
    if (p->sets[set].refs > 0)
        return;
    uint32_t model = p->sets[set].model;
    kiln_slots_free(&p->set_slots, set);
    p->models[model].refs--;
    kiln_policy_drop_model(p, model);
}

void kiln_policy_drop_group(struct kiln_policy *p, uint32_t group)
{
    if (p->groups[group].refs > 0)
        return;
    uint32_t set = p->groups[group].set;
    p->sought -= is_sought(p, group);
    kiln_slots_free(&p->group_slots, group);
    p->sets[set].refs--;
    kiln_policy_drop_set(p, set);
}

void kiln_policy_drop_tenant(struct kiln_policy *p, uint32_t tenant)
{
    if (p->tenants[tenant].refs == 0)
        kiln_slots_free(&p->tenant_slots, tenant);
}

void kiln_policy_drop_queue(struct kiln_policy *p, uint32_t queue)
{
    if (p->queues[queue].refs > 0)
        return;
    uint32_t group = p->queues[queue].group, tenant = p->queues[queue].tenant;
    kiln_slots_free(&p->queue_slots, queue);
    p->groups[group].refs--;
    p->tenants[tenant].refs--;
    kiln_policy_drop_group(p, group);
    kiln_policy_drop_tenant(p, tenant);
}

void kiln_policy_note_asking(struct kiln_policy *p, uint32_t queue, bool comes)
{
    const uint32_t slot = p->groups[p->queues[queue].group].set;
    struct pol_set *set = &p->sets[slot];
    if (comes && set->asking++ == 0) {
        set->asking_at = p->asking_set_count;
        p->asking_sets[p->asking_set_count++] = slot;
    } else if (!comes && --set->asking == 0) {
        const uint32_t last = p->asking_sets[--p->asking_set_count];
        p->asking_sets[set->asking_at] = last;
        p->sets[last].asking_at = set->asking_at;
    }
}

void kiln_policy_drop_job(struct kiln_policy *p, uint32_t job)
{
    uint32_t queue = p->jobs[job].queue;
    kiln_slots_free(&p->job_slots, job);
    if (p->jobs[job].asks)
        kiln_policy_note_asking(p, queue, false);
    p->jobs[job].id = 0;
    p->queues[queue].refs--;
    kiln_policy_drop_queue(p, queue);
}
