/* plan.c - faults, drawn from the seed.
 *
 * Every seed is of a class, so that each class can be held to the guarantees that only it leaves
 * intact: when nothing but a scheduler dies, no job may count a crash.  Kills and pauses strike at
 * a step of the victim, not at a time: most steps of a program lie within the same microsecond.
 */
#include "tests/sim/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAL_MIN_S 40
#define HEAL_MAX_S 120
#define LEASE_NEARLY (9 * SIM_S) /* a heartbeat may have been due when the pause began */
#define SINGLE_PAUSE_S                                                                             \
    25 /* longer than a lease, and than Postgres keeps a silent leader's session */

struct sim_plan sim_plan;

static const char *const names[SIM_CLASS_COUNT] = {"calm",  "kills",     "pauses",  "schedulers",
                                                   "redis", "postgres",  "network", "clocks",
                                                   "store", "everything"};

const char *sim_class_name(enum sim_class class)
{
    return names[class];
}

void sim_plan_make(uint64_t seed)
{
    sim_plan.class = (enum sim_class)(seed % SIM_CLASS_COUNT);
    bool all = sim_plan.class == SIM_EVERYTHING;
    for (int fault = SIM_KILLS; fault < SIM_EVERYTHING; fault++)
        sim_plan.faults[fault] = all ? sim_chance(600) : fault == (int)sim_plan.class;
    sim_plan.heals_at = sim_between(HEAL_MIN_S, HEAL_MAX_S) * SIM_S;
    sim_plan.pause_ms = sim_chance(300) ? 1500 : 8000;
    sim_plan.settings = (struct sim_settings){
        .max_attempts = sim_chance(500) ? "3" : "30",
        .workers = 1 + sim_below(SIM_WORKER_COUNT),
        .jobs = {5 + sim_below(40), sim_below(10), sim_below(10)},
        .poison = all && sim_chance(300),
        .failing = sim_chance(200),
        .orders = sim_plan.class != SIM_CALM && sim_chance(300),
        .redis_keeps = !sim_plan.faults[SIM_REDIS],
        .hostile = seed / SIM_CLASS_COUNT % 2 == 1, /* every other one of each class */
    };
    if (sim_plan.settings.poison || sim_plan.settings.failing) /* or trying would take too long */
        sim_plan.settings.max_attempts = "3";
    struct sim_server *servers[] = {&sim_fleet.redis, &sim_fleet.postgres, &sim_fleet.store};
    const char *const called[] = {"redis", "postgres", "store"};
    for (int i = 0; i < 3; i++) {
        *servers[i] = (struct sim_server){.name = called[i], .quick_us = 50, .lazy_us = 3000};
        if (sim_chance(200))
            servers[i]->lazy_us = 100 * SIM_MS;
        servers[i]->wall_ahead = sim_between(-500, 500) * SIM_MS;
    }
    sim_fleet.locked_row = sim_chance(300) ? 30 : 0;
}

/* --- what can happen ------------------------------------------------------------------------- */
static void die(struct sim_process *process)
{
    sim_log("kill -9 of %s (%d)", process->name, process->pid);
    sim_process_kill(process, 137);
    if (sim_plan.on_kill)
        sim_plan.on_kill(process);
}

static void wake_up(void *arg)
{
    struct sim_process *process = arg;
    if (!process->alive)
        return;
    sim_log("%s (%d) goes on", process->name, process->pid);
    sim_process_pause(process, false);
}

static void fall_asleep(struct sim_process *process)
{
    int64_t us = sim_chance(500) ? sim_between(8, 40) * SIM_S : sim_between(1, 8000) * SIM_MS;
    if (sim_plan.single)
        us = SINGLE_PAUSE_S * SIM_S;
    sim_log("%s (%d) is paused for %.3f s", process->name, process->pid, (double)us / 1e6);
    sim_process_pause(process, true);
    if (us > LEASE_NEARLY && sim_plan.on_kill)
        sim_plan.on_kill(process);
    sim_at(sim_now() + us, wake_up, process);
}

