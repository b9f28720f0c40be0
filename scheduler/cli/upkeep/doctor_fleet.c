/* doctor_fleet.c - `kiln doctor` on the ledger: our rights, its assignments, its batches.
 *
 * An assignment is orphaned if no heartbeat has named it for several leases.  The leading scheduler
 * returns such jobs by itself.  --fix makes the same call, fenced by the attempt, but only where no
 * scheduler leads, because two would disturb each other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "storage/ledger/ledger.h"
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

static bool is_alive(const struct kiln_roster *roster, const struct kiln_assigned_job *held)
{
    const struct kiln_roster_worker *worker = kiln_roster_find(roster, held->worker);
    for (uint32_t i = 0; worker && worker->live && i < worker->beat.held_count; i++)
        if (strcmp(worker->beat.held[i], held->assignment) == 0)
            return true;
    return false;
}

static int check_assigned(void *arg, const struct kiln_assigned_job *held)
{
    struct leases *leases = arg;
    leases->assigned++;
    if (held->assigned_ms > leases->older_ms || is_alive(leases->roster, held))
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

/* Returns them if no scheduler leads; *ret_returned counts those that moved. */
static int return_orphans(struct kiln_doctor *doctor, struct kiln_ledger *ledger,
                          struct leases *leases, uint64_t *ret_returned, bool *ret_led,
                          struct kiln_error *err)
{
    int states[RETURN_PAGE];
    bool leader = false;
    int rc = kiln_ledger_lead(ledger, kiln_pool(doctor->cli), &leader, err);
    *ret_led = rc == 0 && !leader;
    *ret_returned = 0;
    if (rc || !leader)
        return rc;
    rc = kiln_ledger_return(ledger, leases->returns, leases->count, states, err);
    for (size_t i = 0; rc == 0 && i < leases->count; i++)
        *ret_returned += states[i] >= 0;
    return rc;
}

static void report_orphans(struct kiln_doctor *doctor, struct kiln_ledger *ledger,
                           struct leases *leases, bool fix)
{
    struct kiln_error err;
    uint64_t returned = 0;
    bool led = false;
    int rc = fix ? return_orphans(doctor, ledger, leases, &returned, &led, &err) : 0;
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

void kiln_doctor_ledger(struct kiln_doctor *doctor, bool fix)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    if (kiln_open_ledger(doctor->cli, &ledger, &err)) /* our own rights, not those of kiln_reader */
        return;
    check_rights(doctor, ledger);
    check_leases(doctor, ledger, fix);
    check_batches(doctor, ledger);
    kiln_ledger_close(ledger);
}
