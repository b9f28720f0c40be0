/* fleet.c - see fleet.h. */
#include "scheduler/cli/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/bus.h"
#include "storage/ledger.h"

static struct kiln_fleet_worker *add(struct kiln_fleet *fleet, const char *name)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (strcmp(fleet->at[i].row.name, name) == 0)
            return &fleet->at[i];
    if (fleet->count == KILN_FLEET_MAX)
        return NULL;
    if (fleet->count == fleet->size) {
        size_t size = fleet->size ? fleet->size * 2 : 16;
        struct kiln_fleet_worker *grown = realloc(fleet->at, size * sizeof *grown);
        if (!grown)
            return NULL;
        fleet->at = grown;
        fleet->size = size;
    }
    struct kiln_fleet_worker *worker = &fleet->at[fleet->count++];
    memset(worker, 0, sizeof *worker);
    snprintf(worker->row.name, sizeof worker->row.name, "%s", name);
    return worker;
}

static int add_row(void *arg, const struct kiln_worker_row *row, struct kiln_error *err)
{
    struct kiln_fleet_worker *worker = add(arg, row->name);
    if (!worker)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the list of workers");
    worker->row = *row;
    return 0;
}

static int add_beat(void *arg, const char *name, const char *text, size_t len)
{
    struct kiln_fleet *fleet = arg;
    struct kiln_beat beat;
    if (kiln_beat_decode(text, len, &beat, NULL) != 0)
        return 0; /* a stranger's key; the scheduler does not count it either */
    struct kiln_fleet_worker *worker = add(fleet, name);
    if (!worker)
        return KILN_NO_MEMORY;
    fleet->live += !worker->live;
    worker->live = true;
    worker->beat = beat;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct kiln_fleet_worker *x = a, *y = b;
    return strverscmp(x->row.name, y->row.name);
}

int kiln_fleet_load(struct kiln_cli *cli, struct kiln_fleet *ret, struct kiln_error *err)
{
    struct kiln_fleet fleet = {0};
    struct kiln_ledger *ledger = NULL;
    struct kiln_bus *bus = NULL;
    int rc = kiln_open_ledger(cli, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_workers(ledger, kiln_pool(cli), add_row, &fleet, err);
    if (rc == 0)
        rc = kiln_open_bus(cli, &bus, err);
    if (rc == 0)
        rc = kiln_bus_beats(bus, kiln_pool(cli), add_beat, &fleet, err);
    kiln_bus_close(bus);
    kiln_ledger_close(ledger);
    if (rc) {
        kiln_fleet_release(&fleet);
        return rc;
    }
    if (fleet.count)
        qsort(fleet.at, fleet.count, sizeof *fleet.at, by_name);
    *ret = fleet;
    return 0;
}

void kiln_fleet_release(struct kiln_fleet *fleet)
{
    free(fleet->at);
    *fleet = (struct kiln_fleet){0};
}

const struct kiln_fleet_worker *kiln_fleet_find(const struct kiln_fleet *fleet, const char *name)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (strcmp(fleet->at[i].row.name, name) == 0)
            return &fleet->at[i];
    return NULL;
}

const char *kiln_fleet_state(const struct kiln_fleet_worker *worker)
{
    return !worker->live ? "gone" : worker->beat.draining ? "draining" : "live";
}

static json_t *live_json(const struct kiln_fleet_worker *worker)
{
    const struct kiln_beat *beat = &worker->beat;
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, "
        "s:I, s:I}",
        "worker", worker->row.name, "state", kiln_fleet_state(worker), "host", beat->host, "device",
        beat->device, "engine", beat->engine, "model", beat->model, "loras", beat->lora_set, "pid",
        (int)beat->pid, "held", (int)beat->held_count, "room", (int)beat->room, "batch_max",
        (int)beat->batch_max, "step", (int)beat->step, "steps", (int)beat->steps, "jobs",
        (json_int_t)worker->row.assigned, "done", (json_int_t)beat->done, "failed",
        (json_int_t)beat->failed, "started_ms", (json_int_t)beat->started_ms);
}

static json_t *gone_json(const struct kiln_fleet_worker *worker)
{
    char seen[64];
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s}", "worker", worker->row.name, "state",
                     kiln_fleet_state(worker), "host", worker->row.host, "device",
                     worker->row.device, "jobs", (json_int_t)worker->row.assigned, "last_seen",
                     kiln_time_text(worker->row.last_seen_ms, seen, sizeof seen));
}

json_t *kiln_fleet_json(const struct kiln_fleet *fleet, bool all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet->at[i].live || all)
            json_array_append_new(list, fleet->at[i].live ? live_json(&fleet->at[i])
                                                          : gone_json(&fleet->at[i]));
    return list;
}

static void print_live(const struct kiln_fleet_worker *worker)
{
    const struct kiln_beat *beat = &worker->beat;
    char step[32] = "idle", resident[KILN_LORA_SET_MAX + 32] = "";
    if (beat->steps)
        snprintf(step, sizeof step, "step %u/%u", beat->step, beat->steps);
    else if (beat->held_count)
        snprintf(step, sizeof step, "busy");
    if (beat->width)
        snprintf(resident, sizeof resident, "%ux%u %s", beat->width, beat->height, beat->lora_set);
    printf("%-16s %-9s %-8s %-10s %6llu %6llu  %s\n", worker->row.name, kiln_fleet_state(worker),
           beat->device, step, (unsigned long long)beat->done, (unsigned long long)beat->failed,
           resident);
}

void kiln_fleet_print(const struct kiln_cli *cli, const struct kiln_fleet *fleet, bool all)
{
    if (cli->tty_out)
        printf("%-16s %-9s %-8s %-10s %6s %6s  %s\n", "WORKER", "STATE", "DEVICE", "NOW", "DONE",
               "FAILED", "RESIDENT");
    for (size_t i = 0; i < fleet->count; i++) {
        const struct kiln_fleet_worker *worker = &fleet->at[i];
        char seen[64];
        if (worker->live)
            print_live(worker);
        else if (all)
            printf("%-16s %-9s %-8s last seen %s\n", worker->row.name, kiln_fleet_state(worker),
                   worker->row.device, kiln_time_text(worker->row.last_seen_ms, seen, sizeof seen));
    }
}
