/* doctor_bus.c - `kiln doctor` on Redis: rights, memory, streams, the intake; the disks of both
 * servers.
 *
 * A user with few rights sees less; that is a warning, not a fault of the fleet.  A disk is checked
 * only if its server runs on this machine.  The server names its directory, or it is the working
 * directory of the server's process.
 *
 * While a page cannot be taken in, the scheduler appends its reason to the stream `blocked` every
 * few seconds; afterwards it deletes that stream.  An old entry is from a scheduler that no longer
 * runs.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "schemas/clock.h"
#include "schemas/wire/wire.h"
#include "storage/bus/acl.h"
#include "storage/bus/doctor.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/upkeep/doctor.h"

#define NEARLY_FULL 0.9
#define RENEW_USERS "run `kiln migrate --roles --secrets DIR`: it grants each Redis user its rights"
#define FRESH_MS 30000
#define AHEAD_MS 60000               /* by how much the clock of Redis may be set back */
#define TOLD_MS (24 * 3600 * 1000LL) /* how long an entry that was set aside is reported */

/* --- rights ----------------------------------------------------------------------------------- */

static const char *const abilities[KILN_BUS_ABILITIES] = {
    "schedule", "render as a worker", "send control messages", "read", "enqueue"};

/* What the user of each name is for: the two that only read share an ability. */
static const int purposes[KILN_BUS_USER_COUNT] = {KILN_BUS_SCHEDULES, KILN_BUS_RENDERS,
                                                  KILN_BUS_OPERATES,  KILN_BUS_READS,
                                                  KILN_BUS_READS,     KILN_BUS_ENQUEUES};

static void check_rights(struct kiln_doctor *doctor, struct kiln_bus *bus)
{
    struct kiln_bus_rights rights;
    struct kiln_error err;
    char may[128] = "";
    int known = 0; /* its place among the names; KILN_BUS_USER_COUNT: not a user of ours */
    int rc = kiln_bus_rights(bus, kiln_pool(doctor->cli), &rights, &err);
    if (rc == KILN_DENIED) /* a user of an older release */
        kiln_finding(doctor, "redis-user", VERDICT_WARNING, RENEW_USERS,
                     "the rights of our Redis user are unknown: %s", err.text);
    if (rc)
        return;
    while (known < KILN_BUS_USER_COUNT && strcmp(rights.user, kiln_bus_user_names[known]) != 0)
        known++;
    int meant = known < KILN_BUS_USER_COUNT ? purposes[known] : -1;
    for (int i = 0; i < KILN_BUS_ABILITIES; i++) {
        if (rights.lacks[i][0]) {
            kiln_finding(doctor, "redis-user", VERDICT_BAD, RENEW_USERS,
                         "Redis user %s may %s, but not use %s", rights.user, abilities[i],
                         rights.lacks[i]);
            return;
        }
        size_t used = strlen(may);
        if (rights.able[i])
            snprintf(may + used, sizeof may - used, "%s%s", used ? ", " : "", abilities[i]);
    }
    if (!may[0] || (meant >= 0 && !rights.able[meant]))
        kiln_finding(doctor, "redis-user", VERDICT_BAD, RENEW_USERS, "Redis user %s may not %s",
                     rights.user, may[0] ? abilities[meant] : "do anything that Kiln needs");
    else
        kiln_finding(doctor, "redis-user", VERDICT_OK, "", "Redis user %s may %s", rights.user,
                     may);
}

/* --- memory and persistence ------------------------------------------------------------------ */

/* A key that Redis evicts is a heartbeat or a batch that was never taken in. */
static void check_memory(struct kiln_doctor *doctor, const struct kiln_bus_state *state)
{
    char used[32], max[32] = "no limit";
    bool evicts = strcmp(state->policy, "noeviction") != 0;
    kiln_bytes_text((double)state->used, used, sizeof used);
    if (state->max)
        kiln_bytes_text((double)state->max, max, sizeof max);
    if (evicts)
        kiln_finding(
            doctor, "memory", state->max ? VERDICT_BAD : VERDICT_WARNING,
            "set maxmemory-policy noeviction, in redis.conf and with `redis-cli config set`",
            "Redis evicts keys when its memory is full (%s, %s of %s)", state->policy, used, max);
    else if (state->max && (double)state->used > NEARLY_FULL * (double)state->max)
        kiln_finding(doctor, "memory", state->used >= state->max ? VERDICT_BAD : VERDICT_WARNING,
                     "raise maxmemory, or see why the intake lags: `kiln status`",
                     "Redis uses %s of %s; when that is full, it refuses new jobs", used, max);
    else
        kiln_finding(doctor, "memory", VERDICT_OK, "", "Redis %s uses %s (%s) and evicts nothing",
                     state->version, used, max);
}

