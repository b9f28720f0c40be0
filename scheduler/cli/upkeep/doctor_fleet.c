/* doctor_fleet.c - `kiln doctor` on the ledger and the workers: our rights, assignments, batches;
 * pauses; what queued jobs need, and the clocks of workers.
 *
 * An assignment is orphaned if no heartbeat has named it for several leases.  The leading scheduler
 * returns such jobs by itself.  --fix makes the same call, fenced by the attempt, but only where no
 * scheduler leads, because two would disturb each other.
 *
 * A job that no worker can render does not fail.  It waits for a worker that has its model, or
 * enough memory for its size.  A job whose LoRA is missing will fail when its turn comes.
 *
 * Clocks of workers are compared with that of Redis.  A heartbeat says when it was sent: not after
 * it was read, and at most a lease before.
 */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "schemas/clock.h"
#include "schemas/names.h"
#include "storage/bus/doctor.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/reader.h"
#include "storage/ledger/upkeep/doctor.h"

#define SILENT_S 600 /* the lines of one enqueue call arrive within seconds */
#define LEASES 3     /* without a heartbeat that names the assignment */
#define RETURN_PAGE 500

/* --- rights ----------------------------------------------------------------------------------- */

static void check_rights(struct kiln_doctor *doctor, struct kiln_ledger *ledger)
{
    struct kiln_rights rights;
    struct kiln_error err;
    if (kiln_ledger_rights(ledger, &rights, &err))
        kiln_finding(doctor, "rights", VERDICT_BAD, "", "%s", err.text);
    else if (!rights.read)
        kiln_finding(doctor, "rights", VERDICT_BAD,
                     "run `kiln migrate --roles` as the owner: it grants each role its rights",
                     "database user %s may not read jobs", rights.user);
    else
        kiln_finding(doctor, "rights", VERDICT_OK, "", "database user %s may read%s%s%s",
                     rights.user, rights.take_in ? ", take jobs in" : "",
                     rights.move ? ", move them" : "", rights.schema ? ", change the schema" : "");
}

/* --- leases ----------------------------------------------------------------------------------- */

struct leases {
    const struct kiln_roster *roster;
    int64_t older_ms; /* assigned before this */
    uint64_t assigned, orphans;
    struct kiln_return returns[RETURN_PAGE];
    size_t count;
    char first[KILN_NAME_MAX + 1]; /* the worker of one of them */
};

static int check_assigned(void *arg, const struct kiln_assigned_job *held)
{
    struct leases *leases = arg;
    const struct kiln_roster_worker *worker = kiln_roster_find(leases->roster, held->worker);
    bool orphan = held->assigned_ms <= leases->older_ms;
    for (uint32_t i = 0; orphan && worker && worker->live && i < worker->beat.held_count; i++)
        orphan = strcmp(worker->beat.held[i], held->assignment) != 0;
    leases->assigned++;
    if (!orphan)
        return 0;
    if (leases->orphans++ == 0)
        snprintf(leases->first, sizeof leases->first, "%s", held->worker);
    if (leases->count < RETURN_PAGE)
        leases->returns[leases->count++] =
            (struct kiln_return){.id = held->id,
                                 .attempt = held->attempt,
                                 .code = KILN_STALE,
                                 .reason = "no worker has this job (kiln doctor --fix)"};
    return 0;
}

