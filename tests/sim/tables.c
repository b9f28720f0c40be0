/* tables.c - batches, insertions and what is read of them; the moves are in tables_move.c. */
#include "tests/sim/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_row *sim_tables_row(struct sim_tables *tables, uint64_t id)
{
    return id >= 1 && id <= tables->row_count ? tables->rows[id - 1] : NULL;
}

struct sim_batch *sim_tables_batch(struct sim_tables *tables, const char *pool, const char *name)
{
    for (size_t i = 0; i < tables->batch_count; i++)
        if (strcmp(tables->batches[i].pool, pool) == 0 &&
            strcmp(tables->batches[i].name, name) == 0)
            return &tables->batches[i];
    return NULL;
}

struct sim_batch *sim_tables_make_batch(struct sim_tables *tables, const char *pool,
                                        const char *name)
{
    struct sim_batch *batch = sim_tables_batch(tables, pool, name);
    if (batch)
        return batch;
    if (tables->batch_count == SIM_BATCHES_MAX)
        abort();
    batch = &tables->batches[tables->batch_count++];
    batch->id = tables->batch_count;
    snprintf(batch->pool, sizeof batch->pool, "%s", pool);
    snprintf(batch->name, sizeof batch->name, "%s", name);
    return batch;
}

/* --- accounts of calls ----------------------------------------------------------------------- */
static struct sim_call *call_of(struct sim_tables *tables, uint64_t batch_id, const char *token)
{
    for (size_t i = 0; i < tables->call_count; i++)
        if (tables->calls[i].batch_id == batch_id && strcmp(tables->calls[i].token, token) == 0)
            return &tables->calls[i];
    if (tables->call_count == SIM_CALLS_MAX)
        abort();
    struct sim_call *call = &tables->calls[tables->call_count++];
    *call = (struct sim_call){.batch_id = batch_id, .open = true};
    snprintf(call->token, sizeof call->token, "%s", token);
    return call;
}

struct sim_call *sim_tables_announce(struct sim_tables *tables, const struct sim_batch *batch,
                                     const char *token, uint64_t announced)
{
    struct sim_call *call = call_of(tables, batch->id, token);
    call->announced = announced;
    call->open = false;
    return call;
}

void sim_tables_refuse(struct sim_tables *tables, const struct sim_batch *batch, const char *token,
                       const char *key, const char *reason)
{
    for (size_t i = 0; i < tables->refusal_count; i++) {
        const struct sim_refusal *at = &tables->refusals[i];
        if (at->batch_id == batch->id && strcmp(at->token, token) == 0 && strcmp(at->key, key) == 0)
            return;
    }
    if (tables->refusal_count == SIM_CALLS_MAX)
        abort();
    struct sim_refusal *made = &tables->refusals[tables->refusal_count++];
    *made =
        (struct sim_refusal){.batch_id = batch->id, .key = strdup(key), .reason = strdup(reason)};
    snprintf(made->token, sizeof made->token, "%s", token);
    call_of(tables, batch->id, token)->refused++;
}

/* --- insertion ------------------------------------------------------------------------------- */
uint64_t sim_tables_reserve(struct sim_tables *tables, size_t count)
{
    uint64_t first = tables->row_count + 1;
    tables->rows = realloc(tables->rows, (tables->row_count + count) * sizeof *tables->rows);
    if (!tables->rows)
        abort();
    memset(tables->rows + tables->row_count, 0, count * sizeof *tables->rows);
    tables->row_count += count;
    return first;
}