static void check_persistence(struct kiln_doctor *doctor, const struct kiln_bus_state *state)
{
    if (!state->aof)
        kiln_finding(
            doctor, "aof", VERDICT_WARNING,
            "set appendonly yes, in redis.conf and with `redis-cli config set`",
            "Redis has no append-only file: if it stops, lines in the intake stream are lost");
    else if (state->aof_failed)
        kiln_finding(
            doctor, "aof", VERDICT_BAD,
            "read the log of Redis, free space on its disk, then run `redis-cli bgrewriteaof`",
            "Redis could not write its append-only file");
    else
        kiln_finding(doctor, "aof", VERDICT_OK, "", "Redis keeps an append-only file");
    if (state->save_failed)
        kiln_finding(doctor, "snapshot", VERDICT_BAD,
                     "read the log of Redis, free space on its disk, then run `redis-cli bgsave`",
                     "the last snapshot of Redis failed; with stop-writes-on-bgsave-error it "
                     "refuses writes");
}

/* --- disks ------------------------------------------------------------------------------------ */

/* The working directory of a process of that program; "" if we may not see it. */
static void working_dir(long pid, const char *program, char out[PATH_MAX])
{
    char path[64], name[64] = "";
    out[0] = '\0';
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    bool ours = fgets(name, sizeof name, file) && strncmp(name, program, strlen(program)) == 0;
    fclose(file);
    snprintf(path, sizeof path, "/proc/%ld/cwd", pid);
    ssize_t len = ours ? readlink(path, out, PATH_MAX - 1) : -1;
    out[len > 0 ? len : 0] = '\0';
}

static void check_postgres_disk(struct kiln_doctor *doctor)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_ledger_site site;
    struct kiln_error err;
    char dir[PATH_MAX];
    if (kiln_open_ledger(doctor->cli, &ledger, &err)) /* kiln_reader may not know the directory */
        return;
    int rc = kiln_ledger_site(ledger, &site, &err);
    if (rc == 0 && site.local) {
        working_dir(site.pid, "postgres", dir); /* a session's: as long as it lasts */
        if (site.dir[0] || dir[0])
            kiln_doctor_room(doctor, "pg-disk", site.dir[0] ? site.dir : dir);
    }
    kiln_ledger_close(ledger);
}

/* Whether the scheduler's own streams accept entries.  A running scheduler that may DEL keys makes
 * a damaged one anew, so this finds something only without such a scheduler. */
static void check_streams(struct kiln_doctor *doctor, struct kiln_bus *bus)
{
    static const char *const parts[] = {"control", "events", "refused", "blocked"};
    bool checked = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct kiln_error err;
        char key[KILN_NAME_MAX + 64], last[48] = "";
        kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), parts[i], NULL);
        int rc = kiln_bus_last_id(bus, key, last, sizeof last, &err);
        const char *trouble = rc == 0 && kiln_wire_last_id(last)
                                  ? "has used up its ids and accepts no more entries"
                              : kiln_bus_refusal(bus) == KILN_BUS_WRONG_TYPE
                                  ? "is not a stream: another program uses its name"
                                  : NULL;
        checked = checked || rc == 0;
        if (!trouble)
            continue;
        kiln_finding(doctor, "streams", VERDICT_BAD,
                     strcmp(parts[i], "refused") == 0
                         ? "run a scheduler that may delete keys: it makes the stream anew, "
                           "without what was set "
                           "aside before; find out which other program writes to this Redis"
                         : "run a scheduler that may delete keys, or delete this key yourself; "
                           "nothing is lost",
                     "%s %s", key, trouble);
        checked = false;
        break;
    }
    if (checked)
        kiln_finding(doctor, "streams", VERDICT_OK, "",
                     "control, events and the other streams of the scheduler accept entries");
}

void kiln_doctor_bus(struct kiln_doctor *doctor)
{
    struct kiln_bus *bus = NULL;
    struct kiln_bus_state state;
    struct kiln_error err;
    char dir[PATH_MAX];
    /* Without a ping, which a Redis that cannot write refuses. */
    int rc = kiln_bus_open(doctor->cli->config, &bus, &err);
    if (rc == 0)
        rc = kiln_bus_state(bus, &state, &err);
    if (rc == 0 || rc == KILN_DENIED) {
        check_rights(doctor, bus);
        check_streams(doctor, bus);
    }
    if (rc == 0) {
        check_memory(doctor, &state);
        check_persistence(doctor, &state);
        if (state.local)
            working_dir(state.pid, "redis", dir);
        if (state.local && (dir[0] || kiln_bus_dir(bus, dir, sizeof dir, &err) == 0))
            kiln_doctor_room(doctor, "redis-disk", dir);
    } else if (rc == KILN_DENIED) {
        kiln_finding(doctor, "memory", VERDICT_WARNING,
                     "run kiln doctor as kiln_operator, kiln_reader or an administrator of Redis",
                     "the memory policy of Redis is unknown: %s", err.text);
    }
    kiln_bus_close(bus);
    check_postgres_disk(doctor);
}

/* --- the intake and its neighbours `blocked` and `refused` -------------------------------------
 */

