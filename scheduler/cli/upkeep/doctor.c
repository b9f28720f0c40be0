/* doctor.c - `kiln doctor`: checks everything that the settings name and says what to do.
 *
 * Each check adds one or more findings, and none stops the others.  The exit code is 1 if a finding
 * is bad, else 0.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "schemas/clock.h"
#include "storage/bus/bus.h"
#include "storage/ledger/migrate.h"
#include "storage/ledger/read/reader.h"

#define EVENTS_FIRST 100       /* among which is the scheduler's mark of a stream made anew */
#define EVENTS_UNTRIMMED 50000 /* a shorter stream still has its first entry */
#define HISTORY_SLACK_MS 5000  /* the clocks of Redis and of Postgres */
#define HISTORY_TOLD_MS (24LL * 3600 * 1000)

/* --- settings --------------------------------------------------------------------------------- */

/* Settings that do not parse leave the defaults in force; the other checks then use those. */
static void check_config(struct kiln_doctor *doctor)
{
    const struct kiln_cli *cli = doctor->cli;
    if (cli->config_error.code)
        kiln_finding(doctor, "settings", VERDICT_BAD,
                     "correct the setting; `kiln help config` lists all of them", "%s",
                     cli->config_error.text);
    else if (cli->config_path)
        kiln_finding(doctor, "settings", VERDICT_OK, "", "read from %s", cli->config_path);
    else
        kiln_finding(doctor, "settings", VERDICT_WARNING,
                     "start a private stack here with `kiln up`, or name a file with --config FILE",
                     "found no settings file; using the defaults and the environment");
    kiln_finding(doctor, "version", VERDICT_OK, "", "kiln %s, schema %d", KILN_VERSION,
                 kiln_migrate_version());
}

/* --- servers ---------------------------------------------------------------------------------- */

static void check_redis(struct kiln_doctor *doctor)
{
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    char key[256];
    uint64_t lines = 0;
    kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), "intake", NULL);
    int rc = kiln_open_bus(doctor->cli, &bus, &err);
    if (rc == 0)
        rc = kiln_bus_length(bus, key, &lines, &err);
    kiln_bus_close(bus);
    if (rc)
        kiln_finding(doctor, "redis", VERDICT_BAD,
                     rc == KILN_FULL     ? KILN_FREE_SPACE
                     : rc == KILN_DENIED ? "run kiln doctor with the settings of a user who may "
                                           "connect, as in --config "
                                           "/etc/kiln/secrets/kiln_operator.conf"
                                         : "start Redis (a private stack: `kiln up`), or correct "
                                           "the setting redis",
                     "%s", err.text);
    else
        kiln_finding(doctor, "redis", VERDICT_OK, "", "%s answers; %s in the intake stream",
                     kiln_config_text(doctor->cli->config, KILN_KEY_REDIS),
                     KILN_COUNT(lines, "line"));
}

/* When the stream of events began; 0: unknown, because its oldest entries were trimmed. */
static int events_began(struct kiln_doctor *doctor, int64_t *ret_ms, bool *ret_remade,
                        struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    struct kiln_bus_entries entries = {0};
    char key[256];
    const char *stream = key, *start = "0";
    uint64_t length = 0;
    kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), "events", NULL);
    int rc = kiln_open_bus(doctor->cli, &bus, err);
    if (rc == 0)
        rc = kiln_bus_length(bus, key, &length, err);
    if (rc == 0)
        rc = kiln_bus_read(bus, &stream, &start, 1, EVENTS_FIRST, 0, &entries, err);
    *ret_remade = false; /* then the scheduler's mark is among the first entries */
    for (size_t i = 0; rc == 0 && i < entries.count; i++)
        for (size_t f = 0; f < entries.at[i].field_count; f++)
            *ret_remade |= strcmp(entries.at[i].fields[2 * f], KILN_WIRE_REMADE) == 0;
    if (rc == 0)
        *ret_ms = length >= EVENTS_UNTRIMMED ? 0
                  : entries.count            ? strtoll(entries.at[0].id, NULL, 10)
                                             : kiln_wall_ms();
    kiln_bus_close(bus);
    return rc;
}