static char *copy(const char *text)
{
    char *made = text ? strdup(text) : NULL;
    if (text && !made)
        abort();
    return made;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static struct sim_row *make_row(const char *pool, uint64_t id, uint64_t batch_id,
                                const struct kiln_new_job *new, int64_t now_ms)
{
    struct sim_row *row = calloc(1, sizeof *row);
    if (!row)
        abort();
    row->job = new->job;
    row->job.id = id;
    row->job.batch_id = batch_id;
    row->job.batch = copy(new->job.batch);
    row->job.custom_id = copy(new->job.custom_id);
    row->job.prompt = copy(new->job.prompt);
    row->job.drawn = new->job.drawn ? copy(new->job.drawn) : NULL;
    row->job.route = new->job.route ? copy(new->job.route) : NULL;
    row->job.negative_prompt = copy(or_empty(new->job.negative_prompt));
    row->job.style = copy(new->job.style);
    row->job.init_image = copy(new->job.init_image);
    row->job.init_mask = copy(new->job.init_mask);
    row->job.tenant = copy(or_empty(new->job.tenant));
    row->job.model = copy(or_empty(new->job.model));
    row->job.created_ms = row->queued_ms = now_ms;
    row->job.state = KILN_JOB_QUEUED;
    row->job.attempt = 0;
    row->key = copy(new->key);
    row->token = copy(or_empty(new->token));
    snprintf(row->pool, sizeof row->pool, "%s", pool);
    return row;
}

static bool known(const struct sim_tables *tables, uint64_t batch_id, const char *key)
{
    for (size_t i = 0; i < tables->row_count; i++)
        if (tables->rows[i] && tables->rows[i]->job.batch_id == batch_id &&
            strcmp(tables->rows[i]->key, key) == 0)
            return true;
    return false;
}

static bool has_index(const struct sim_tables *tables, uint64_t batch_id, int64_t index)
{
    for (size_t i = 0; i < tables->row_count; i++)
        if (tables->rows[i] && tables->rows[i]->job.batch_id == batch_id &&
            tables->rows[i]->job.index == index)
            return true;
    return false;
}

static bool named_before(const struct sim_tables *tables, uint64_t batch_id,
                         const char *const *keys, const int64_t *wishes, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (wishes[i] == wishes[at] && !known(tables, batch_id, keys[i]))
            return true;
    return false;
}

static bool given_here(const int64_t *given, size_t count, int64_t index)
{
    for (size_t i = 0; i < count; i++)
        if (given[i] == index)
            return true;
    return false;
}

void sim_tables_number(struct sim_tables *tables, struct sim_batch *batch, const char *const *keys,
                       const int64_t *wishes, size_t count, int64_t *ret_index)
{
    int64_t *given = calloc(count + 1, sizeof *given); /* -2: passed over */
    for (size_t i = 0; given && i < count; i++) {
        bool fresh = !known(tables, batch->id, keys[i]);
        bool granted = fresh && wishes && wishes[i] >= 0 &&
                       !has_index(tables, batch->id, wishes[i]) &&
                       !named_before(tables, batch->id, keys, wishes, i);
        given[i] = granted ? wishes[i] : fresh ? -1 : -2;
    }
    for (size_t i = 0; given && i < count; i++) {
        if (given[i] == -1) {
            while (has_index(tables, batch->id, (int64_t)batch->next_index) ||
                   given_here(given, count, (int64_t)batch->next_index))
                batch->next_index++;
            given[i] = (int64_t)batch->next_index++;
        }
        ret_index[i] = given[i] < 0 ? 0 : given[i];
    }
    free(given);
}

static int64_t entry_number(const char *id)
{
    char *end;
    if (!id)
        return 0;
    unsigned long long ms = strtoull(id, &end, 10);
    unsigned long long sequence = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
    return (int64_t)(ms << 20 | sequence);
}

uint64_t sim_tables_insert(struct sim_tables *tables, const char *pool,
                           const struct kiln_new_job *jobs, size_t count, uint64_t first_id,
                           int64_t now_ms)
{
    uint64_t inserted = 0;
    struct {
        uint64_t fresh, made;
        int64_t entry;
    } gains[SIM_CALLS_MAX] = {{0}};
    for (size_t i = 0; i < count; i++) {
        struct sim_batch *batch = sim_tables_batch(tables, pool, jobs[i].job.batch);
        struct sim_call *call = call_of(tables, batch->id, or_empty(jobs[i].token));
        int64_t entry = entry_number(jobs[i].entry);
        size_t which = (size_t)(call - tables->calls);
        gains[which].fresh += entry == 0 || entry > call->entry;
        gains[which].entry = entry > gains[which].entry ? entry : gains[which].entry;
        if (known(tables, batch->id, jobs[i].key))
            continue;
        tables->rows[first_id - 1 + i] = make_row(pool, first_id + i, batch->id, &jobs[i], now_ms);
        gains[which].made++;
        inserted++;
    }
    for (size_t i = 0; i < tables->call_count; i++) {
        struct sim_call *call = &tables->calls[i];
        call->accepted += gains[i].made;
        call->duplicate += gains[i].fresh > gains[i].made ? gains[i].fresh - gains[i].made : 0;
        call->entry = gains[i].entry > call->entry ? gains[i].entry : call->entry;
    }
    return inserted;
}

/* --- reading --------------------------------------------------------------------------------- */
size_t sim_tables_waiting(struct sim_tables *tables, const char *pool, uint64_t after, size_t max,
                          struct kiln_waiting *ret)
{
    size_t count = 0;
    for (uint64_t id = after + 1; id <= tables->row_count && count < max; id++) {
        const struct sim_row *row = tables->rows[id - 1];
        if (!row || row->job.state != KILN_JOB_QUEUED || strcmp(row->pool, pool) != 0)
            continue;
        struct kiln_waiting *job = &ret[count++];
        *job = (struct kiln_waiting){.id = id,
                                     .batch_id = row->job.batch_id,
                                     .width = row->job.width,
                                     .height = row->job.height,
                                     .steps = row->job.steps,
                                     .attempt = row->job.attempt,
                                     .max_wait_s = row->job.max_wait_s,
                                     .guidance = row->job.guidance,
                                     .priority = row->job.priority,
                                     .kind = row->job.kind,
                                     .crashes = row->crashes,
                                     .queued_ms = row->queued_ms,
                                     .not_before_ms = row->not_before_ms};
        snprintf(job->model, sizeof job->model, "%s", row->job.model);
        snprintf(job->tenant, sizeof job->tenant, "%s", row->job.tenant);
        kiln_lora_set_key(row->job.loras, row->job.lora_count, job->lora_set, sizeof job->lora_set);
        kiln_mode_text(&row->job.mode, job->mode);
    }
    return count;
}

size_t sim_tables_held(struct sim_tables *tables, const char *pool, struct kiln_assigned_job *ret,
                       size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < tables->row_count && count < max; i++) {
        const struct sim_row *row = tables->rows[i];
        if (!row || row->job.state != KILN_JOB_ASSIGNED || strcmp(row->pool, pool) != 0)
            continue;
        struct kiln_assigned_job *held = &ret[count++];
        *held = (struct kiln_assigned_job){.id = row->job.id,
                                           .attempt = row->job.attempt,
                                           .crashes = row->crashes,
                                           .assigned_ms = row->assigned_ms};
        snprintf(held->worker, sizeof held->worker, "%s", row->worker);
        snprintf(held->assignment, sizeof held->assignment, "%s", row->assignment);
    }
    return count;
}