static void doom(struct sim_place *place, void (*what)(struct sim_process *process))
{
    struct sim_process *process = place->process;
    if (!process->alive || process->paused || process->doom_steps)
        return;
    process->doom = what;
    process->doom_steps = 1 + sim_below(sim_chance(500) ? 20 : 400);
}

static struct sim_place *some_worker(void)
{
    return sim_fleet_place(SIM_SCHEDULER_COUNT + sim_below(sim_plan.settings.workers));
}

static void twin(void *arg)
{
    uint32_t which = (uint32_t)(uintptr_t)arg;
    if (sim_now() < sim_plan.heals_at)
        sim_fleet_twin(which);
}

static void start_again(void *arg)
{
    struct sim_server *server = arg;
    sim_log("%s is back", server->name);
    sim_server_hang(server, false);
    sim_server_start(server);
    server->full = false;
}

/* Down, hung or full for a while. */
static void trouble(struct sim_server *server, uint32_t kinds)
{
    int64_t us = sim_chance(300) ? sim_between(5, 25) * SIM_S : sim_between(10, 5000) * SIM_MS;
    uint32_t kind = sim_below(kinds);
    if (server->down || server->hung || server->full)
        return;
    sim_log("%s is %s for %.3f s", server->name,
            kind == 0   ? "down"
            : kind == 1 ? "hung"
                        : "full",
            (double)us / 1e6);
    if (kind == 0)
        sim_server_crash(server);
    else if (kind == 1)
        sim_server_hang(server, true);
    else
        server->full = true;
    sim_at(sim_now() + us, start_again, server);
}

/* What was written in the last second is gone, as after a crash between two syncs. */
static void fall_back(void *arg)
{
    sim_log("redis loses its last second");
    sim_server_crash(&sim_fleet.redis);
    sim_redis_restore(&sim_fleet.data, arg);
    sim_at(sim_now() + sim_between(10, 3000) * SIM_MS, start_again, &sim_fleet.redis);
}

static void redis_trouble(void)
{
    switch (sim_below(4)) {
    case 0:
        sim_log("FLUSHALL");
        sim_redis_flush(&sim_fleet.data);
        return;
    case 1:
        sim_at(sim_now() + sim_between(1, 1000) * SIM_MS, fall_back,
               sim_redis_copy(&sim_fleet.data));
        return;
    default:
        trouble(&sim_fleet.redis, 3);
    }
}

static void postgres_trouble(void)
{
    if (sim_chance(400)) {
        sim_log("all sessions of postgres end");
        sim_ledger_end_sessions();
    } else {
        trouble(&sim_fleet.postgres, 2);
    }
}

static int64_t some_jump(void)
{
    return sim_chance(500) ? sim_between(-7200, 7200) * SIM_S : sim_between(-20, 20) * SIM_S;
}

static void set_some_clock(void)
{
    int64_t us = some_jump();
    uint32_t which = sim_below(3 + sim_fleet_places());
    struct sim_server *servers[] = {&sim_fleet.redis, &sim_fleet.postgres, &sim_fleet.store};
    if (which < 3)
        servers[which]->wall_ahead += us;
    else
        sim_fleet_place(which - 3)->process->wall_ahead += us;
    sim_log("the clock of %s is set by %.3f s",
            which < 3 ? servers[which]->name : sim_fleet_place(which - 3)->name, (double)us / 1e6);
}

static void strike(enum sim_class class)
{
    struct sim_place *place;
    switch (class) {
    case SIM_KILLS:
        if (sim_chance(150))
            sim_fleet_end(some_worker());
        else
            doom(some_worker(), die);
        return;
    case SIM_PAUSES:
        place = some_worker();
        doom(place, fall_asleep);
        if (sim_chance(300))
            sim_at(sim_now() + sim_between(1, 30) * SIM_S, twin, (void *)(uintptr_t)place->which);
        return;
    case SIM_SCHEDULERS:
        place = sim_fleet_place(sim_below(SIM_SCHEDULER_COUNT));
        if (sim_chance(100))
            sim_fleet_end(place);
        else
            doom(place, sim_chance(500) ? die : fall_asleep);
        return;
    case SIM_REDIS:
        redis_trouble();
        return;
    case SIM_POSTGRES:
        postgres_trouble();
        return;
    case SIM_CLOCKS:
        set_some_clock();
        return;
    case SIM_STORE:
        trouble(&sim_fleet.store, 2);
        return;
    default:
        return;
    }
}

