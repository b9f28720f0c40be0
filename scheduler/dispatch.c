/* dispatch.c - picks of the policy become assignments: first in the ledger, then on the bus.
 *
 * Several at a time: the ledger waits for the disk once for a round, not once for each.  None is
 * sent to its worker before the disk has them all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/telemetry/log.h"

#define PICKS_A_STEP 64

struct round {
    struct kiln_policy_pick picks[KILN_NEW_ASSIGNMENTS_MAX];
    struct kiln_new_assignment wanted[KILN_NEW_ASSIGNMENTS_MAX];
    char ids[KILN_NEW_ASSIGNMENTS_MAX][KILN_WIRE_ID_MAX + 1];
    size_t count;
    bool bus_away;
};

/* The last look for a donor of this job of the pick; outdated if it found one. */
static const struct kiln_reuse_look *missed(const struct kiln_policy_pick *pick, uint64_t job)
{
    for (uint32_t i = 0; i < pick->count; i++)
        if (pick->ids[i] == job)
            return &pick->looks[i];
    return NULL;
}

/* Chooses the stored latents from which jobs begin, and notes them, so that they are not evicted
 * meanwhile.  Without the note the jobs run in full. */
static void choose_donors(struct kiln_leader *leader, const struct kiln_policy_pick *pick,
                          const char *id, uint32_t minor, struct kiln_job *jobs, size_t count)
{
    uint64_t donors[KILN_ASSIGN_MAX];
    bool there[KILN_ASSIGN_MAX] = {false};
    size_t at[KILN_ASSIGN_MAX], n = 0;
    struct kiln_error err;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].attempt != 1) /* a retried job runs in full: a bad donor cannot fail it twice */
            continue;
        jobs[i].donor = kiln_cache_take(leader->cache, &jobs[i], missed(pick, jobs[i].id),
                                        minor < KILN_MODE_MINOR_DONORS_COARSE);
        if (jobs[i].donor.job) {
            at[n] = i;
            donors[n++] = jobs[i].donor.job;
        }
    }
    if (n == 0)
        return;
    if (kiln_ledger_note_donors(leader->ledger, leader->pool, id, donors, n, there, &err) != 0)
        kiln_log(KILN_LOG_WARNING, "donors_not_noted", kiln_f("assignment", "%s", id),
                 kiln_f("error", "%s", err.text), kiln_f("effect", "its jobs run in full"));
    for (size_t i = 0; i < n; i++)
        if (!there[i])
            jobs[at[i]].donor = (struct kiln_donor){0};
}

/* The jobs differ in the steps they have left at most, so size, mode and set of the first one are
 * those of all. */
static int send(struct kiln_leader *leader, const struct kiln_policy_pick *pick, const char *id,
                struct kiln_job *jobs, size_t count, struct kiln_error *err)
{
    const struct kiln_member *member = kiln_fleet_find(leader, pick->worker);
    /* Its reader of lines does not know the key.  The picture's row then says that it is exact. */
    for (size_t i = 0; i < count && member && member->minor < KILN_MODE_MINOR_STARTS; i++)
        if (jobs[i].mode.kind == KILN_MODE_COARSE_AUTO)
            jobs[i].mode = (struct kiln_mode){.kind = KILN_MODE_EXACT};
    if (member && member->minor >= KILN_MODE_MINOR_DONORS)
        choose_donors(leader, pick, id, member->minor, jobs, count);
    struct kiln_assignment assignment = {.width = jobs[0].width,
                                         .height = jobs[0].height,
                                         .steps = jobs[0].steps,
                                         .mode = jobs[0].mode,
                                         .lora_count = jobs[0].lora_count,
                                         .jobs = jobs,
                                         .job_count = (uint32_t)count};
    snprintf(assignment.id, sizeof(assignment.id), "%s", id);
    snprintf(assignment.model, sizeof(assignment.model), "%s", jobs[0].model ? jobs[0].model : "");
    memcpy(assignment.loras, jobs[0].loras, sizeof(assignment.loras));
    char *text = kiln_assignment_encode(&assignment);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an assignment");
    int rc = kiln_stream_send(leader, pick->worker, "assign", text, err);
    free(text);
    return rc;
}

/* The scheduler does not know which of these runs begin from their donors, so what each cost. */
static bool has_donors(const struct kiln_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i].donor.job)
            return true;
    return false;
}

/* Whether the jobs begin at different steps, so that one call of the engine cannot serve all. */
static bool is_mixed(const struct kiln_job *jobs, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (jobs[i].donor.step != jobs[0].donor.step)
            return true;
    return false;
}

