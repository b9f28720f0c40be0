/* roster.c - the workers as they are now.
 *
 * Two sources, because each knows what the other cannot: the ledger remembers lost workers and
 * counts the jobs assigned to them, the heartbeats say what live workers do now.  A worker is
 * live exactly if its heartbeat is there, whatever its row says.
 */
#include "scheduler/cli/fleet/roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/fleet/trouble.h"
#include "schemas/room.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"

/* The entry of that name, made if it is new; NULL at the bound or when memory is short. */
static struct kiln_roster_worker *add(struct kiln_roster *roster, const char *name)
{
    for (size_t i = 0; i < roster->count; i++)
        if (strcmp(roster->at[i].row.name, name) == 0)
            return &roster->at[i];
    if (roster->count == KILN_ROSTER_MAX)
        return NULL;
    struct kiln_roster_worker *at = kiln_room(roster->at, roster->count, &roster->size, sizeof *at);
    if (!at)
        return NULL;
    roster->at = at;
    struct kiln_roster_worker *worker = &roster->at[roster->count++];
    memset(worker, 0, sizeof *worker);
    snprintf(worker->row.name, sizeof worker->row.name, "%s", name);
    return worker;
}

static int add_row(void *arg, const struct kiln_worker_row *row, struct kiln_error *err)
{
    struct kiln_roster_worker *worker = add(arg, row->name);
    if (!worker)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the list of workers");
    worker->row = *row;
    return 0;
}

static int add_beat(void *arg, const char *name, const char *text, size_t len)
{
    struct kiln_roster *roster = arg;
    struct kiln_heartbeat beat;
    if (kiln_heartbeat_decode(text, len, &beat, NULL) != 0 || strcmp(beat.worker, name) != 0)
        return 0; /* a stranger's key; the scheduler does not count it either */
    struct kiln_roster_worker *worker = add(roster, name);
    if (!worker)
        return KILN_NO_MEMORY;
    roster->live += !worker->live;
    worker->live = true;
    worker->beat = beat;
    return 0;
}

/* worker-10 after worker-9. */
static int by_name(const void *a, const void *b)
{
    const struct kiln_roster_worker *x = a, *y = b;
    return strverscmp(x->row.name, y->row.name);
}

int kiln_roster_read(struct kiln_cli *cli, struct kiln_ledger *ledger, struct kiln_bus *bus,
                     struct kiln_roster *ret, struct kiln_error *err)
{
    struct kiln_roster roster = {0};
    int rc = ledger ? kiln_ledger_workers(ledger, kiln_pool(cli), add_row, &roster, err) : 0;
    if (rc == 0)
        rc = kiln_bus_heartbeats(bus, kiln_pool(cli), NULL, add_beat, &roster, err);
    if (rc) {
        kiln_roster_release(&roster);
        return rc;
    }
    if (roster.count)
        qsort(roster.at, roster.count, sizeof *roster.at, by_name);
    *ret = roster;
    return 0;
}

int kiln_roster_load(struct kiln_cli *cli, struct kiln_roster *ret, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_bus *bus = NULL;
    int rc = kiln_open_reader(cli, &ledger, err);
    rc = rc ? rc : kiln_open_bus(cli, &bus, err);
    rc = rc ? rc : kiln_roster_read(cli, ledger, bus, ret, err);
    kiln_bus_close(bus);
    kiln_ledger_close(ledger);
    return rc;
}

int kiln_roster_live(struct kiln_cli *cli, struct kiln_roster *ret, struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    int rc = kiln_open_bus(cli, &bus, err);
    rc = rc ? rc : kiln_roster_read(cli, NULL, bus, ret, err);
    kiln_bus_close(bus);
    return rc;
}

void kiln_roster_release(struct kiln_roster *roster)
{
    free(roster->at);
    *roster = (struct kiln_roster){0};
}

const struct kiln_roster_worker *kiln_roster_find(const struct kiln_roster *roster,
                                                  const char *name)
{
    for (size_t i = 0; i < roster->count; i++)
        if (strcmp(roster->at[i].row.name, name) == 0)
            return &roster->at[i];
    return NULL;
}

const char *kiln_roster_state(const struct kiln_roster_worker *worker)
{
    return !worker->live ? "gone" : worker->beat.draining ? "draining" : "live";
}