/* --- the course of a run --------------------------------------------------------------------- */
static void next_strike(void *arg)
{
    if (sim_now() >= sim_plan.heals_at)
        return;
    enum sim_class class = (enum sim_class)sim_below(SIM_CLASS_COUNT);
    for (int tries = 0; tries < 100 && !sim_plan.faults[class]; tries++)
        class = (enum sim_class)sim_below(SIM_CLASS_COUNT);
    if (sim_plan.faults[class])
        strike(class);
    sim_at(sim_now() + sim_between(100, sim_plan.pause_ms) * SIM_MS, next_strike, arg);
}

static void bad_network(void)
{
    struct sim_weather weather = {sim_below(15), sim_below(15), sim_below(5)};
    sim_fleet.redis.weather = sim_fleet.postgres.weather = weather;
    sim_fleet.drop_entry = sim_below(30);
    /* A call's account cannot tell a doubled entry from the one that Redis has lost meanwhile. */
    sim_fleet.double_entry = sim_plan.faults[SIM_REDIS] ? 0 : sim_below(30);
    sim_fleet.cut_pipeline = 50;
}

static void heal(void *arg)
{
    (void)arg;
    sim_log("all is well again");
    struct sim_server *servers[] = {&sim_fleet.redis, &sim_fleet.postgres, &sim_fleet.store};
    for (int i = 0; i < 3; i++) {
        sim_server_hang(servers[i], false);
        sim_server_start(servers[i]);
        servers[i]->full = false;
        servers[i]->weather = (struct sim_weather){0, 0, 0};
    }
    sim_fleet.drop_entry = sim_fleet.double_entry = sim_fleet.cut_pipeline = 0;
    for (struct sim_process *at = sim_processes(); at; at = at->next) {
        at->doom_steps = 0;
        if (at->alive && at->paused)
            sim_process_pause(at, false);
    }
}

/* --- one blow at one step -------------------------------------------------------------------- */
bool sim_plan_single(const char *kind, uint64_t step)
{
    bool worker = strstr(kind, "worker") != NULL, kill = strncmp(kind, "kill", 4) == 0;
    if (!worker && !strstr(kind, "scheduler"))
        return false;
    sim_plan.class = !worker ? SIM_SCHEDULERS : kill ? SIM_KILLS : SIM_PAUSES;
    sim_plan.faults[sim_plan.class] = true;
    sim_plan.single = step;
    sim_plan.single_kills = kill;
    sim_plan.heals_at = kill ? 20 * SIM_S : (10 + SINGLE_PAUSE_S) * SIM_S;
    sim_plan.settings = (struct sim_settings){
        .max_attempts = "3", .workers = 2, .jobs = {8, 2, 2}, .quick = true, .redis_keeps = true};
    return true;
}

static void strike_once(void)
{
    bool worker = sim_plan.class != SIM_SCHEDULERS;
    struct sim_process *victim = sim_fleet_place(worker ? SIM_SCHEDULER_COUNT : 0)->process;
    victim->doom = sim_plan.single_kills ? die : fall_asleep;
    victim->doom_steps = (uint32_t)sim_plan.single;
}

void sim_plan_start(void)
{
    if (sim_plan.single) {
        strike_once();
        sim_at(sim_plan.heals_at, heal, NULL);
        return;
    }
    if (sim_plan.faults[SIM_NETWORK])
        bad_network();
    if (sim_plan.class != SIM_CALM)
        sim_at(sim_between(1, 10) * SIM_S, next_strike, NULL);
    sim_at(sim_plan.heals_at, heal, NULL);
}
