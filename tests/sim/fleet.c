/* fleet.c - places, the supervisor, settings. */
#include "tests/sim/fleet.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "schemas/config/config.h"

#define LOOK_US (500 * SIM_MS) /* the supervisor's rhythm */

static struct {
    struct sim_settings settings;
    struct sim_place places[SIM_SCHEDULER_COUNT + SIM_WORKER_COUNT];
    uint32_t count;
} fleet;

const struct sim_settings *sim_settings(void)
{
    return &fleet.settings;
}

struct sim_place *sim_fleet_place(uint32_t which)
{
    return &fleet.places[which];
}

uint32_t sim_fleet_places(void)
{
    return fleet.count;
}

/* The defaults, but for limits that would only make a run longer. */
struct kiln_config *sim_config(void)
{
    const char *const values[][2] = {
        {"pool", SIM_POOL},      {"size", "64x64"},
        {"engine", "testcard"},  {"max_attempts", fleet.settings.max_attempts},
        {"backoff_max_s", "20"}, {"statement_timeout_s", "10"},
        {"hold_s", "40"},        {"drain_s", "10"},
        {"encode_threads", "2"}, {"core_dumps", "on"},
        {"scheduler_port", "0"}, {"worker_port", "0"}};
    struct kiln_config *config = kiln_config_new();
    struct kiln_error err;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!config || kiln_config_set(config, values[i][0], values[i][1], "sim", &err))
            abort();
    return config;
}

static void start_place(struct sim_place *place)
{
    place->process =
        sim_process_start(place->name, place->host,
                          place->scheduler ? sim_scheduler_program : sim_worker_program, place);
    place->process->monotonic_base = sim_between(1, 5000000) * SIM_S;
    place->process->wall_ahead = sim_between(-200, 200) * SIM_MS;
    place->process->clock_ppm = (int)sim_between(-200, 200);
    sim_log("%s starts as process %d on %s", place->name, place->process->pid, place->host);
}

/* What systemd does. */
static void look_after(void *arg)
{
    for (uint32_t i = 0; i < fleet.count; i++) {
        struct sim_place *place = &fleet.places[i];
        if (place->process->alive || !place->watched || !sim_chance(500))
            continue;
        sim_log("%s has ended with %d", place->name, place->process->status);
        start_place(place);
    }
    sim_at(sim_now() + LOOK_US, look_after, arg);
}

static void add_place(bool scheduler, uint32_t which)
{
    struct sim_place *place = &fleet.places[fleet.count++];
    *place = (struct sim_place){.which = which, .scheduler = scheduler, .watched = true};
    snprintf(place->name, sizeof place->name, "%s%u", scheduler ? "s" : "w", which);
    snprintf(place->host, sizeof place->host, "host%u", scheduler ? which : which % 2);
    start_place(place);
}

void sim_fleet_start(const struct sim_settings *settings)
{
    fleet.settings = *settings;
    for (uint32_t i = 0; i < SIM_SCHEDULER_COUNT; i++)
        add_place(true, i);
    for (uint32_t i = 0; i < settings->workers; i++)
        add_place(false, i);
    for (uint32_t i = 0; i < SIM_CLIENT_COUNT; i++) {
        sim_clients[i].which = i;
        sim_process_start("client", "desk", sim_client_program, &sim_clients[i]);
    }
    if (settings->orders)
        sim_process_start("operator", "desk", sim_operator_program, NULL);
    if (settings->hostile)
        sim_process_start("hostile", "desk", sim_hostile_program, NULL);
    sim_at(LOOK_US, look_after, NULL);
}

void sim_fleet_twin(uint32_t worker)
{
    struct sim_place *twin = calloc(1, sizeof *twin);
    if (!twin)
        abort();
    *twin = fleet.places[SIM_SCHEDULER_COUNT + worker];
    snprintf(twin->host, sizeof twin->host, "host%u", 7u);
    start_place(twin);
}

void sim_fleet_end(struct sim_place *place)
{
    if (place->scheduler && place->stop && place->process->alive)
        sim_scheduler_stop(place->stop);
    else
        sim_process_signal(place->process, SIGTERM);
}
