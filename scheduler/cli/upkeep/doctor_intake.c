/* doctor_intake.c - `kiln doctor` on the intake stream and on its neighbours `blocked` and
 * `refused`.
 *
 * While a page cannot be taken in, the scheduler appends its reason to `blocked` every few seconds;
 * afterwards it deletes that stream.  An old entry is from a scheduler that no longer runs.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "schemas/clock.h"
#include "schemas/wire/wire.h"
#include "storage/bus/doctor.h"

#define FRESH_MS 30000
#define AHEAD_MS 60000               /* by how much the clock of Redis may be set back */
#define TOLD_MS (24 * 3600 * 1000LL) /* how long an entry that was set aside is reported */
#define ENTRIES_MAX 1000             /* of `blocked`, which is trimmed roughly */

/* The newest entry of a stream, borrowed until the next reading; NULL without one. */
static const struct kiln_bus_entry *newest(struct kiln_doctor *doctor, struct kiln_bus *bus,
                                           const char *part, struct kiln_bus_entries *entries)
{
    char key[KILN_NAME_MAX + 64], last[64], before[64];
    const char *stream = key, *after = before;
    kiln_wire_key(key, sizeof key, kiln_pool(doctor->cli), part, NULL);
    if (kiln_bus_last_id(bus, key, last, sizeof last, NULL) || !last[0])
        return NULL;
    /* Reads all entries of that millisecond, and perhaps one more: the last is the newest. */
    unsigned long long ms = strtoull(last, NULL, 10);
    snprintf(before, sizeof before, "%llu-0", ms > 0 ? ms - 1 : 0);
    if (kiln_bus_read(bus, &stream, &after, 1, ENTRIES_MAX, 0, entries, NULL) ||
        entries->count == 0)
        return NULL;
    return &entries->at[entries->count - 1];
}

static const char *value_of(const struct kiln_bus_entry *entry, const char *name)
{
    for (size_t i = 0; i < entry->field_count; i++)
        if (strcmp(entry->fields[2 * i], name) == 0)
            return entry->fields[2 * i + 1];
    return "";
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
    double waited_s = strtod(value_of(entry, "blocked_ms"), NULL) / 1e3;
    kiln_finding(doctor, "intake", VERDICT_BAD,
                 "fix the cause; nothing is lost, the lines stay in the stream",
                 "the intake has been blocked for %.0f s: %s", waited_s,
                 kiln_safe_line(value_of(entry, "error"), error, sizeof error));
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
    kiln_safe_line(value_of(last, "reason"), reason, sizeof reason);
    snprintf(batch, sizeof batch, "%s", value_of(last, "batch"));
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