static void report_orphans(struct kiln_doctor *doctor, struct kiln_ledger *ledger,
                           struct leases *leases, bool fix)
{
    struct kiln_error err;
    uint64_t returned = 0;
    int states[RETURN_PAGE];
    bool leader = false;
    int rc = fix ? kiln_ledger_lead(ledger, kiln_pool(doctor->cli), &leader, &err) : 0;
    bool led = fix && rc == 0 && !leader; /* by a scheduler: that returns them */
    if (rc == 0 && leader)
        rc = kiln_ledger_return(ledger, leases->returns, leases->count, states, &err);
    for (size_t i = 0; rc == 0 && leader && i < leases->count; i++)
        returned += states[i] >= 0;
    if (rc)
        kiln_finding(doctor, "leases", VERDICT_BAD, "", "%s", err.text);
    else if (returned)
        kiln_finding(doctor, "leases", VERDICT_OK, "", "queued %s again that no worker had%s",
                     KILN_COUNT(returned, "job"),
                     returned < leases->orphans ? "; run it again for the rest" : "");
    else
        kiln_finding(doctor, "leases", VERDICT_BAD,
                     led ? "the scheduler should requeue them: read its log and restart it"
                         : "start a scheduler, or requeue them with `kiln doctor --fix`",
                     "no worker has %" PRIu64 " of %s, such as those assigned to %s",
                     leases->orphans, KILN_COUNT(leases->assigned, "assigned job"), leases->first);
}

static void check_leases(struct kiln_doctor *doctor, struct kiln_ledger *ledger, bool fix)
{
    struct kiln_roster roster;
    struct kiln_error err;
    int64_t now_ms = 0;
    char version[64];
    struct leases *leases = calloc(1, sizeof *leases);
    if (!leases || kiln_roster_load(doctor->cli, &roster, &err)) {
        free(leases);
        return; /* without heartbeats nothing is known about assignments */
    }
    double lease_s = kiln_config_number(doctor->cli->config, KILN_KEY_LEASE_S);
    int rc = kiln_ledger_clock(ledger, &now_ms, version, sizeof version, &err);
    leases->roster = &roster;
    leases->older_ms = now_ms - (int64_t)(LEASES * lease_s * 1000);
    if (rc == 0)
        rc = kiln_ledger_assigned(ledger, kiln_pool(doctor->cli), check_assigned, leases, &err);
    if (rc == KILN_DENIED) /* the call also deletes old assignments, which a reader may not */
        kiln_finding(doctor, "leases", VERDICT_WARNING,
                     "run kiln doctor as kiln_operator or the owner", "%s", err.text);
    else if (rc)
        kiln_finding(doctor, "leases", VERDICT_BAD, "", "%s", err.text);
    else if (leases->orphans)
        report_orphans(doctor, ledger, leases, fix);
    else
        kiln_finding(doctor, "leases", VERDICT_OK, "", "%s, each with a live worker",
                     KILN_COUNT(leases->assigned, "assigned job"));
    kiln_roster_release(&roster);
    free(leases);
}

/* --- batches ---------------------------------------------------------------------------------- */

struct stuck {
    uint64_t count, announced, arrived;
    char batch[KILN_BATCH_NAME_MAX + 1]; /* the one that has been silent longest */
};

static int count_stuck(void *arg, const struct kiln_stuck_row *row, struct kiln_error *err)
{
    struct stuck *stuck = arg;
    (void)err;
    if (stuck->count++ == 0) {
        snprintf(stuck->batch, sizeof stuck->batch, "%s", row->batch);
        stuck->announced = row->announced;
        stuck->arrived = row->come;
    }
    return 0;
}

static void check_batches(struct kiln_doctor *doctor, struct kiln_ledger *ledger)
{
    struct stuck stuck = {0};
    struct kiln_error err;
    if (kiln_ledger_stuck(ledger, kiln_pool(doctor->cli), SILENT_S, count_stuck, &stuck, &err)) {
        kiln_finding(doctor, "batches", VERDICT_BAD, "", "%s", err.text);
        return;
    }
    if (stuck.count)
        kiln_finding(doctor, "batches", VERDICT_WARNING,
                     "enqueue the file again under the same name: `kiln enqueue FILE --batch NAME` "
                     "adds only what is missing",
                     "%s did not end, such as one of batch %s: %" PRIu64 " of %s arrived",
                     KILN_COUNT(stuck.count, "enqueue call"), stuck.batch, stuck.arrived,
                     stuck.announced ? KILN_COUNT(stuck.announced, "line")
                                     : "an unknown number of lines");
}

/* --- pauses ----------------------------------------------------------------------------------- */