static void remember(struct kiln_leader *leader, const struct kiln_policy_pick *pick,
                     const char *id, const struct kiln_job *jobs, size_t count, int64_t now_ms)
{
    struct kiln_member *member = kiln_fleet_get(leader, pick->worker);
    struct kiln_assigned *assigned = member ? kiln_fleet_add(member, id, now_ms) : NULL;
    if (!assigned) /* reconciliation finds it by the ledger and the heartbeats */
        return;
    assigned->tag = pick->tag;
    assigned->in_flight = true;
    assigned->width = has_donors(jobs, count) ? 0 : jobs[0].width; /* 0: nothing is learned */
    assigned->height = jobs[0].height;
    assigned->steps = jobs[0].steps;
    assigned->guidance = jobs[0].guidance;
    assigned->load = pick->load;
    assigned->first_of_size = pick->first_of_size;
    snprintf(assigned->model, sizeof(assigned->model), "%s", jobs[0].model ? jobs[0].model : "");
    kiln_mode_text(&jobs[0].mode, assigned->mode);
    kiln_lora_set_key(jobs[0].loras, jobs[0].lora_count, assigned->lora_set,
                      sizeof(assigned->lora_set));
    assigned->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        assigned->jobs[i] = jobs[i].id;
        assigned->attempts[i] = jobs[i].attempt;
        assigned->open[i] = true;
    }
}

/* The bus did not take it: its jobs return to the queue at once, uncounted.  If it did get through
 * after all, the fence makes the worker's commit void. */
static int return_unsent(struct kiln_leader *leader, const struct kiln_policy_pick *pick,
                         const struct kiln_job *jobs, size_t count, struct kiln_error *err)
{
    struct kiln_return returns[KILN_ASSIGN_MAX];
    int states[KILN_ASSIGN_MAX];
    for (size_t i = 0; i < count; i++)
        returns[i] = (struct kiln_return){.id = jobs[i].id,
                                          .attempt = jobs[i].attempt,
                                          .code = KILN_OK,
                                          .reason = "the bus did not take the assignment"};
    kiln_metric_add(KILN_METRIC_JOBS_RETURNED, KILN_CAUSE_UNSENT, count);
    kiln_policy_release(leader->policy, pick->worker, pick->tag);
    int rc = kiln_ledger_return(leader->ledger, returns, count, states, err);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = kiln_load_one(leader, jobs[i].id, err);
    return rc;
}

/* What the ledger has assigned goes to its worker.  During an outage of the bus it returns, and the
 * outage ends the round; a worker whose stream alone takes nothing is blocked. */
static int send_one(struct kiln_leader *leader, struct round *round, size_t at, int64_t now_ms,
                    struct kiln_error *err)
{
    const struct kiln_policy_pick *pick = &round->picks[at];
    const struct kiln_new_assignment *want = &round->wanted[at];
    struct kiln_member *member = kiln_fleet_find(leader, pick->worker);
    struct kiln_error why;
    int rc = 0;
    if (want->given == 0) {
        kiln_policy_release(leader->policy, pick->worker, pick->tag);
    } else if (round->bus_away || (member && member->blocked_until_ms > 0)) {
        rc = return_unsent(leader, pick, want->jobs, want->given, err);
    } else if (send(leader, pick, want->assignment, want->jobs, want->given, &why)) {
        if (member && kiln_bus_refusal(leader->bus) != KILN_BUS_NOT_REFUSED) {
            kiln_log_limited(&leader->limits[KILN_LIMIT_KEY], "worker_unreachable", pick->worker,
                             why.text);
            kiln_fleet_block(leader, member, now_ms);
        } else {
            kiln_log(KILN_LOG_WARNING, "assignment_unsent", kiln_f("error", "%s", why.text));
            round->bus_away = true;
        }
        rc = return_unsent(leader, pick, want->jobs, want->given, err);
    } else {
        remember(leader, pick, want->assignment, want->jobs, want->given, now_ms);
        kiln_metric_add(KILN_METRIC_ASSIGNMENTS, pick->rule, 1);
        kiln_metric_add(KILN_METRIC_SWITCHES, pick->load, 1);
        kiln_metric_observe(KILN_METRIC_ASSIGNMENT_JOBS, 0, (double)want->given);
        kiln_metric_add(KILN_METRIC_MIXED_JOBS, 0,
                        is_mixed(want->jobs, want->given) ? want->given : 0);
        kiln_log(KILN_LOG_DEBUG, "assigned", kiln_f("assignment", "%s", want->assignment),
                 kiln_f("worker", "%s", pick->worker), kiln_f("jobs", "%zu", want->given),
                 kiln_f("rule", "%s", kiln_policy_rule_name(pick->rule)),
                 kiln_f("expected_s", "%.3f", pick->compute_s + pick->switch_s));
    }
    /* Jobs that the ledger did not assign: locked at that moment, or waiting no more. */
    for (uint32_t i = 0; i < pick->count && rc == 0 && want->given < pick->count; i++) {
        bool given = false;
        for (size_t k = 0; k < want->given; k++)
            given = given || want->jobs[k].id == pick->ids[i];
        if (!given)
            rc = kiln_load_one(leader, pick->ids[i], err);
    }
    return rc;
}

