/* doctor.c - `kiln doctor`: looks at everything the settings name and says what to do.
 *
 * Every check is a function that adds one or more findings; none stops the others.  A finding is
 * ok, a warning (works, but look at it) or bad (jobs will not run).  Exit code 0 without bad
 * findings, else 1.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/shown.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "schemas/clock.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/migrate.h"
#include "storage/ledger/upkeep/garbage.h"
#include "storage/objects/store.h"

#define EVENTS_FIRST 100       /* among which the scheduler's mark is */
#define EVENTS_UNTRIMMED 50000 /* fewer were never cut by the stream's cap */
#define HISTORY_SLACK_MS 5000  /* Redis' clock and Postgres' */
#define HISTORY_TOLD_MS (24LL * 3600 * 1000)

#define JOBS_SAMPLED 12

#define OK KILN_FINDING_OK
#define WARNING KILN_FINDING_WARNING
#define BAD KILN_FINDING_BAD
#define find kiln_find

void kiln_find(struct kiln_doctor *doctor, const char *what, enum kiln_finding verdict,
               const char *todo, const char *fmt, ...)
{
    static const char *const names[] = {"ok", "warning", "bad"};
    char text[KILN_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if ((int)verdict > doctor->worst)
        doctor->worst = (int)verdict;
    json_array_append_new(doctor->findings,
                          json_pack("{s:s, s:s, s:s, s:s}", "check", what, "verdict",
                                    names[verdict], "found", text, "do", todo));
    if (doctor->cli->json)
        return;
    static const char *const colors[] = {"\033[32m", "\033[33m", "\033[31m"};
    bool color = doctor->cli->color_out;
    printf("%s%-8s%s ", color ? colors[verdict] : "", names[verdict], color ? "\033[0m" : "");
    kiln_print_line("%-10s %s", what, text); /* names of workers, keys and batches are in it */
    if (todo[0])
        kiln_print_line("%20s-> %s", "", todo);
}

/* --- settings --------------------------------------------------------------------------------- */

/* Settings that do not parse leave defaults in force: the other checks then say what those lead
 * to. */
static void check_config(struct kiln_doctor *doctor)
{
    const struct kiln_cli *cli = doctor->cli;
    if (cli->config_error.code)
        find(doctor, "settings", BAD, "correct it; `kiln help config` lists the settings", "%s",
             cli->config_error.text);
    else if (cli->config_path)
        find(doctor, "settings", OK, "", "read from %s", cli->config_path);
    else
        find(doctor, "settings", WARNING,
             "`kiln up` makes a stack with settings here; --config FILE names others",
             "no settings file was found: defaults and environment alone");
    find(doctor, "version", OK, "", "kiln %s, schema %d", KILN_VERSION, kiln_migrate_version());
}

static void check_model(struct kiln_doctor *doctor)
{
    const struct kiln_config *config = doctor->cli->config;
    const char *model = kiln_config_text(config, KILN_KEY_MODEL);
    if (strcmp(kiln_config_text(config, KILN_KEY_ENGINE), "testcard") == 0) {
        find(doctor, "model", WARNING, "set engine = pipeline to draw pictures",
             "the engine is testcard: every picture is a test card");
        return;
    }
    if (strcmp(kiln_config_text(config, KILN_KEY_ENGINE), "random") == 0)
        find(doctor, "engine", WARNING, "set engine = pipeline to draw pictures",
             "the engine is random: every picture is noise");
    if (!model[0]) {
        find(doctor, "model", BAD, "set model = DIR, a directory in the diffusers layout",
             "no model is configured");
        return;
    }
    kiln_doctor_model(doctor, model);
}

/* --- servers ---------------------------------------------------------------------------------- */

/* Reachable, and whether intake keeps up. */
static void check_redis(struct kiln_doctor *doctor)
{
    const char *url = kiln_config_text(doctor->cli->config, KILN_KEY_REDIS);
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    char key[256];
    uint64_t waiting = 0;
    kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), "intake", NULL);
    int rc = kiln_open_bus(doctor->cli, &bus, &err);
    if (rc == 0)
        rc = kiln_bus_length(bus, key, &waiting, &err);
    kiln_bus_close(bus);
    if (rc)
        find(doctor, "redis", BAD,
             rc == KILN_FULL ? KILN_MAKE_ROOM
                             : "start it (`kiln up` for a stack of your own), or set redis",
             "%s", err.text);
    else
        find(doctor, "redis", OK, "", "%s answers; %llu lines wait for intake", url,
             (unsigned long long)waiting);
}

/* The scheduler's mark, first in a stream that it made anew itself. */
static bool is_remade(const struct kiln_bus_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        for (size_t f = 0; f < entries->at[i].field_count; f++)
            if (strcmp(entries->at[i].fields[2 * f], KILN_WIRE_REMADE) == 0)
                return true;
    return false;
}

/* When the stream of events began; 0: cannot be told, since its oldest entries were trimmed. */
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
    *ret_remade = rc == 0 && is_remade(&entries);
    if (rc == 0)
        *ret_ms = length >= EVENTS_UNTRIMMED ? 0
                  : entries.count            ? strtoll(entries.at[0].id, NULL, 10)
                                             : kiln_wall_ms();
    kiln_bus_close(bus);
    return rc;
}

