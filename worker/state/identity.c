/* identity.c - searches the pool's heartbeats for another process with this worker's id. */
#include "worker/state/identity.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "schemas/telemetry/log.h"

#define CONTROLS_MAX 64
#define ENTRY_ID_MAX 48

struct search {
    const char *id;
    struct kiln_heartbeat beat; /* worker "" = none found */
};

static bool is_ours(void *arg, const char *worker)
{
    const struct search *search = arg;
    return strcmp(worker, search->id) == 0;
}

static int note(void *arg, const char *worker, const char *beat, size_t len)
{
    struct search *search = arg;
    struct kiln_heartbeat found;
    struct kiln_error err;
    /* A heartbeat that cannot be read claims nothing. */
    (void)worker;
    if (kiln_heartbeat_decode(beat, len, &found, &err) == 0)
        search->beat = found;
    return 0;
}

/* *ret_other: another process has a live heartbeat with our id. */
static int find_other(struct kiln_worker *worker, struct kiln_bus *bus, struct search *search,
                      bool *ret_other, struct kiln_error *err)
{
    *search = (struct search){.id = worker->id};
    int code = kiln_bus_heartbeats(bus, worker->pool, is_ours, note, search, err);
    if (code != 0)
        return code;
    *ret_other =
        search->beat.worker[0] && strcmp(search->beat.incarnation, worker->incarnation) != 0;
    return 0;
}

/* Whether the sender of the heartbeat has certainly ended: it ran on this host, and its pid is
 * free. */
static bool is_dead(const struct kiln_worker *worker, const struct kiln_heartbeat *beat)
{
    return strcmp(beat->host, worker->host) == 0 && beat->pid > 1 &&
           kill((pid_t)beat->pid, 0) != 0 && errno == ESRCH;
}

static int refuse(const struct kiln_worker *worker, const struct kiln_heartbeat *beat,
                  struct kiln_error *err)
{
    return kiln_fail(err, KILN_EXISTS,
                     "a worker \"%s\" of pool \"%s\" is alive already: host %s, process %u; give "
                     "this one another --id",
                     worker->id, worker->pool, beat->host, beat->pid);
}

int kiln_identity_repair(struct kiln_bus *bus, const char *key, int code, struct kiln_error *err)
{
    struct kiln_error why = *err;
    if (code == 0 || kiln_bus_refusal(bus) != KILN_BUS_WRONG_TYPE)
        return code;
    /* No WATCH: an assignment that arrives at this moment returns with the lease. */
    code = kiln_bus_delete(bus, key, err);
    if (code == 0)
        kiln_log(KILN_LOG_WARNING, "key_deleted", kiln_f("what", "%s", key),
                 kiln_f("error", "%s", why.text));
    return code;
}

/* A drain that the predecessor never read would end this worker at once. */
static int forget_controls(struct kiln_worker *worker, struct kiln_bus *bus, struct kiln_error *err)
{
    char ids[CONTROLS_MAX][ENTRY_ID_MAX];
    struct kiln_bus_entries entries = {0};
    const char *stream = worker->stream, *after = "0";
    size_t count = 0;
    int code = kiln_bus_read(bus, &stream, &after, 1, CONTROLS_MAX, 0, &entries, err);
    if (code != 0)
        return kiln_identity_repair(bus, stream, code, err);
    for (size_t i = 0; code == 0 && i < entries.count && count < CONTROLS_MAX; i++)
        if (entries.at[i].field_count > 0 && strcmp(entries.at[i].fields[0], "order") == 0)
            snprintf(ids[count++], ENTRY_ID_MAX, "%s", entries.at[i].id);
    for (size_t i = 0; code == 0 && i < count; i++)
        code = kiln_bus_delete_entry(bus, worker->stream, ids[i], err);
    return code;
}

int kiln_identity_claim(struct kiln_worker *worker, struct kiln_bus *bus, struct kiln_error *err)
{
    struct search search;
    bool other = false;
    int code = find_other(worker, bus, &search, &other, err);
    if (code != 0)
        return code;
    if (other && !is_dead(worker, &search.beat))
        return refuse(worker, &search.beat, err);
    return forget_controls(worker, bus, err);
}

int kiln_identity_confirm(struct kiln_worker *worker, struct kiln_bus *bus, struct kiln_error *err)
{
    struct search search;
    bool other = false;
    int code = find_other(worker, bus, &search, &other, err);
    return code == 0 && other ? refuse(worker, &search.beat, err) : code;
}