/* A few picks, with memory for their jobs. */
static int pick_some(struct kiln_leader *leader, struct round *round, int64_t now_ms,
                     struct kiln_job **ret_jobs, struct kiln_error *err)
{
    size_t jobs = 0;
    *round = (struct round){0};
    *ret_jobs = NULL;
    while (round->count < KILN_NEW_ASSIGNMENTS_MAX &&
           kiln_policy_pick(leader->policy, now_ms, &round->picks[round->count]))
        jobs += round->picks[round->count++].count;
    struct kiln_job *records = jobs ? calloc(jobs, sizeof *records) : NULL;
    if (jobs && !records)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for assignments");
    *ret_jobs = records;
    for (size_t i = 0; i < round->count; i++) {
        const struct kiln_policy_pick *pick = &round->picks[i];
        snprintf(round->ids[i], sizeof round->ids[i], "%s-%llu", leader->session,
                 (unsigned long long)pick->tag);
        round->wanted[i] = (struct kiln_new_assignment){.worker = pick->worker,
                                                        .assignment = round->ids[i],
                                                        .ids = pick->ids,
                                                        .count = pick->count,
                                                        .jobs = records};
        records += pick->count;
    }
    return 0;
}

static int assign(struct kiln_leader *leader, struct round *round, int64_t now_ms,
                  struct kiln_error *err)
{
    int rc = kiln_ledger_assign_many(leader->ledger, round->wanted, round->count, err);
    for (size_t i = 0; i < round->count; i++) {
        rc = rc ? rc : send_one(leader, round, i, now_ms, err);
        for (size_t k = 0; k < round->wanted[i].given; k++)
            kiln_job_release(&round->wanted[i].jobs[k]);
    }
    return rc;
}

/* --- taking back ------------------------------------------------------------------------------ */
/* An assignment that is ahead at a busy worker returns to the queue for an idle one. */
static int take_back_ahead(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    struct kiln_policy_taken_back taken;
    if (!kiln_policy_take_back(leader->policy, now_ms, &taken))
        return 0;
    struct kiln_member *member = kiln_fleet_find(leader, taken.worker);
    struct kiln_assigned *assigned = NULL;
    for (uint32_t i = 0; member && i < member->assignment_count; i++)
        if (member->assignments[i]->tag == taken.tag)
            assigned = member->assignments[i];
    /* Only if the worker's heartbeat says what it renders, and that it is not this. */
    if (!assigned || !assigned->in_flight || assigned->lost || member->running[0] == '\0' ||
        strcmp(member->running, assigned->id) == 0)
        return 0;
    kiln_log(KILN_LOG_INFO, "taken_back", kiln_f("assignment", "%s", assigned->id),
             kiln_f("worker", "%s", member->name), kiln_f("gain_s", "%.1f", taken.gain_s));
    leader->busy = true;
    return kiln_take_back(leader, member, assigned, "taken back for an idle worker",
                          KILN_CAUSE_TAKEN_BACK, err);
}

/* --- a step ---------------------------------------------------------------------------------- */
int kiln_dispatch(struct kiln_leader *leader, int64_t now_ms, struct kiln_error *err)
{
    struct round round = {0};
    struct kiln_job *jobs;
    for (size_t given = 0; given < PICKS_A_STEP && !round.bus_away; given += round.count) {
        int rc = pick_some(leader, &round, now_ms, &jobs, err);
        rc = rc ? rc : assign(leader, &round, now_ms, err);
        free(jobs);
        if (rc)
            return rc;
        if (round.count == 0)
            return take_back_ahead(leader, now_ms, err);
    }
    leader->busy = !round.bus_away;
    return 0;
}