/* What the heartbeat says, or what the ledger still knows. */
static json_t *worker_json(const struct kiln_roster_worker *worker)
{
    const struct kiln_heartbeat *beat = &worker->beat;
    char protocol[32], seen[64], started[64];
    if (!worker->live)
        return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:o}", "worker", worker->row.name, "state",
                         kiln_roster_state(worker), "host", worker->row.host, "device",
                         worker->row.device, "jobs", (json_int_t)worker->row.assigned, "last_seen",
                         kiln_time_text(worker->row.last_seen_ms, seen, sizeof seen), "trouble",
                         kiln_worker_trouble_json(worker));
    snprintf(protocol, sizeof protocol, "%u.%u", beat->version, beat->minor);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, "
        "s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}",
        "worker", worker->row.name, "state", kiln_roster_state(worker), "host", beat->host,
        "device", beat->device, "engine", beat->engine, "model", beat->model, "loras",
        beat->lora_set, "pid", (int)beat->pid, "held", (int)beat->held_count, "room",
        (int)beat->room, "batch_max", (int)beat->batch_max, "step", (int)beat->step, "steps",
        (int)beat->steps, "jobs", (json_int_t)worker->row.assigned, "done", (json_int_t)beat->done,
        "failed", (json_int_t)beat->failed, "started_at",
        kiln_time_text(beat->started_ms, started, sizeof started), "release", beat->release,
        "protocol", protocol, "ready_ms", (json_int_t)beat->ready_ms, "wanted_ms",
        (json_int_t)beat->wanted_ms, "computed_ms", (json_int_t)beat->computed_ms, "lora_files",
        beat->files_told ? json_integer(beat->file_count) : json_null(), "trouble",
        kiln_worker_trouble_json(worker));
}

json_t *kiln_roster_json(const struct kiln_roster *roster, bool all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < roster->count; i++)
        if (roster->at[i].live || all)
            json_array_append_new(list, worker_json(&roster->at[i]));
    return list;
}

const char *kiln_roster_idle(const struct kiln_heartbeat *beat, char out[8])
{
    double idle = 100.0 * (1.0 - (double)beat->computed_ms / (double)beat->wanted_ms);
    if (beat->wanted_ms == 0)
        return "-";             /* nothing rendered yet, or an older release */
    idle = idle > 0 ? idle : 0; /* both are whole milliseconds */
    snprintf(out, 8, idle < 9.95 ? "%.1f%%" : "%.0f%%", idle);
    return out;
}

/* One line: what the worker does now, then what it has done. */
static void print_live(const struct kiln_cli *cli, const struct kiln_roster_worker *worker,
                       const char *name)
{
    const struct kiln_heartbeat *beat = &worker->beat;
    char idle[8], step[32] = "idle", resident[KILN_LORA_SET_MAX + 32] = "";
    if (beat->steps)
        snprintf(step, sizeof step, "step %u/%u", beat->step, beat->steps);
    else if (beat->held_count)
        snprintf(step, sizeof step, "busy");
    if (beat->width)
        snprintf(resident, sizeof resident, "%ux%u %s", beat->width, beat->height, beat->lora_set);
    kiln_print_fit(cli, KILN_CUT, "%s %-9s %-8s %-10s %6llu %6llu %5s  %s", name,
                   kiln_roster_state(worker), beat->device, step, (unsigned long long)beat->done,
                   (unsigned long long)beat->failed, kiln_roster_idle(beat, idle), resident);
}

void kiln_roster_print(const struct kiln_cli *cli, const struct kiln_roster *roster, bool all)
{
    if (cli->tty_out && (all ? roster->count : roster->live))
        kiln_print_fit(cli, KILN_CUT, "%-16s %-9s %-8s %-10s %6s %6s %5s  %s", "WORKER", "STATE",
                       "DEVICE", "NOW", "DONE", "FAILED", "IDLE", "RESIDENT");
    for (size_t i = 0; i < roster->count; i++) {
        const struct kiln_roster_worker *worker = &roster->at[i];
        char seen[64], trouble[KILN_ERROR_TEXT_MAX];
        struct kiln_text name = {0};
        kiln_text_cell(&name, cli->columns, worker->row.name, 16);
        if (worker->live)
            print_live(cli, worker, name.at);
        else if (all)
            kiln_print_fit(cli, KILN_CUT, "%s %-9s %-8s last seen %s", name.at,
                           kiln_roster_state(worker), worker->row.device,
                           kiln_short_time(worker->row.last_seen_ms, seen, sizeof seen));
        kiln_text_release(&name);
        if ((worker->live || all) &&
            kiln_worker_trouble_text(worker, trouble, sizeof trouble)[0] != '\0')
            kiln_print_fit(cli, 4, "  ! %s", trouble);
    }
}
