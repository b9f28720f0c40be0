/* doctor_fleet.c - what `kiln doctor` asks ledger, bus and store about each other.
 *
 * A lease is orphaned when a job is assigned and no heartbeat has named its assignment for longer
 * than any lease lasts.  A scheduler that leads finds such jobs by itself; --fix does the same by
 * the same call (the attempt fences it), and only where no scheduler leads: two would get into each
 * other's way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/upkeep/backup.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/upkeep/backup.h"
#include "storage/ledger/upkeep/doctor.h"

#define SILENT_S 600 /* lines of one call come within seconds */
#define LEASES 3     /* orphaned is what nobody has named for so many */
#define RETURN_PAGE 500

/* --- rights ----------------------------------------------------------------------------------- */

static void check_rights(struct kiln_doctor *doctor, struct kiln_ledger *ledger)
{
    struct kiln_rights rights;
    struct kiln_error err;
    if (kiln_ledger_rights(ledger, &rights, &err))
        kiln_find(doctor, "rights", KILN_FINDING_BAD, "", "%s", err.text);
    else if (!rights.read)
        kiln_find(doctor, "rights", KILN_FINDING_BAD,
                  "`kiln migrate --roles` as the owner grants each role its rights",
                  "database user %s may not read jobs", rights.user);
    else
        kiln_find(doctor, "rights", KILN_FINDING_OK, "", "database user %s may read%s%s%s",
                  rights.user, rights.take_in ? ", take jobs in" : "",
                  rights.move ? ", move them" : "", rights.schema ? ", change the schema" : "");
}

/* --- leases ----------------------------------------------------------------------------------- */

struct leases {
    const struct kiln_roster *roster;
    int64_t older_ms; /* assigned before this */
    uint64_t held, orphans;
    struct kiln_return returns[RETURN_PAGE];
    size_t count;
    char first[KILN_NAME_MAX + 1]; /* worker of one of them */
};

static bool is_named(const struct kiln_roster *roster, const struct kiln_held *held)
{
    const struct kiln_roster_worker *worker = kiln_roster_find(roster, held->worker);
    for (uint32_t i = 0; worker && worker->live && i < worker->beat.held_count; i++)
        if (strcmp(worker->beat.held[i], held->assignment) == 0)
            return true;
    return false;
}

static int see_held(void *arg, const struct kiln_held *held)
{
    struct leases *leases = arg;
    leases->held++;
    if (held->assigned_ms > leases->older_ms || is_named(leases->roster, held))
        return 0;
    if (leases->orphans++ == 0)
        snprintf(leases->first, sizeof leases->first, "%s", held->worker);
    if (leases->count < RETURN_PAGE)
        leases->returns[leases->count++] =
            (struct kiln_return){.id = held->id,
                                 .attempt = held->attempt,
                                 .code = KILN_STALE,
                                 .reason = "no worker held it any more (kiln doctor --fix)"};
    return 0;
}

/* Gives them back if nobody leads; how many went. */
static int give_back(struct kiln_doctor *doctor, struct kiln_ledger *ledger, struct leases *leases,
                     uint64_t *ret_given, bool *ret_led, struct kiln_error *err)
{
    int states[RETURN_PAGE];
    bool leader = false;
    int rc = kiln_ledger_lead(ledger, kiln_pool(doctor->cli), &leader, err);
    *ret_led = rc == 0 && !leader;
    *ret_given = 0;
    if (rc || !leader)
        return rc;
    rc = kiln_ledger_return(ledger, leases->returns, leases->count, states, err);
    for (size_t i = 0; rc == 0 && i < leases->count; i++)
        *ret_given += states[i] >= 0;
    return rc;
}

static void tell_orphans(struct kiln_doctor *doctor, struct kiln_ledger *ledger,
                         struct leases *leases, bool fix)
{
    struct kiln_error err;
    uint64_t given = 0;
    bool led = false;
    int rc = fix ? give_back(doctor, ledger, leases, &given, &led, &err) : 0;
    if (rc)
        kiln_find(doctor, "leases", KILN_FINDING_BAD, "", "%s", err.text);
    else if (given)
        kiln_find(doctor, "leases", KILN_FINDING_OK, "",
                  "%llu jobs that no worker held are queued again%s", (unsigned long long)given,
                  given < leases->orphans ? "; run it again for the rest" : "");
    else
        kiln_find(doctor, "leases", KILN_FINDING_BAD,
                  led ? "its scheduler should give them back: see its log, and start it again"
                      : "start a scheduler; without one, `kiln doctor --fix` gives them back",
                  "%llu of %llu assigned jobs are held by no worker, such as those of %s",
                  (unsigned long long)leases->orphans, (unsigned long long)leases->held,
                  leases->first);
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
        return; /* without the bus nobody can say who holds what; it has its own finding */
    }
    double lease_s = kiln_config_number(doctor->cli->config, KILN_KEY_LEASE_S);
    int rc = kiln_ledger_clock(ledger, &now_ms, version, sizeof version, &err);
    leases->roster = &roster;
    leases->older_ms = now_ms - (int64_t)(LEASES * lease_s * 1000);
    if (rc == 0)
        rc = kiln_ledger_held(ledger, kiln_pool(doctor->cli), see_held, leases, &err);
    if (rc == KILN_DENIED) /* it also forgets assignments that are over, which a reader may not */
        kiln_find(doctor, "leases", KILN_FINDING_WARNING, "look as kiln_operator or the owner",
                  "%s", err.text);
    else if (rc)
        kiln_find(doctor, "leases", KILN_FINDING_BAD, "", "%s", err.text);
    else if (leases->orphans)
        tell_orphans(doctor, ledger, leases, fix);
    else
        kiln_find(doctor, "leases", KILN_FINDING_OK, "", "%llu assigned jobs, each with its worker",
                  (unsigned long long)leases->held);
    kiln_roster_release(&roster);
    free(leases);
}

