/* ledger_verbs.c - the statements of storage/ledger/ledger.h, carried out on tables.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/ledger/queue/source.h"
#include "storage/ledger/read/read.h"
#include "tests/sim/ledger_session.h"

#define ROWS_MAX 4096

/* --- batches --------------------------------------------------------------------------------- */
struct naming {
    const char *pool, *name;
    struct sim_batch *batch;
    bool make;
};

static void name_batch(void *arg)
{
    struct naming *naming = arg;
    naming->batch = naming->make
                        ? sim_tables_make_batch(&sim_fleet.tables, naming->pool, naming->name)
                        : sim_tables_batch(&sim_fleet.tables, naming->pool, naming->name);
}

static int find_batch(struct kiln_ledger *ledger, const char *pool, const char *name, bool make,
                      struct sim_batch **ret, struct kiln_error *err)
{
    struct naming naming = {.pool = pool, .name = name, .make = make};
    int rc = sim_ledger_run(ledger, name_batch, &naming, err);
    if (rc == 0 && !naming.batch)
        rc = kiln_fail(err, KILN_NOT_FOUND, "there is no batch '%s' in pool '%s'", name, pool);
    if (rc == 0)
        *ret = naming.batch;
    return rc;
}

int kiln_ledger_batch_id(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         uint64_t *ret, struct kiln_error *err)
{
    struct sim_batch *found = NULL;
    int rc = find_batch(ledger, pool, batch, false, &found, err);
    if (rc == 0)
        *ret = found->id;
    return rc;
}

/* --- intake ---------------------------------------------------------------------------------- */
struct insertion {
    const char *pool;
    const struct kiln_new_job *jobs;
    size_t count;
    uint64_t first_id, inserted;
};

static void reserve(void *arg)
{
    struct insertion *insertion = arg;
    insertion->first_id = sim_tables_reserve(&sim_fleet.tables, insertion->count);
}

static void insert(void *arg)
{
    struct insertion *insertion = arg;
    if (insertion->first_id == 0)
        reserve(arg); /* the statement is sent again: other ids */
    insertion->inserted = sim_tables_insert(&sim_fleet.tables, insertion->pool, insertion->jobs,
                                            insertion->count, insertion->first_id, sim_ledger_ms());
    insertion->first_id = 0;
}

int kiln_ledger_insert_jobs(struct kiln_ledger *ledger, const char *pool,
                            const struct kiln_new_job *jobs, size_t count, uint64_t *ret_inserted,
                            struct kiln_error *err)
{
    struct insertion insertion = {.pool = pool, .jobs = jobs, .count = count};
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct sim_batch *batch;
        if (i == 0 || strcmp(jobs[i].job.batch, jobs[i - 1].job.batch) != 0)
            rc = find_batch(ledger, pool, jobs[i].job.batch, true, &batch, err);
    }
    if (rc == 0 && sim_chance(500)) /* ids are drawn at the beginning of a long statement */
        rc = sim_ledger_run(ledger, reserve, &insertion, err);
    if (rc == 0)
        rc = sim_ledger_run(ledger, insert, &insertion, err);
    if (rc == 0)
        *ret_inserted = insertion.inserted;
    return rc;
}

/* Done at once; what becomes of it is told later. */
bool kiln_ledger_insert_begin(struct kiln_ledger *ledger, const char *pool,
                              const struct kiln_new_job *jobs, size_t count)
{
    ledger->begun.rc = kiln_ledger_insert_jobs(ledger, pool, jobs, count, &ledger->begun.inserted,
                                               &ledger->begun.err);
    return true;
}

int kiln_ledger_insert_end(struct kiln_ledger *ledger, uint64_t *ret_inserted,
                           struct kiln_error *err)
{
    if (ledger->begun.rc)
        return kiln_fail(err, ledger->begun.rc, "%s", ledger->begun.err.text);
    *ret_inserted = ledger->begun.inserted;
    return 0;
}

/* No client of the simulated fleet sends a file again, so a call is an error of the scheduler. */
int kiln_ledger_gone(struct kiln_ledger *ledger, const char *pool, const char *batch,
                     const char *const *keys, size_t count, struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)batch, (void)keys;
    return kiln_fail(err, KILN_INTERNAL, "the tables do not record %zu keys that are gone", count);
}

