/* doctor_bus.c - what `kiln doctor` asks Redis of itself, and the disks under both servers.
 *
 * A user of least rights is shown what it may see and told who sees more; that is no fault of the
 * fleet.  Where a server writes is looked at on its own machine alone: through what it says, or
 * through its process, whose working directory it is.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/upkeep/doctor.h"
#include "schemas/wire.h"
#include "storage/bus/acl.h"
#include "storage/bus/doctor.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/upkeep/doctor.h"

#define NEARLY_FULL 0.9
#define RENEW_USERS "`kiln migrate --roles --secrets DIR` gives each Redis user its rights again"

/* --- rights ----------------------------------------------------------------------------------- */

static const char *const abilities[KILN_BUS_ABILITIES] = {"schedule", "draw as a worker",
                                                          "give orders", "read", "enqueue"};

/* What a user of that name is for; KILN_BUS_ABILITIES: it is none of ours. */
static enum kiln_bus_ability ability_of(const char *user)
{
    int i = 0;
    while (i < KILN_BUS_USER_COUNT && strcmp(user, kiln_bus_user_names[i]) != 0)
        i++;
    return i < KILN_BUS_USER_COUNT ? (enum kiln_bus_ability)i : KILN_BUS_ABILITIES;
}

static void tell_rights(struct kiln_doctor *doctor, const struct kiln_bus_rights *rights)
{
    char may[128] = "";
    enum kiln_bus_ability meant = ability_of(rights->user);
    for (int i = 0; i < KILN_BUS_ABILITIES; i++) {
        if (rights->lacks[i][0]) {
            kiln_find(doctor, "redis-user", KILN_FINDING_BAD, RENEW_USERS,
                      "Redis user %s may %s, but not %s", rights->user, abilities[i],
                      rights->lacks[i]);
            return;
        }
        size_t used = strlen(may);
        if (rights->able[i])
            snprintf(may + used, sizeof may - used, "%s%s", used ? ", " : "", abilities[i]);
    }
    if (!may[0] || (meant < KILN_BUS_ABILITIES && !rights->able[meant]))
        kiln_find(doctor, "redis-user", KILN_FINDING_BAD, RENEW_USERS, "Redis user %s may not %s",
                  rights->user, may[0] ? abilities[meant] : "do anything that Kiln does");
    else
        kiln_find(doctor, "redis-user", KILN_FINDING_OK, "", "Redis user %s may %s", rights->user,
                  may);
}

static void check_rights(struct kiln_doctor *doctor, struct kiln_bus *bus)
{
    struct kiln_bus_rights rights;
    struct kiln_error err;
    int rc = kiln_bus_rights(bus, kiln_pool(doctor->cli), &rights, &err);
    if (rc == 0)
        tell_rights(doctor, &rights);
    else if (rc == KILN_DENIED) /* a user of an older release */
        kiln_find(doctor, "redis-user", KILN_FINDING_WARNING, RENEW_USERS,
                  "what our Redis user may do cannot be told: %s", err.text);
}

/* --- memory and what is kept ------------------------------------------------------------------ */

/* A key that Redis throws away is a heartbeat or a batch that was never taken in. */
static void check_memory(struct kiln_doctor *doctor, const struct kiln_bus_state *state)
{
    char used[32], max[32] = "no limit";
    bool evicts = strcmp(state->policy, "noeviction") != 0;
    kiln_bytes_text((double)state->used, used, sizeof used);
    if (state->max)
        kiln_bytes_text((double)state->max, max, sizeof max);
    if (evicts)
        kiln_find(doctor, "memory", state->max ? KILN_FINDING_BAD : KILN_FINDING_WARNING,
                  "set maxmemory-policy noeviction in redis.conf, and with `redis-cli config set`",
                  "Redis throws keys away when its memory is short (%s, %s of %s)", state->policy,
                  used, max);
    else if (state->max && (double)state->used > NEARLY_FULL * (double)state->max)
        kiln_find(doctor, "memory",
                  state->used >= state->max ? KILN_FINDING_BAD : KILN_FINDING_WARNING,
                  "give it more (maxmemory), or see why intake lags: `kiln status`",
                  "Redis uses %s of %s; at the end of it enqueueing is refused", used, max);
    else
        kiln_find(doctor, "memory", KILN_FINDING_OK, "",
                  "Redis %s uses %s (%s) and throws nothing away", state->version, used, max);
}