/* Borrowed until the next reading; NULL without one. */
static const struct kiln_bus_entry *newest(struct kiln_doctor *doctor, struct kiln_bus *bus,
                                           const char *part, struct kiln_bus_entries *entries)
{
    char key[KILN_NAME_MAX + 64];
    const struct kiln_bus_entry *entry;
    kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), part, NULL);
    return kiln_bus_newest(bus, key, entries, &entry, NULL) ? NULL : entry;
}

/* How long ago by the clock of Redis, which made the id. */
static int64_t age_of(const struct kiln_bus_entry *entry, int64_t now_ms)
{
    unsigned long long ms = strtoull(entry->id, NULL, 10);
    return now_ms - (ms < INT64_MAX ? (int64_t)ms : INT64_MAX);
}

/* Redis makes the ids of the scheduler's entries.  So an id ahead of its clock is from another
 * program, and the ids after it say nothing about their age either. */
static bool is_forged(struct kiln_doctor *doctor, const char *part,
                      const struct kiln_bus_entry *entry, int64_t now_ms)
{
    char key[KILN_NAME_MAX + 64], id[64];
    if (age_of(entry, now_ms) >= -AHEAD_MS)
        return false;
    kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), part, NULL);
    kiln_finding(
        doctor, strcmp(part, "refused") == 0 ? "refused" : "intake", VERDICT_WARNING,
        "look at it with `XRANGE`, then delete the key with `redis-cli DEL`: the scheduler "
        "makes it anew; find out which other program writes to this Redis",
        "%s has an entry of another program, %s, with a time in the future; the age of the "
        "other entries is unknown",
        key, kiln_safe_line(entry->id, id, sizeof id));
    return true;
}

static bool check_blocked(struct kiln_doctor *doctor, struct kiln_bus *bus, int64_t now_ms)
{
    struct kiln_bus_entries entries = {0};
    const struct kiln_bus_entry *entry = newest(doctor, bus, "blocked", &entries);
    if (!entry || age_of(entry, now_ms) > FRESH_MS)
        return false;
    if (is_forged(doctor, "blocked", entry, now_ms))
        return true;
    char error[KILN_ERROR_TEXT_MAX];
    double waited_s;
    kiln_intake_blocked(bus, kiln_pool(doctor->cli), now_ms, error, sizeof error, &waited_s);
    kiln_finding(doctor, "intake", VERDICT_BAD,
                 "fix the cause; nothing is lost, the lines stay in the stream",
                 "the intake has been blocked for %.0f s: %s", waited_s, error);
    return true;
}

/* After the largest possible id Redis refuses every entry, until the stream is made anew. */
static bool check_exhausted(struct kiln_doctor *doctor, struct kiln_bus *bus)
{
    char key[KILN_NAME_MAX + 64];
    uint64_t length = 0;
    kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), "intake", NULL);
    if (kiln_bus_look(bus, key, NULL) == 0 || kiln_bus_refusal(bus) != KILN_BUS_EXHAUSTED ||
        kiln_bus_length(bus, key, &length, NULL))
        return false;
    kiln_finding(
        doctor, "intake", VERDICT_BAD,
        "check that a scheduler leads: it makes the stream anew as soon as all lines are "
        "taken in; then enqueue again what was refused",
        "another program used up the ids of the intake stream: it accepts no more lines and "
        "holds %s",
        KILN_COUNT(length, "line"));
    return true;
}

static void check_refused(struct kiln_doctor *doctor, struct kiln_bus *bus, int64_t now_ms)
{
    char key[KILN_NAME_MAX + 64];
    uint64_t count = 0;
    struct kiln_bus_entries entries = {0};
    const struct kiln_bus_entry *last = newest(doctor, bus, "refused", &entries);
    kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), "refused", NULL);
    if (!last || age_of(last, now_ms) > TOLD_MS || is_forged(doctor, "refused", last, now_ms))
        return;
    struct kiln_error err;
    char reason[256], batch[KILN_BATCH_NAME_MAX + 1];
    kiln_safe_line(kiln_bus_field(last, "reason"), reason, sizeof reason);
    snprintf(batch, sizeof batch, "%s", kiln_bus_field(last, "batch"));
    if (kiln_bus_length(bus, key, &count, &err) == 0)
        kiln_finding(doctor, "refused", VERDICT_WARNING,
                     "look at them with `redis-cli XREVRANGE`, and enqueue again what was good: "
                     "schemas/bus.md, \"Set aside\"",
                     "%llu %s set aside, the last one within a day%s%s: %s",
                     (unsigned long long)count, count == 1 ? "entry was" : "entries were",
                     batch[0] ? ", of batch " : "", batch, reason);
}

void kiln_doctor_intake(struct kiln_doctor *doctor)
{
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    int64_t now_ms = kiln_wall_ms();
    if (kiln_open_bus(doctor->cli, &bus, &err))
        return;
    (void)!kiln_bus_time(bus, &now_ms, &err);
    bool blocked = check_blocked(doctor, bus, now_ms), full = check_exhausted(doctor, bus);
    if (!blocked && !full)
        kiln_finding(doctor, "intake", VERDICT_OK, "", "the intake is not blocked");
    check_refused(doctor, bus, now_ms);
    kiln_bus_close(bus);
}