/* Keeps when the first job ended, and stops the walk. */
static int keep_first(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    *(int64_t *)arg = row->finished_ms;
    return kiln_fail(err, KILN_CANCELLED, "enough");
}

/* Whether the stream of events is younger than the first picture: then Redis was emptied since, and
 * the scheduler continued from the ledger, or the scheduler made the stream anew.  Said for a day.
 */
static void check_history(struct kiln_doctor *doctor)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    int64_t began_ms = 0, done_ms = 0, now_ms = kiln_wall_ms();
    char since[32];
    bool remade = false;
    if (kiln_doctor_ask(doctor, &ledger, &err))
        return;
    int rc = kiln_ledger_jobs(ledger, kiln_pool(doctor->cli), NULL, KILN_JOB_DONE, keep_first,
                              &done_ms, &err);
    kiln_reader_give(doctor->reader, ledger);
    if ((rc && rc != KILN_CANCELLED) || done_ms == 0 ||
        events_began(doctor, &began_ms, &remade, &err))
        return;
    if (began_ms <= done_ms + HISTORY_SLACK_MS || began_ms <= now_ms - HISTORY_TOLD_MS)
        return;
    kiln_time_text(began_ms, since, sizeof since);
    if (remade)
        kiln_finding(
            doctor, "history", VERDICT_WARNING,
            "no job is lost; find out which other program writes to this Redis: "
            "schemas/bus.md, \"Keys\"",
            "the scheduler made the stream of events anew at %s, after another program had "
            "damaged it",
            since);
    else
        kiln_finding(doctor, "history", VERDICT_WARNING,
                     "if that was not intended, let Redis keep its data (appendonly yes, "
                     "maxmemory-policy noeviction)",
                     "Redis was emptied or replaced before %s; the fleet continues from the ledger",
                     since);
}

/* The database's time must lie between ours before and after the question; the rest is skew. */
static void check_clock(struct kiln_doctor *doctor, struct kiln_ledger *ledger)
{
    struct kiln_error err;
    int64_t theirs = 0, before = kiln_wall_ms();
    char version[64];
    if (kiln_ledger_clock(ledger, &theirs, version, sizeof version, &err)) {
        kiln_finding(doctor, "clock", VERDICT_BAD, "", "%s", err.text);
        return;
    }
    int64_t after = kiln_wall_ms(), skew = theirs < before  ? before - theirs
                                           : theirs > after ? theirs - after
                                                            : 0;
    enum kiln_verdict verdict = skew >= KILN_SKEW_BAD_MS       ? VERDICT_BAD
                                : skew >= KILN_SKEW_WARNING_MS ? VERDICT_WARNING
                                                               : VERDICT_OK;
    kiln_finding(doctor, "clock", verdict,
                 verdict == VERDICT_OK ? "" : "synchronise the clocks (chrony, ntpd)",
                 "the clocks of this machine and of Postgres differ by %" PRId64 " ms", skew);
    kiln_finding(doctor, "postgres", VERDICT_OK, "", "Postgres %s answers", version);
}