static void check_kept(struct kiln_doctor *doctor, const struct kiln_bus_state *state)
{
    if (!state->aof)
        kiln_find(doctor, "aof", KILN_FINDING_WARNING,
                  "set appendonly yes in redis.conf, and with `redis-cli config set`",
                  "Redis keeps no log of what comes: lines that wait for intake go with it");
    else if (state->aof_failed)
        kiln_find(doctor, "aof", KILN_FINDING_BAD,
                  "look at Redis' log; make room where it writes, then `redis-cli bgrewriteaof`",
                  "Redis could not write its append-only file");
    else
        kiln_find(doctor, "aof", KILN_FINDING_OK, "", "Redis keeps an append-only file");
    if (state->save_failed)
        kiln_find(doctor, "snapshot", KILN_FINDING_BAD,
                  "look at Redis' log; make room where it writes, then `redis-cli bgsave`",
                  "Redis' last snapshot failed; with stop-writes-on-bgsave-error it takes nothing");
}

/* --- disks ------------------------------------------------------------------------------------ */

/* The working directory of a process of that program, "" if it cannot be seen. */
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

static void check_redis_disk(struct kiln_doctor *doctor, struct kiln_bus *bus,
                             const struct kiln_bus_state *state)
{
    char dir[PATH_MAX];
    struct kiln_error err;
    if (!state->local)
        return;
    working_dir(state->pid, "redis", dir);
    if (dir[0] || kiln_bus_dir(bus, dir, sizeof dir, &err) == 0)
        kiln_doctor_room(doctor, "redis-disk", dir);
}

static void check_postgres_disk(struct kiln_doctor *doctor)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_ledger_site site;
    struct kiln_error err;
    char dir[PATH_MAX];
    if (kiln_open_ledger(doctor->cli, &ledger, &err))
        return; /* it has its own finding */
    int rc = kiln_ledger_site(ledger, &site, &err);
    if (rc == 0 && site.local) {
        working_dir(site.pid, "postgres", dir); /* a session's: as long as it lasts */
        if (site.dir[0] || dir[0])
            kiln_doctor_room(doctor, "pg-disk", site.dir[0] ? site.dir : dir);
    }
    kiln_ledger_close(ledger);
}

/* Whether the scheduler's own streams are streams that take entries.  What another program has put
 * there the scheduler deletes, if it may, so this is seen while none runs or where it lacks DEL. */
static void check_streams(struct kiln_doctor *doctor, struct kiln_bus *bus)
{
    static const char *const parts[] = {"control", "events", "refused", "blocked"};
    bool looked = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct kiln_error err;
        char key[KILN_NAME_MAX + 64], last[48] = "";
        kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), parts[i], NULL);
        int rc = kiln_bus_last_id(bus, key, last, sizeof last, &err);
        const char *trouble = rc == 0 && kiln_wire_last_id(last)
                                  ? "is at the end of its ids and takes no more entries"
                              : kiln_bus_refusal(bus) == KILN_BUS_WRONG_TYPE
                                  ? "is not a stream: another program has used its name"
                                  : NULL;
        looked = looked || rc == 0;
        if (!trouble)
            continue;
        kiln_find(
            doctor, "streams", KILN_FINDING_BAD,
            strcmp(parts[i], "refused") == 0
                ? "see that a scheduler runs and may delete keys: it makes the stream anew, "
                  "without what was set aside before; see who else writes to this Redis"
                : "see that a scheduler runs and may delete keys, or delete this one yourself; "
                  "nothing is lost by it",
            "%s %s", key, trouble);
        looked = false;
        break;
    }
    if (looked)
        kiln_find(doctor, "streams", KILN_FINDING_OK, "",
                  "control, events and what is set aside take entries");
}

void kiln_doctor_bus(struct kiln_doctor *doctor)
{
    struct kiln_bus *bus = NULL;
    struct kiln_bus_state state;
    struct kiln_error err;
    /* Not by a ping, which a Redis that cannot write refuses. */
    int rc = kiln_bus_open(doctor->cli->config, &bus, &err);
    if (rc == 0)
        rc = kiln_bus_state(bus, &state, &err);
    if (rc == 0 || rc == KILN_DENIED)
        check_rights(doctor, bus);
    if (rc == 0 || rc == KILN_DENIED)
        check_streams(doctor, bus);
    if (rc == 0) {
        check_memory(doctor, &state);
        check_kept(doctor, &state);
        check_redis_disk(doctor, bus, &state);
    } else if (rc == KILN_DENIED) {
        kiln_find(doctor, "memory", KILN_FINDING_WARNING,
                  "look as kiln_operator, kiln_reader or an administrator of Redis",
                  "what Redis does when memory is short cannot be told: %s", err.text);
    }
    kiln_bus_close(bus);
    check_postgres_disk(doctor);
}