struct numbering {
    struct sim_batch *batch;
    const char *const *keys;
    const int64_t *wishes;
    size_t count;
    int64_t *indexes;
};

static void number(void *arg)
{
    struct numbering *numbering = arg;
    sim_tables_number(&sim_fleet.tables, numbering->batch, numbering->keys, numbering->wishes,
                      numbering->count, numbering->indexes);
}

int kiln_ledger_number(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       const char *const *keys, const int64_t *wishes, size_t count,
                       int64_t *ret_index, struct kiln_error *err)
{
    struct numbering numbering = {
        .keys = keys, .wishes = wishes, .count = count, .indexes = ret_index};
    int rc = find_batch(ledger, pool, batch, true, &numbering.batch, err);
    return rc ? rc : sim_ledger_run(ledger, number, &numbering, err);
}

struct account {
    const struct sim_batch *batch;
    const char *token, *key, *reason;
    uint64_t announced;
    struct sim_call call;
};

static void refuse(void *arg)
{
    const struct account *account = arg;
    sim_tables_refuse(&sim_fleet.tables, account->batch, account->token, account->key,
                      account->reason);
}

int kiln_ledger_refuse(struct kiln_ledger *ledger, const char *pool, const char *batch,
                       const char *token, const char *key, const char *reason,
                       struct kiln_error *err)
{
    struct account account = {.token = token, .key = key, .reason = reason};
    struct sim_batch *found = NULL;
    int rc = find_batch(ledger, pool, batch, true, &found, err);
    account.batch = found;
    return rc ? rc : sim_ledger_run(ledger, refuse, &account, err);
}

static void announce(void *arg)
{
    struct account *account = arg;
    account->call =
        *sim_tables_announce(&sim_fleet.tables, account->batch, account->token, account->announced);
}

int kiln_ledger_announce(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         const char *token, uint64_t announced, uint64_t *ret_accepted,
                         uint64_t *ret_duplicate, uint64_t *ret_refused, struct kiln_error *err)
{
    struct account account = {.token = token, .announced = announced};
    struct sim_batch *found = NULL;
    int rc = find_batch(ledger, pool, batch, true, &found, err);
    account.batch = found;
    if (rc == 0)
        rc = sim_ledger_run(ledger, announce, &account, err);
    if (rc)
        return rc;
    *ret_accepted = account.call.accepted;
    *ret_duplicate = account.call.duplicate;
    *ret_refused = account.call.refused;
    return 0;
}

/* --- scheduling ------------------------------------------------------------------------------ */
struct listing {
    const char *pool;
    uint64_t after;
    uint32_t max;
    struct kiln_waiting *waiting;
    struct kiln_assigned_job *held;
    size_t count;
};

static void list_waiting(void *arg)
{
    struct listing *listing = arg;
    listing->count = sim_tables_waiting(&sim_fleet.tables, listing->pool, listing->after,
                                        listing->max, listing->waiting);
}

int kiln_ledger_waiting(struct kiln_ledger *ledger, const char *pool, uint64_t after_id,
                        uint32_t max, kiln_ledger_each_waiting *each, void *arg,
                        struct kiln_error *err)
{
    struct listing listing = {
        .pool = pool, .after = after_id, .max = max < ROWS_MAX ? max : ROWS_MAX};
    listing.waiting = calloc(listing.max, sizeof *listing.waiting);
    if (!listing.waiting)
        abort();
    int rc = sim_ledger_run(ledger, list_waiting, &listing, err);
    int stop = 0;
    for (size_t i = 0; rc == 0 && i < listing.count && stop == 0; i++)
        stop = each(arg, &listing.waiting[i]);
    free(listing.waiting);
    return stop ? kiln_fail(err, stop, "ledger, queued jobs: the caller stopped") : rc;
}

/* The simulated ledger has no latents, and so no job is asked for one. */
int kiln_ledger_asking(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                       size_t count, kiln_ledger_each_asking *each, void *arg,
                       struct kiln_error *err)
{
    (void)pool, (void)ids, (void)count, (void)each, (void)arg;
    (void)ledger;
    return kiln_fail(err, KILN_UNSUPPORTED, "the simulated ledger has no latents");
}

static void list_held(void *arg)
{
    struct listing *listing = arg;
    listing->count = sim_tables_held(&sim_fleet.tables, listing->pool, listing->held, ROWS_MAX);
}