/* Keeps the end of the first job and stops the walk. */
static int keep_first(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    *(int64_t *)arg = row->finished_ms;
    return kiln_fail(err, KILN_CANCELLED, "enough");
}

/* Events that begin after jobs were done have lost their beginning: Redis was emptied since, and
 * the scheduler went on from the ledger; or the scheduler made the stream anew.  Told for a day. */
static void check_history(struct kiln_doctor *doctor)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    int64_t began_ms = 0, done_ms = 0, now_ms = kiln_wall_ms();
    char since[32];
    bool remade = false;
    if (kiln_open_ledger(doctor->cli, &ledger, &err))
        return; /* the server that is at fault has its own finding */
    int rc = kiln_ledger_jobs(ledger, kiln_pool(doctor->cli), NULL, KILN_JOB_DONE, keep_first,
                              &done_ms, &err);
    kiln_ledger_close(ledger);
    if ((rc && rc != KILN_CANCELLED) || done_ms == 0 ||
        events_began(doctor, &began_ms, &remade, &err))
        return;
    if (began_ms <= done_ms + HISTORY_SLACK_MS || began_ms <= now_ms - HISTORY_TOLD_MS)
        return;
    kiln_time_text(began_ms, since, sizeof since);
    if (remade)
        find(doctor, "history", WARNING,
             "no job is lost; see who else writes to this Redis: schemas/bus.md, \"Keys\"",
             "the scheduler made the stream of events anew at %s: another program had spoilt it",
             since);
    else
        find(doctor, "history", WARNING,
             "nothing, if that was meant; else let Redis keep its data (appendonly yes, "
             "maxmemory-policy noeviction)",
             "Redis was emptied or replaced before %s; the fleet goes on from the ledger", since);
}

/* Theirs must lie between our readings before and after; what is outside is skew. */
static void check_clock(struct kiln_doctor *doctor, struct kiln_ledger *ledger)
{
    struct kiln_error err;
    int64_t theirs = 0, before = kiln_wall_ms();
    char version[64];
    int rc = kiln_ledger_clock(ledger, &theirs, version, sizeof version, &err);
    if (rc) {
        find(doctor, "clock", BAD, "", "%s", err.text);
        return;
    }
    int64_t after = kiln_wall_ms(), skew = theirs < before  ? before - theirs
                                           : theirs > after ? theirs - after
                                                            : 0;
    enum kiln_finding verdict = skew >= KILN_SKEW_BAD_MS       ? BAD
                                : skew >= KILN_SKEW_WARNING_MS ? WARNING
                                                               : OK;
    find(doctor, "clock", verdict, verdict == OK ? "" : "synchronise the clocks (chrony, ntpd)",
         "this machine and Postgres differ by %lld ms", (long long)skew);
    find(doctor, "postgres", OK, "", "Postgres %s answers", version);
}

/* The dry run of a migration connects, authenticates and compares versions: one answer for
 * three. */
static void check_postgres(struct kiln_doctor *doctor)
{
    struct kiln_error err;
    int from = 0, to = 0;
    if (kiln_migrate(doctor->cli->config, true, &from, &to, &err)) {
        find(doctor, "postgres", BAD,
             "start it (`kiln up` for a stack of your own), or set postgres", "%s", err.text);
        return;
    }
    if (from != to) {
        find(doctor, "schema", BAD, "run `kiln migrate`",
             "the database has version %d, this program "
             "needs %d",
             from, to);
        return;
    }
    find(doctor, "schema", OK, "", "version %d", from);
    struct kiln_ledger *ledger = NULL;
    bool led = false;
    int rc = kiln_open_ledger(doctor->cli, &ledger, &err);
    if (rc == 0) {
        check_clock(doctor, ledger);
        rc = kiln_ledger_led(ledger, kiln_pool(doctor->cli), &led, &err);
    }
    kiln_ledger_close(ledger);
    if (rc)
        find(doctor, "scheduler", BAD, "", "%s", err.text);
    else if (!led)
        find(doctor, "scheduler", BAD, "start kiln-scheduler (`kiln up` for a stack of your own)",
             "none leads pool %s", kiln_pool(doctor->cli));
    else
        find(doctor, "scheduler", OK, "", "one leads pool %s", kiln_pool(doctor->cli));
}

/* Old ones still work as long as the protocol has one version. */
static void check_workers(struct kiln_doctor *doctor)
{
    struct kiln_roster roster;
    struct kiln_error err;
    if (kiln_roster_load(doctor->cli, &roster, &err))
        return; /* the server that is at fault has its own finding */
    size_t old = 0, other = 0;
    for (size_t i = 0; i < roster.count; i++) {
        const struct kiln_heartbeat *beat = &roster.at[i].beat;
        old += roster.at[i].live && beat->version != KILN_WIRE_VERSION;
        other += roster.at[i].live && strcmp(beat->release, KILN_VERSION) != 0;
    }
    if (roster.live == 0)
        find(doctor, "workers", BAD,
             "start kiln-worker (`kiln up --workers N` for a stack of your own)", "none is alive");
    else if (old)
        find(doctor, "workers", WARNING, "restart the workers with this version",
             "%zu of %zu speak another version of the bus protocol", old, roster.live);
    else if (other)
        find(doctor, "workers", WARNING,
             "finish the upgrade: `kiln workers --json` names each release",
             "%zu of %zu are of another release than this program; they work together", other,
             roster.live);
    else
        find(doctor, "workers", OK, "", "%zu alive", roster.live);
    kiln_roster_release(&roster);
}