static void note_pause(void *arg, const char *text)
{
    kiln_finding(arg, "paused", VERDICT_WARNING, "", "%s", text);
}

static void check_pauses(struct kiln_doctor *doctor, struct kiln_ledger *ledger)
{
    struct kiln_error err;
    if (kiln_troubles_pauses(doctor->cli, ledger, true, note_pause, doctor, &err))
        kiln_finding(doctor, "paused", VERDICT_BAD, "", "%s", err.text);
}

void kiln_doctor_ledger(struct kiln_doctor *doctor, bool fix)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    if (kiln_open_ledger(doctor->cli, &ledger, &err)) /* our own rights, not those of kiln_reader */
        return;
    check_rights(doctor, ledger);
    check_leases(doctor, ledger, fix);
    check_batches(doctor, ledger);
    check_pauses(doctor, ledger);
    kiln_ledger_close(ledger);
}

/* --- clocks ----------------------------------------------------------------------------------- */

/* The time of Redis, or ours if our user may not ask for it. */
static int redis_time(struct kiln_bus *bus, int64_t *ret_ms, struct kiln_error *err)
{
    int rc = kiln_bus_time(bus, ret_ms, err);
    if (rc == KILN_DENIED)
        *ret_ms = kiln_wall_ms();
    return rc == KILN_DENIED ? 0 : rc;
}

static void check_clocks(struct kiln_doctor *doctor, const struct kiln_roster *roster,
                         int64_t before_ms, int64_t after_ms)
{
    int64_t lease_ms = (int64_t)(kiln_config_number(doctor->cli->config, KILN_KEY_LEASE_S) * 1000);
    int64_t worst = 0;
    const struct kiln_heartbeat *whose = NULL;
    size_t off = 0;
    for (size_t i = 0; i < roster->count; i++) {
        const struct kiln_heartbeat *beat = &roster->at[i].beat;
        /* The least that its clock is ahead; negative: behind. */
        int64_t skew = !roster->at[i].live || !beat->sent_ms ? 0
                       : beat->sent_ms > after_ms            ? beat->sent_ms - after_ms
                       : beat->sent_ms < before_ms - lease_ms
                           ? beat->sent_ms - (before_ms - lease_ms)
                           : 0;
        int64_t size = skew < 0 ? -skew : skew;
        off += size >= KILN_SKEW_WARNING_MS;
        if (size > (worst < 0 ? -worst : worst)) {
            worst = skew;
            whose = beat;
        }
    }
    int64_t size = worst < 0 ? -worst : worst;
    if (whose && size >= KILN_SKEW_WARNING_MS)
        kiln_finding(
            doctor, "clocks", size >= KILN_SKEW_BAD_MS ? VERDICT_BAD : VERDICT_WARNING,
            "synchronise the clocks of those hosts (chrony, `timedatectl set-ntp true`)",
            "the clocks of %zu of %s differ from that of Redis, most of all %s on %s: %" PRId64
            " ms %s",
            off, KILN_COUNT(roster->live, "worker"), whose->worker, whose->host, size,
            worst < 0 ? "behind" : "ahead");
    else if (roster->live)
        kiln_finding(doctor, "clocks", VERDICT_OK, "",
                     "no worker's clock differs from that of Redis");
}

/* --- needs ------------------------------------------------------------------------------------ */

struct needs {
    struct kiln_doctor *doctor;
    const struct kiln_roster *roster;
    char loras[PATH_MAX]; /* the directory of LoRAs on this machine; "": none */
};

static int check_need(void *arg, const struct kiln_need_row *row, struct kiln_error *err)
{
    const struct needs *needs = arg;
    const char *lacks = needs->roster->live ? kiln_lacks_model(needs->roster, row->model) : NULL;
    (void)err;
    if (row->model[0] && lacks)
        kiln_finding(needs->doctor, "models", VERDICT_BAD,
                     "start a worker with that model, or give up: `kiln cancel BATCH`",
                     "%s of %ux%u need model %s, such as batch %s; %s it",
                     KILN_COUNT(row->jobs, "queued job"), row->width, row->height, row->model,
                     row->batch, lacks);
    else if (row->unfit)
        kiln_finding(
            needs->doctor, "sizes", VERDICT_WARNING,
            "start a worker with more memory, or enqueue smaller pictures",
            "%" PRIu64 " of %s of %ux%u did not fit into a worker's memory, such as batch %s",
            row->unfit, KILN_COUNT(row->jobs, "queued job"), row->width, row->height, row->batch);
    return 0;
}

