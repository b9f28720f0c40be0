/* doctor_needs.c - `kiln doctor` on what queued jobs need from workers, and on workers' clocks.
 *
 * A job that no worker can render does not fail.  It waits for a worker that has its model, or
 * enough memory for its size.  A job whose LoRA is missing will fail when its turn comes.
 *
 * Clocks of workers are compared with that of Redis.  A heartbeat says when it was sent: not after
 * it was read, and at most a lease before.
 */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/fleet/blocked.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/upkeep/doctor.h"
#include "schemas/clock.h"
#include "schemas/names.h"
#include "storage/bus/doctor.h"
#include "storage/ledger/read/reader.h"
#include "storage/ledger/upkeep/doctor.h"

/* --- clocks ----------------------------------------------------------------------------------- */

/* The time of Redis, or ours if our user may not ask for it. */
static int redis_time(struct kiln_bus *bus, int64_t *ret_ms, struct kiln_error *err)
{
    int rc = kiln_bus_time(bus, ret_ms, err);
    if (rc == KILN_DENIED)
        *ret_ms = kiln_wall_ms();
    return rc == KILN_DENIED ? 0 : rc;
}

/* The least number of milliseconds that a worker's clock is ahead; negative: behind. */
static int64_t skew_of(const struct kiln_heartbeat *beat, int64_t before_ms, int64_t after_ms,
                       int64_t lease_ms)
{
    if (beat->sent_ms > after_ms)
        return beat->sent_ms - after_ms;
    return beat->sent_ms < before_ms - lease_ms ? beat->sent_ms - (before_ms - lease_ms) : 0;
}

static void check_clocks(struct kiln_doctor *doctor, const struct kiln_roster *roster,
                         int64_t before_ms, int64_t after_ms)
{
    int64_t lease_ms = (int64_t)(kiln_config_number(doctor->cli->config, KILN_KEY_LEASE_S) * 1000);
    int64_t worst = 0;
    const struct kiln_heartbeat *whose = NULL;
    size_t off = 0;
    for (size_t i = 0; i < roster->count; i++) {
        const struct kiln_heartbeat *beat = &roster->at[i].beat;
        int64_t skew = roster->at[i].live ? skew_of(beat, before_ms, after_ms, lease_ms) : 0;
        int64_t size = skew < 0 ? -skew : skew;
        off += size >= KILN_SKEW_WARNING_MS;
        if (size > (worst < 0 ? -worst : worst)) {
            worst = skew;
            whose = beat;
        }
    }
    int64_t size = worst < 0 ? -worst : worst;
    if (whose && size >= KILN_SKEW_WARNING_MS)
        kiln_finding(
            doctor, "clocks", size >= KILN_SKEW_BAD_MS ? VERDICT_BAD : VERDICT_WARNING,
            "synchronise the clocks of those hosts (chrony, `timedatectl set-ntp true`)",
            "the clocks of %zu of %s differ from that of Redis, most of all %s on %s: %" PRId64
            " ms %s",
            off, KILN_COUNT(roster->live, "worker"), whose->worker, whose->host, size,
            worst < 0 ? "behind" : "ahead");
    else if (roster->live)
        kiln_finding(doctor, "clocks", VERDICT_OK, "",
                     "no worker's clock differs from that of Redis");
}

/* --- needs ------------------------------------------------------------------------------------ */

struct needs {
    struct kiln_doctor *doctor;
    const struct kiln_roster *roster;
    char loras[PATH_MAX]; /* the directory of LoRAs on this machine; "": none */
};

static int check_need(void *arg, const struct kiln_need_row *row, struct kiln_error *err)
{
    const struct needs *needs = arg;
    const char *lacks =
        needs->roster->live ? kiln_blocked_by_model(needs->roster, row->model) : NULL;
    (void)err;
    if (row->model[0] && lacks)
        kiln_finding(needs->doctor, "models", VERDICT_BAD,
                     "start a worker with that model, or give up: `kiln cancel --batch BATCH`",
                     "%s of %ux%u need model %s, such as batch %s; %s it",
                     KILN_COUNT(row->jobs, "queued job"), row->width, row->height, row->model,
                     row->batch, lacks);
    else if (row->unfit)
        kiln_finding(
            needs->doctor, "sizes", VERDICT_WARNING,
            "start a worker with more memory, or enqueue smaller pictures",
            "%" PRIu64 " of %s of %ux%u did not fit into a worker's memory, such as batch %s",
            row->unfit, KILN_COUNT(row->jobs, "queued job"), row->width, row->height, row->batch);
    return 0;
}

static int check_lora(void *arg, const char *name, uint64_t jobs, const char *batch,
                      struct kiln_error *err)
{
    const struct needs *needs = arg;
    char path[PATH_MAX + KILN_NAME_MAX + 32];
    (void)err;
    snprintf(path, sizeof path, "%s/%s.safetensors", needs->loras, name);
    if (kiln_name_valid(name, strlen(name), KILN_NAME_MAX) && access(path, F_OK) == 0)
        return 0;
    kiln_finding(needs->doctor, "loras", VERDICT_WARNING,
                 "copy the LoRA there and to the workers, or give up: `kiln cancel --batch BATCH`",
                 "LoRA %s is not in %s; batch %s needs it (%s in all)", name, needs->loras, batch,
                 KILN_COUNT(jobs, "queued job"));
    return 0;
}

/* lora_dir, else MODEL/loras, as workers do; the machine of a client often has neither. */
static void find_loras(struct needs *needs)
{
    const struct kiln_config *config = needs->doctor->cli->config;
    const char *own = kiln_config_text(config, KILN_KEY_LORA_DIR);
    const char *model = kiln_config_text(config, KILN_KEY_MODEL);
    snprintf(needs->loras, sizeof needs->loras, "%s%s", own[0] ? own : model,
             own[0] || !model[0] ? "" : "/loras");
    DIR *dir = needs->loras[0] ? opendir(needs->loras) : NULL;
    if (dir)
        closedir(dir);
    else
        needs->loras[0] = '\0';
}

static void check_needs(struct kiln_doctor *doctor, const struct kiln_roster *roster)
{
    struct needs needs = {.doctor = doctor, .roster = roster};
    struct kiln_ledger *ledger = NULL;
    struct kiln_error err;
    const char *pool = kiln_pool(doctor->cli);
    find_loras(&needs);
    int rc = kiln_doctor_ask(doctor, &ledger, &err);
    if (rc == 0)
        rc = kiln_ledger_needs(ledger, pool, check_need, &needs, &err);
    if (rc == 0 && needs.loras[0])
        rc = kiln_ledger_needed_loras(ledger, pool, check_lora, &needs, &err);
    if (rc)
        kiln_finding(doctor, "models", VERDICT_BAD, "", "%s", err.text);
    kiln_reader_give(doctor->reader, ledger);
}

void kiln_doctor_needs(struct kiln_doctor *doctor)
{
    struct kiln_roster roster = {0};
    struct kiln_bus *bus = NULL;
    struct kiln_error err;
    int64_t before_ms = 0, after_ms = 0;
    int rc = kiln_open_bus(doctor->cli, &bus, &err);
    if (rc == 0)
        rc = redis_time(bus, &before_ms, &err);
    if (rc == 0)
        rc = kiln_roster_load(doctor->cli, &roster, &err);
    if (rc == 0)
        rc = redis_time(bus, &after_ms, &err);
    kiln_bus_close(bus);
    if (rc == 0) {
        check_clocks(doctor, &roster, before_ms, after_ms);
        check_needs(doctor, &roster);
    }
    kiln_roster_release(&roster);
}