int kiln_ledger_assigned(struct kiln_ledger *ledger, const char *pool,
                         kiln_ledger_each_assigned *each, void *arg, struct kiln_error *err)
{
    struct listing listing = {.pool = pool};
    listing.held = calloc(ROWS_MAX, sizeof *listing.held);
    if (!listing.held)
        abort();
    int rc = sim_ledger_run(ledger, list_held, &listing, err);
    int stop = 0;
    for (size_t i = 0; rc == 0 && i < listing.count && stop == 0; i++)
        stop = each(arg, &listing.held[i]);
    free(listing.held);
    return stop ? kiln_fail(err, stop, "ledger, assigned jobs: the caller stopped") : rc;
}

struct assigning {
    const char *worker, *assignment;
    const uint64_t *ids;
    size_t count, given;
    struct kiln_job *jobs;
};

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void copy_job(const struct kiln_job *from, struct kiln_job *to)
{
    *to = *from;
    to->batch = copy(from->batch);
    to->custom_id = copy(from->custom_id);
    to->prompt = copy(from->prompt);
    to->negative_prompt = copy(from->negative_prompt);
    to->style = copy(from->style);
    to->init_image = copy(from->init_image);
    to->init_mask = copy(from->init_mask);
    to->tenant = copy(from->tenant);
    to->model = copy(from->model);
}

static void assign(void *arg)
{
    struct assigning *assigning = arg;
    struct sim_row *rows[KILN_ASSIGN_MAX];
    for (size_t i = 0; i < assigning->given; i++) /* of the same statement, sent before */
        kiln_job_release(&assigning->jobs[i]);
    assigning->given =
        sim_tables_assign(&sim_fleet.tables, assigning->worker, assigning->assignment,
                          assigning->ids, assigning->count, sim_ledger_ms(), rows);
    for (size_t i = 0; i < assigning->given; i++)
        copy_job(&rows[i]->job, &assigning->jobs[i]);
}

int kiln_ledger_assign(struct kiln_ledger *ledger, const char *worker, const char *assignment,
                       const uint64_t *ids, size_t count, struct kiln_job *jobs, size_t *ret_count,
                       struct kiln_error *err)
{
    struct assigning assigning = {worker, assignment, ids, count, 0, jobs};
    int rc = sim_ledger_run(ledger, assign, &assigning, err);
    if (rc == 0)
        *ret_count = assigning.given;
    for (size_t i = 0; rc && i < assigning.given; i++)
        kiln_job_release(&jobs[i]);
    return rc;
}

struct handing {
    struct kiln_new_assignment *wanted;
    size_t count, upto; /* so many are carried out */
};

static void assign_many(void *arg)
{
    struct handing *handing = arg;
    for (size_t i = 0; i < handing->upto; i++) {
        struct kiln_new_assignment *of = &handing->wanted[i];
        struct assigning one = {of->worker, of->assignment, of->ids,
                                of->count,  of->given,      of->jobs};
        assign(&one);
        of->given = one.given;
    }
}

int kiln_ledger_assign_many(struct kiln_ledger *ledger, struct kiln_new_assignment *wanted,
                            size_t count, struct kiln_error *err)
{
    struct handing handing = {wanted, count, count};
    for (size_t i = 0; i < count; i++)
        wanted[i].given = 0;
    if (count > 1 && sim_chance(sim_fleet.cut_pipeline))
        handing.upto = sim_below((uint32_t)count);
    int rc = sim_ledger_run(ledger, assign_many, &handing, err);
    if (rc == 0 && handing.upto < count) {
        sim_ledger_drop(ledger);
        rc = kiln_fail(err, KILN_UNAVAILABLE, "Postgres: the connection was lost");
    }
    for (size_t i = 0; rc && i < count; i++)
        while (wanted[i].given > 0)
            kiln_job_release(&wanted[i].jobs[--wanted[i].given]);
    return rc;
}

/* No latent is evicted here. */
int kiln_ledger_note_donors(struct kiln_ledger *ledger, const char *pool, const char *assignment,
                            const uint64_t *donors, size_t count, bool *ret_there,
                            struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)assignment, (void)donors, (void)err;
    for (size_t i = 0; i < count; i++)
        ret_there[i] = true;
    return 0;
}