/* A dry run of the migration connects, authenticates and compares versions. */
static void check_postgres(struct kiln_doctor *doctor)
{
    struct kiln_error err;
    struct kiln_ledger *ledger = NULL;
    const char *pool = kiln_pool(doctor->cli);
    struct kiln_migration look = {.dry_run = true};
    bool led = false;
    if (kiln_migrate(doctor->cli->config, &look, &err)) {
        kiln_finding(doctor, "postgres", VERDICT_BAD,
                     err.code == KILN_DENIED
                         ? "run kiln doctor with the settings of a user who may connect"
                         : "start Postgres (a private stack: `kiln up`), or correct the setting "
                           "postgres",
                     "%s", err.text);
        return;
    }
    if (look.from < kiln_migrate_needed()) {
        kiln_finding(doctor, "schema", VERDICT_BAD, "run `kiln migrate`",
                     "the database has schema version %d, this program needs %d", look.from,
                     look.to);
        return;
    }
    if (look.from < look.to)
        kiln_finding(doctor, "schema", VERDICT_WARNING, "run `kiln migrate`",
                     "version %d; indexes of version %d are not built yet", look.from, look.to);
    else
        kiln_finding(doctor, "schema", VERDICT_OK, "", "version %d", look.from);
    int rc = kiln_doctor_ask(doctor, &ledger, &err);
    if (rc == 0) {
        check_clock(doctor, ledger);
        rc = kiln_ledger_led(ledger, pool, &led, &err);
    }
    kiln_reader_give(doctor->reader, ledger);
    if (rc)
        kiln_finding(doctor, "scheduler", VERDICT_BAD, "", "%s", err.text);
    else if (!led)
        kiln_finding(doctor, "scheduler", VERDICT_BAD,
                     "start kiln-scheduler (a private stack: `kiln up`)",
                     "no scheduler leads pool %s", pool);
    else
        kiln_finding(doctor, "scheduler", VERDICT_OK, "", "a scheduler leads pool %s", pool);
}

/* A worker of another release still works as long as it speaks the same version of the protocol. */
static void check_workers(struct kiln_doctor *doctor)
{
    struct kiln_roster roster;
    struct kiln_error err;
    if (kiln_roster_load(doctor->cli, &roster, &err))
        return;
    size_t old = 0, other = 0;
    for (size_t i = 0; i < roster.count; i++) {
        const struct kiln_heartbeat *beat = &roster.at[i].beat;
        old += roster.at[i].live && beat->version != KILN_WIRE_VERSION;
        other += roster.at[i].live && strcmp(beat->release, KILN_VERSION) != 0;
    }
    const char *all = KILN_COUNT(roster.live, "live worker");
    if (roster.live == 0)
        kiln_finding(doctor, "workers", VERDICT_BAD,
                     "start kiln-worker (a private stack: `kiln up --workers N`)",
                     "there is no live worker");
    else if (old)
        kiln_finding(doctor, "workers", VERDICT_WARNING,
                     "restart them with the program of this release",
                     "%zu of %s use another version of the bus protocol and get no jobs", old, all);
    else if (other)
        kiln_finding(doctor, "workers", VERDICT_WARNING,
                     "finish the upgrade; `kiln workers --json` shows the release of each",
                     "%zu of %s %s another release than this program; both work together", other,
                     all, other == 1 ? "runs" : "run");
    else
        kiln_finding(doctor, "workers", VERDICT_OK, "", "%s", all);
    kiln_roster_release(&roster);
}

int kiln_verb_doctor(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_doctor doctor = {.cli = cli, .findings = json_array()};
    int status = 0;
    bool fix = kiln_arg(args, "fix") != NULL;
    check_config(&doctor);
    check_redis(&doctor);
    kiln_doctor_bus(&doctor);
    kiln_doctor_intake(&doctor);
    check_postgres(&doctor);
    check_history(&doctor);
    kiln_doctor_store(&doctor, kiln_arg(args, "full") != NULL);
    kiln_doctor_model(&doctor);
    kiln_doctor_device(&doctor);
    check_workers(&doctor);
    kiln_doctor_needs(&doctor);
    kiln_doctor_guard(&doctor);
    kiln_doctor_ledger(&doctor, fix);
    kiln_doctor_files(&doctor, fix);
    if (cli->json)
        status = kiln_print_json(cli, json_pack("{s:b, s:O}", "healthy", doctor.worst < VERDICT_BAD,
                                                "findings", doctor.findings));
    json_decref(doctor.findings);
    kiln_reader_close(doctor.reader);
    return doctor.worst == VERDICT_BAD ? 1 : status;
}