/* Without settings the default names a directory that nobody has asked for. */
bool kiln_doctor_has_store(const struct kiln_doctor *doctor)
{
    return strcmp(kiln_config_origin(doctor->cli->config, KILN_KEY_STORE), "default") != 0;
}

/* A probe writes, reads and removes an object: rights are not guessed from a listing. */
static void check_store(struct kiln_doctor *doctor)
{
    const char *url = kiln_config_text(doctor->cli->config, KILN_KEY_STORE);
    struct kiln_store *store = NULL;
    struct kiln_error err;
    if (!kiln_doctor_has_store(doctor)) {
        find(doctor, "store", WARNING, "set store = file:///DIR or s3://BUCKET/PREFIX",
             "none is configured; nothing was tried at the default, %s", url);
        return;
    }
    int rc = kiln_store_open(doctor->cli->config, &store, &err);
    if (rc == 0)
        rc = kiln_store_probe(store, &err);
    kiln_store_close(store);
    if (rc) {
        find(doctor, "store", BAD,
             rc == KILN_FULL ? KILN_MAKE_ROOM
                             : "check store, s3_endpoint, the credentials and the rights",
             "%s", err.text);
        return;
    }
    find(doctor, "store", OK, "", "%s takes, gives and removes objects", url);
    if (strncmp(url, "file://", 7) == 0)
        kiln_doctor_room(doctor, "disk", url + 7);
}

/* What a sample of object rows has come to. */
struct sample {
    struct kiln_store *store;
    uint64_t looked, missing;
    char first[KILN_OBJECT_KEY_MAX + 1]; /* one that is missing */
};

static int look_for_object(void *arg, uint64_t job, const char *key, uint64_t bytes,
                           struct kiln_error *err)
{
    struct sample *sample = arg;
    uint64_t size = 0;
    (void)job;
    int rc = kiln_store_head(sample->store, key, &size, err);
    if (rc && rc != KILN_NOT_FOUND)
        return rc;
    sample->looked++;
    if (rc == KILN_NOT_FOUND || size != bytes) {
        sample->missing++;
        snprintf(sample->first, sizeof sample->first, "%s", key);
    }
    return 0;
}

/* A row without its object must not exist: a sample, taken at random over all jobs. */
static void check_objects(struct kiln_doctor *doctor)
{
    struct sample sample = {0};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    if (!kiln_doctor_has_store(doctor) || kiln_open_ledger(doctor->cli, &ledger, &err))
        return; /* what is at fault has its own finding */
    int rc = kiln_store_open(doctor->cli->config, &sample.store, &err);
    if (rc == 0)
        rc = kiln_ledger_sample_objects(ledger, JOBS_SAMPLED, look_for_object, &sample, &err);
    kiln_store_close(sample.store);
    kiln_ledger_close(ledger);
    if (rc == KILN_DENIED) /* a key that may only put */
        find(doctor, "objects", WARNING, "look with a key that may read", "%s", err.text);
    else if (sample.missing)
        find(doctor, "objects", BAD,
             "see that store is the ledger's own and what else removes from it; restore a backup",
             "%llu of %llu objects of the ledger are not in the store as it says, such as %s",
             (unsigned long long)sample.missing, (unsigned long long)sample.looked, sample.first);
    else if (rc == 0 && sample.looked)
        find(doctor, "objects", OK, "", "%llu of the ledger's, taken at random, are in the store",
             (unsigned long long)sample.looked);
}

int kiln_verb_doctor(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status)
        return status;
    struct kiln_doctor doctor = {.cli = cli, .findings = json_array()};
    check_config(&doctor);
    check_redis(&doctor);
    kiln_doctor_bus(&doctor);
    kiln_doctor_intake(&doctor);
    check_postgres(&doctor);
    check_history(&doctor);
    check_store(&doctor);
    if (kiln_arg(&args, "full"))
        kiln_doctor_objects(&doctor);
    else
        check_objects(&doctor);
    check_model(&doctor);
    kiln_doctor_device(&doctor);
    check_workers(&doctor);
    kiln_doctor_needs(&doctor);
    kiln_doctor_crew(&doctor);
    kiln_doctor_ledger(&doctor, kiln_arg(&args, "fix") != NULL);
    kiln_doctor_files(&doctor, kiln_arg(&args, "fix") != NULL);
    if (cli->json)
        status = kiln_print_json(cli, json_pack("{s:b, s:O}", "healthy", doctor.worst < BAD,
                                                "findings", doctor.findings));
    json_decref(doctor.findings);
    return doctor.worst == BAD ? 1 : status;
}
