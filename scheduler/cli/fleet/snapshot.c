/* snapshot.c - reads the ledger, then the bus. */
#include "scheduler/cli/fleet/snapshot.h"

#include <stdio.h>

#include "scheduler/cli/fleet/pause.h"
#include "scheduler/pauses.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/source.h"

static int add_group(void *arg, const struct kiln_group_row *group, struct kiln_error *err)
{
    struct kiln_snapshot *look = arg;
    char since[64], name[KILN_PAUSE_NAME_MAX + 1];
    const struct kiln_policy_job job = {.model = group->model,
                                        .lora_set = group->lora_set,
                                        .width = group->width,
                                        .height = group->height,
                                        .steps = group->steps,
                                        .mode = group->mode};
    (void)err;
    if (group->queued)
        kiln_needed_add(&look->needed, group->model);
    kiln_group_of(&job, name, sizeof name);
    json_array_append_new(
        look->groups,
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:s?}", "group", name, "model",
                  group->model, "loras", group->lora_set, "mode", kiln_mode_shown(group->mode),
                  "width", (int)group->width, "height", (int)group->height, "steps",
                  (int)group->steps, "queued", (json_int_t)group->queued, "assigned",
                  (json_int_t)group->assigned, "oldest",
                  group->oldest_ms ? kiln_time_text(group->oldest_ms, since, sizeof since) : NULL));
    return 0;
}

/* What the ledger knows: counts, groups with something to do, whether anybody leads. */
static int look_ledger(struct kiln_snapshot *look, const char *batch, struct kiln_error *err)
{
    const char *pool = kiln_pool(look->cli);
    struct kiln_ledger *ledger = NULL;
    int rc = kiln_open_reader(look->cli, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_counts(ledger, pool, &look->counts, err);
    if (rc == 0)
        rc = kiln_ledger_groups(ledger, pool, add_group, look, err);
    if (rc == 0 && !(look->pauses = kiln_pauses_json(look->cli, ledger, err)))
        rc = err->code;
    if (rc == 0)
        rc = kiln_ledger_led(ledger, pool, &look->led, err);
    if (rc == 0 && batch) {
        rc = kiln_ledger_progress(ledger, pool, batch, &look->batch, err);
        look->has_batch = rc == 0;
    }
    if (rc == 0 && kiln_snapshot_over(look))
        rc = kiln_ledger_gone_counts(ledger, pool, batch, &look->batch.gone, err);
    if (rc == 0)
        rc = kiln_troubles_look_at(look->cli, ledger, batch, &look->needed, &look->roster,
                                   &look->bus, &look->troubles, err);
    kiln_ledger_close(ledger);
    return rc;
}

/* Entries that are not in the ledger yet. */
static int look_intake(struct kiln_snapshot *look)
{
    struct kiln_bus *bus = NULL;
    char key[256];
    kiln_wire_key(key, sizeof key, kiln_pool(look->cli), "intake", NULL);
    int rc = look->bus.code ? look->bus.code : kiln_open_bus(look->cli, &bus, &look->bus);
    if (rc == 0)
        rc = kiln_bus_length(bus, key, &look->intake, &look->bus);
    kiln_bus_close(bus);
    look->bus.code = rc;
    return rc;
}

void kiln_snapshot_release(struct kiln_snapshot *look)
{
    json_decref(look->groups);
    json_decref(look->pauses);
    kiln_roster_release(&look->roster);
}

int kiln_snapshot_take_known(struct kiln_cli *cli, struct kiln_snapshot *ret,
                             struct kiln_error *err)
{
    *ret = (struct kiln_snapshot){.cli = cli, .groups = json_array()};
    int rc = look_ledger(ret, NULL, err);
    if (rc)
        kiln_snapshot_release(ret);
    else
        (void)look_intake(ret);
    return rc;
}

int kiln_snapshot_take(struct kiln_cli *cli, const char *batch, struct kiln_snapshot *ret,
                       struct kiln_error *err)
{
    *ret = (struct kiln_snapshot){.cli = cli, .groups = json_array()};
    int rc = look_ledger(ret, batch, err);
    if (rc == 0 && (rc = look_intake(ret)) != 0)
        *err = ret->bus;
    if (rc)
        kiln_snapshot_release(ret);
    return rc;
}

json_t *kiln_snapshot_json(const struct kiln_snapshot *look)
{
    bool bus = look->bus.code == 0;
    json_t *workers = bus ? kiln_roster_json(&look->roster, false) : json_null();
    json_t *intake = bus ? json_integer((json_int_t)look->intake) : json_null();
    json_t *value =
        json_pack("{s:s, s:o, s:o, s:O, s:O, s:o, s:b, s:o}", "pool", kiln_pool(look->cli), "jobs",
                  kiln_counts_json(&look->counts), "workers", workers, "groups", look->groups,
                  "holds", look->pauses, "intake", intake, "scheduler", (int)look->led, "troubles",
                  kiln_troubles_json(&look->troubles));
    if (look->has_batch)
        json_object_set_new(value, "batch", kiln_counts_json(&look->batch.jobs));
    return value;
}

bool kiln_snapshot_over(const struct kiln_snapshot *look)
{
    return look->has_batch && look->batch.whole && look->batch.jobs.at[KILN_JOB_QUEUED] == 0 &&
           look->batch.jobs.at[KILN_JOB_ASSIGNED] == 0;
}

const struct kiln_counts *kiln_snapshot_counts(const struct kiln_snapshot *look)
{
    return look->has_batch ? &look->batch.jobs : &look->counts;
}

const char *kiln_counts_text(const struct kiln_counts *counts, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (int state = 0; state < KILN_JOB_STATE_COUNT && len < size; state++)
        len += (size_t)snprintf(out + len, size - len, "%s%llu %s", state ? ", " : "",
                                (unsigned long long)counts->at[state],
                                kiln_job_state_name((enum kiln_job_state)state));
    return out;
}

void kiln_apart_print(const struct kiln_counts *gone, uint64_t removed)
{
    if (kiln_counts_total(gone))
        printf("  gone       %llu of the jobs: the file no longer has them; `kiln export --all` "
               "includes them\n",
               (unsigned long long)kiln_counts_total(gone));
    if (removed)
        printf("  removed    %llu of the cancelled jobs: `kiln gc` has removed their rows\n",
               (unsigned long long)removed);
}