struct returning {
    const struct kiln_ledger *ledger;
    const struct kiln_return *returns;
    size_t count;
    int states[KILN_ASSIGN_MAX];
};

static void return_jobs(void *arg)
{
    struct returning *returning = arg;
    for (size_t i = 0; i < returning->count; i++)
        returning->states[i] = sim_tables_return(&sim_fleet.tables, &returning->returns[i],
                                                 &returning->ledger->limits, sim_ledger_ms());
}

int kiln_ledger_return(struct kiln_ledger *ledger, const struct kiln_return *returns, size_t count,
                       int *ret_states, struct kiln_error *err)
{
    struct returning returning = {.ledger = ledger, .returns = returns, .count = count};
    int rc = sim_ledger_run(ledger, return_jobs, &returning, err);
    if (rc == 0)
        memcpy(ret_states, returning.states, count * sizeof *ret_states);
    return rc;
}

struct moving {
    const char *pool, *batch;
    uint64_t id;
    int64_t moved;
};

static void cancel(void *arg)
{
    struct moving *moving = arg;
    moving->moved = sim_tables_cancel(&sim_fleet.tables, moving->pool, moving->id, moving->batch);
}

static void retry(void *arg)
{
    struct moving *moving = arg;
    moving->moved = sim_tables_retry(&sim_fleet.tables, moving->pool, moving->id, moving->batch,
                                     sim_ledger_ms());
}

static int move_some(struct kiln_ledger *ledger, void (*run)(void *arg), struct moving *moving,
                     uint64_t *ret_count, struct kiln_error *err)
{
    int rc = sim_ledger_run(ledger, run, moving, err);
    if (rc == 0 && moving->moved < 0)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no such job or batch");
    if (rc == 0)
        *ret_count = (uint64_t)moving->moved;
    return rc;
}

int kiln_ledger_cancel(struct kiln_ledger *ledger, const char *pool, uint64_t id, const char *batch,
                       uint64_t *ret_count, struct kiln_error *err)
{
    struct moving moving = {.pool = pool, .batch = batch, .id = id};
    return move_some(ledger, cancel, &moving, ret_count, err);
}

int kiln_ledger_retry(struct kiln_ledger *ledger, const char *pool, uint64_t id, const char *batch,
                      uint64_t *ret_count, struct kiln_error *err)
{
    struct moving moving = {.pool = pool, .batch = batch, .id = id};
    return move_some(ledger, retry, &moving, ret_count, err);
}

/* --- the worker ------------------------------------------------------------------------------ */
struct committing {
    const struct kiln_commit *commits;
    size_t count, upto; /* the connection breaks before this one */
    bool *ours;
};

static void commit(void *arg)
{
    struct committing *committing = arg;
    for (size_t i = 0; i < committing->upto; i++) {
        committing->ours[i] = sim_tables_commit(&sim_fleet.tables, &committing->commits[i]);
        if (sim_on_commit)
            sim_on_commit(&committing->commits[i], committing->ours[i]);
    }
}

int kiln_ledger_commit_many(struct kiln_ledger *ledger, const struct kiln_commit *commits,
                            size_t count, bool *ret_ours, struct kiln_error *err)
{
    struct committing committing = {commits, count, count, ret_ours};
    if (sim_chance(sim_fleet.cut_pipeline))
        committing.upto = sim_below((uint32_t)count);
    int rc = sim_ledger_run(ledger, commit, &committing, err);
    if (rc == 0 && committing.upto < count) {
        sim_ledger_drop(ledger);
        rc = kiln_fail(err, KILN_UNAVAILABLE, "Postgres: the connection was lost");
    }
    return rc;
}

int kiln_ledger_commit(struct kiln_ledger *ledger, const struct kiln_commit *one, bool *ret_ours,
                       struct kiln_error *err)
{
    return kiln_ledger_commit_many(ledger, one, 1, ret_ours, err);
}

struct asking {
    const struct kiln_job *jobs;
    size_t count;
    bool *ours;
};

static void ask_ours(void *arg)
{
    struct asking *asking = arg;
    for (size_t i = 0; i < asking->count; i++)
        asking->ours[i] =
            sim_tables_still_ours(&sim_fleet.tables, asking->jobs[i].id, asking->jobs[i].attempt);
}