/* --- batches ---------------------------------------------------------------------------------- */

struct stuck {
    uint64_t count, announced, come;
    char batch[KILN_BATCH_NAME_MAX + 1]; /* the one that is silent longest */
};

static int see_stuck(void *arg, const struct kiln_stuck_row *row, struct kiln_error *err)
{
    struct stuck *stuck = arg;
    (void)err;
    if (stuck->count++ == 0) {
        snprintf(stuck->batch, sizeof stuck->batch, "%s", row->batch);
        stuck->announced = row->announced;
        stuck->come = row->come;
    }
    return 0;
}

static void check_batches(struct kiln_doctor *doctor, struct kiln_ledger *ledger)
{
    struct stuck stuck = {0};
    struct kiln_error err;
    char of[32] = "lines that were never counted";
    if (kiln_ledger_stuck(ledger, kiln_pool(doctor->cli), SILENT_S, see_stuck, &stuck, &err)) {
        kiln_find(doctor, "batches", KILN_FINDING_BAD, "", "%s", err.text);
        return;
    }
    if (stuck.announced)
        snprintf(of, sizeof of, "%llu lines", (unsigned long long)stuck.announced);
    if (stuck.count)
        kiln_find(doctor, "batches", KILN_FINDING_WARNING,
                  "send the file again: `kiln enqueue FILE --batch NAME` adds only what is missing",
                  "%llu enqueue calls never ended, such as one of batch %s: %llu of %s came",
                  (unsigned long long)stuck.count, stuck.batch, (unsigned long long)stuck.come, of);
}

void kiln_doctor_ledger(struct kiln_doctor *doctor, bool fix)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    if (kiln_open_ledger(doctor->cli, &ledger, &err))
        return; /* it has its own finding */
    check_rights(doctor, ledger);
    check_leases(doctor, ledger, fix);
    check_batches(doctor, ledger);
    kiln_ledger_close(ledger);
}

/* --- objects ---------------------------------------------------------------------------------- */

struct wrong {
    char first[KILN_OBJECT_KEY_MAX + 1];
};

static int see_wrong(void *arg, const char *what, const struct kiln_manifest_entry *entry,
                     struct kiln_error *err)
{
    struct wrong *wrong = arg;
    (void)what, (void)err;
    if (!wrong->first[0])
        snprintf(wrong->first, sizeof wrong->first, "%s", entry->key);
    return 0;
}

/* The list of one snapshot, so that pictures of this very moment are not missed. */
static int compare(struct kiln_compare *pass, uint64_t *ret_bytes, struct kiln_error *err)
{
    struct kiln_snapshot *snapshot = NULL;
    struct kiln_snapshot_facts facts;
    uint64_t objects = 0;
    int rc = kiln_snapshot_open(pass->cli->config, &snapshot, &facts, err);
    if (rc == 0)
        rc = kiln_manifest_write(snapshot, pass->manifest, &objects, ret_bytes, err);
    kiln_snapshot_close(snapshot);
    if (rc == 0)
        rc = kiln_store_open(pass->cli->config, &pass->store, err);
    if (rc == 0)
        rc = kiln_store_compare(pass, err);
    kiln_store_close(pass->store);
    return rc;
}

void kiln_doctor_objects(struct kiln_doctor *doctor)
{
    struct wrong wrong = {""};
    struct kiln_error err = {0};
    struct kiln_compare pass = {
        .cli = doctor->cli, .manifest = tmpfile(), .each = see_wrong, .arg = &wrong};
    uint64_t bytes = 0;
    char text[32];
    if (!kiln_doctor_has_store(doctor) || !pass.manifest) {
        if (pass.manifest)
            fclose(pass.manifest);
        return;
    }
    int rc = compare(&pass, &bytes, &err);
    fclose(pass.manifest);
    if (rc)
        kiln_find(doctor, "objects", rc == KILN_DENIED ? KILN_FINDING_WARNING : KILN_FINDING_BAD,
                  "look with a key that may list and read", "%s", err.text);
    else if (pass.missing + pass.differ)
        kiln_find(
            doctor, "objects", KILN_FINDING_BAD,
            "see that store is the ledger's own and what else removes from it; copy them back "
            "from a copy of the store",
            "%llu of %llu objects are missing, %llu are of another size, such as %s",
            (unsigned long long)pass.missing, (unsigned long long)pass.looked,
            (unsigned long long)pass.differ, wrong.first);
    else
        kiln_find(doctor, "objects", KILN_FINDING_OK, "",
                  "all %llu of the ledger's (%s) are in the store, and %llu more",
                  (unsigned long long)pass.looked,
                  kiln_bytes_text((double)bytes, text, sizeof text),
                  (unsigned long long)pass.extra);
}