static int check_lora(void *arg, const char *name, uint64_t jobs, const char *batch,
                      struct kiln_error *err)
{
    const struct needs *needs = arg;
    char path[PATH_MAX + KILN_NAME_MAX + 32];
    (void)err;
    snprintf(path, sizeof path, "%s/%s.safetensors", needs->loras, name);
    if (kiln_name_valid(name, strlen(name), KILN_NAME_MAX) && access(path, F_OK) == 0)
        return 0;
    kiln_finding(needs->doctor, "loras", VERDICT_WARNING,
                 "add it with `kiln lora add`, copy it there and to the workers, or give up: "
                 "`kiln cancel BATCH`",
                 "LoRA %s is not in %s; batch %s needs it (%s in all)", name, needs->loras, batch,
                 KILN_COUNT(jobs, "queued job"));
    return 0;
}

static void check_needs(struct kiln_doctor *doctor, const struct kiln_roster *roster)
{
    struct needs needs = {.doctor = doctor, .roster = roster};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    const char *pool = kiln_pool(doctor->cli);
    kiln_config_lora_dir(doctor->cli->config, needs.loras, sizeof needs.loras);
    /* The machine of a client often has no such directory. */
    DIR *dir = needs.loras[0] ? opendir(needs.loras) : NULL;
    if (dir)
        closedir(dir);
    else
        needs.loras[0] = '\0';
    int rc = kiln_doctor_ask(doctor, &ledger, &err);
    if (rc == 0)
        rc = kiln_ledger_needs(ledger, pool, check_need, &needs, &err);
    if (rc == 0 && needs.loras[0])
        rc = kiln_ledger_needed_loras(ledger, pool, check_lora, &needs, &err);
    if (rc)
        kiln_finding(doctor, "models", VERDICT_BAD, "", "%s", err.text);
    kiln_reader_give(doctor->reader, ledger);
}

/* What workers report; the rest of trouble.h has checks of its own. */
static void check_reports(struct kiln_doctor *doctor, const struct kiln_roster *roster)
{
    struct kiln_troubles troubles;
    const struct kiln_trouble_facts facts = {
        .pool = kiln_pool(doctor->cli),
        .led = true,
        .roster = roster,
        .lease_s = kiln_config_number(doctor->cli->config, KILN_KEY_LEASE_S),
        .now_ms = kiln_wall_ms()};
    kiln_troubles_find(&facts, &troubles);
    for (size_t i = 0; i < troubles.count; i++)
        if (troubles.at[i].kind != KILN_TROUBLE_WORKERS)
            kiln_finding(doctor, kiln_trouble_name(troubles.at[i].kind), VERDICT_BAD,
                         troubles.at[i].next, "%s", troubles.at[i].text);
}

void kiln_doctor_needs(struct kiln_doctor *doctor)
{
    struct kiln_roster roster = {0};
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    int64_t before_ms = 0, after_ms = 0;
    int rc = kiln_open_bus(doctor->cli, &bus, &err);
    if (rc == 0)
        rc = redis_time(bus, &before_ms, &err);
    if (rc == 0)
        rc = kiln_roster_load(doctor->cli, &roster, &err);
    if (rc == 0)
        rc = redis_time(bus, &after_ms, &err);
    kiln_bus_close(bus);
    if (rc == 0) {
        check_clocks(doctor, &roster, before_ms, after_ms);
        check_needs(doctor, &roster);
        check_reports(doctor, &roster);
    }
    kiln_roster_release(&roster);
}