int kiln_ledger_still_ours(struct kiln_ledger *ledger, const struct kiln_job *jobs, size_t count,
                           bool *ret_ours, struct kiln_error *err)
{
    struct asking asking = {jobs, count, ret_ours};
    return sim_ledger_run(ledger, ask_ours, &asking, err);
}

int kiln_ledger_worker_seen(struct kiln_ledger *ledger, const char *pool, const char *worker,
                            const char *host, const char *device, const char *state,
                            const char *trouble, struct kiln_error *err)
{
    (void)pool;
    (void)host;
    (void)device;
    (void)trouble;
    sim_log("the ledger hears that %s is %s", worker, state);
    return sim_ledger_run(ledger, sim_ledger_nothing, NULL, err);
}

int kiln_ledger_worker_lost(struct kiln_ledger *ledger, const char *pool, const char *worker,
                            uint64_t silent_ms, struct kiln_error *err)
{
    (void)pool;
    (void)worker;
    (void)silent_ms;
    return sim_ledger_run(ledger, sim_ledger_nothing, NULL, err);
}

/* --- reading --------------------------------------------------------------------------------- */
struct progress {
    const struct sim_batch *batch;
    struct kiln_progress *ret;
};

static void read_progress(void *arg)
{
    struct progress *progress = arg;
    sim_tables_progress(&sim_fleet.tables, progress->batch, progress->ret);
}

/* A run takes no days. */
int kiln_ledger_forget(struct kiln_ledger *ledger, const char *pool, uint32_t keep_days,
                       uint64_t *cursor, uint64_t *ret_forgotten, bool *ret_more,
                       struct kiln_error *err)
{
    (void)ledger, (void)pool, (void)keep_days, (void)cursor, (void)err;
    *ret_forgotten = 0;
    *ret_more = false;
    return 0;
}

int kiln_ledger_progress(struct kiln_ledger *ledger, const char *pool, const char *batch,
                         struct kiln_progress *ret, struct kiln_error *err)
{
    struct sim_batch *found = NULL;
    int rc = find_batch(ledger, pool, batch, false, &found, err);
    struct progress progress = {found, ret};
    return rc ? rc : sim_ledger_run(ledger, read_progress, &progress, err);
}

struct count {
    const char *pool;
    struct kiln_counts *ret;
};

static void count_rows(void *arg)
{
    struct count *count = arg;
    *count->ret = (struct kiln_counts){{0}};
    for (size_t i = 0; i < sim_fleet.tables.row_count; i++) {
        const struct sim_row *row = sim_fleet.tables.rows[i];
        if (row && strcmp(row->pool, count->pool) == 0)
            count->ret->at[row->job.state]++;
    }
}

int kiln_ledger_counts(struct kiln_ledger *ledger, const char *pool, struct kiln_counts *ret,
                       struct kiln_error *err)
{
    struct count count = {pool, ret};
    return sim_ledger_run(ledger, count_rows, &count, err);
}

int kiln_ledger_refusal_ends(struct kiln_ledger *ledger, const char *pool, const char *batch,
                             const char *token, struct kiln_refusal_ends *ret,
                             struct kiln_error *err)
{
    struct sim_batch *found = NULL;
    int rc = find_batch(ledger, pool, batch, false, &found, err);
    *ret = (struct kiln_refusal_ends){0};
    for (size_t i = 0; rc == 0 && i < sim_fleet.tables.refusal_count; i++) {
        const struct sim_refusal *at = &sim_fleet.tables.refusals[i];
        if (at->batch_id != found->id || strcmp(at->token, token) != 0)
            continue;
        if (!ret->first_key[0]) {
            snprintf(ret->first_key, sizeof ret->first_key, "%s", at->key);
            snprintf(ret->reason, sizeof ret->reason, "%s", at->reason);
        }
        snprintf(ret->last_key, sizeof ret->last_key, "%s", at->key);
    }
    return rc;
}

static void read_clock(void *arg)
{
    *(int64_t *)arg = sim_ledger_ms();
}

int kiln_ledger_clock(struct kiln_ledger *ledger, int64_t *ret_ms, char *version, size_t size,
                      struct kiln_error *err)
{
    snprintf(version, size, "simulated");
    return sim_ledger_run(ledger, read_clock, ret_ms, err);
}