/* Keys of the batch that were refused and whose job has not come in since, each once. */
static uint64_t still_out(const struct sim_tables *tables, const struct sim_batch *batch)
{
    uint64_t count = 0;
    for (size_t i = 0; i < tables->refusal_count; i++) {
        const struct sim_refusal *at = &tables->refusals[i];
        bool out = at->batch_id == batch->id;
        for (size_t k = 0; k < i && out; k++)
            out = tables->refusals[k].batch_id != at->batch_id ||
                  strcmp(tables->refusals[k].key, at->key) != 0;
        for (size_t k = 0; k < tables->row_count && out; k++)
            out = !tables->rows[k] || tables->rows[k]->job.batch_id != at->batch_id ||
                  strcmp(tables->rows[k]->key, at->key) != 0;
        count += out;
    }
    return count;
}

void sim_tables_progress(struct sim_tables *tables, const struct sim_batch *batch,
                         struct kiln_progress *ret)
{
    bool any = false;
    *ret = (struct kiln_progress){.whole = true};
    for (size_t i = 0; i < tables->row_count; i++)
        if (tables->rows[i] && tables->rows[i]->job.batch_id == batch->id)
            ret->jobs.at[tables->rows[i]->job.state]++;
    for (size_t i = 0; i < tables->call_count; i++) {
        const struct sim_call *call = &tables->calls[i];
        if (call->batch_id != batch->id)
            continue;
        any = true;
        ret->announced += call->announced;
        ret->accepted += call->accepted;
        ret->duplicate += call->duplicate;
        ret->refused += call->refused;
        ret->whole =
            ret->whole &&
            (call->token[0] == '\0' ||
             (!call->open && call->accepted + call->duplicate + call->refused >= call->announced));
    }
    ret->whole = ret->whole && any;
    if (ret->refused > 0 && ret->whole &&
        ret->jobs.at[KILN_JOB_QUEUED] + ret->jobs.at[KILN_JOB_ASSIGNED] == 0)
        ret->refused = still_out(tables, batch);
}

void sim_tables_release(struct sim_tables *tables)
{
    for (size_t i = 0; i < tables->row_count; i++) {
        if (!tables->rows[i])
            continue;
        kiln_job_release(&tables->rows[i]->job);
        free(tables->rows[i]->key);
        free(tables->rows[i]->token);
        free(tables->rows[i]);
    }
    for (size_t i = 0; i < tables->refusal_count; i++) {
        free(tables->refusals[i].key);
        free(tables->refusals[i].reason);
    }
    free(tables->rows);
    memset(tables, 0, sizeof *tables);
}
