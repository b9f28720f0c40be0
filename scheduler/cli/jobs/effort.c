/* effort.c - the pictures of a batch against the lower bound for the workers that drew them.
 *
 * The bound is of this batch alone on those workers: a fleet that also served others, or that stood
 * waiting for lines to come in, took longer than that for good reason.  It charges only what was
 * surely computed, the seconds of the attempts that made the pictures.  Loads of LoRA sets count as
 * nothing: what these took is not in the ledger, what such a load usually takes is no minimum (its
 * file may lie in host memory), and a worker may have had the set from the batch before.
 */
#include "scheduler/cli/jobs/effort.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/policy/bounds.h"
#include "schemas/room.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/effort.h"

struct sets {
    struct kiln_bound_set *at;
    size_t count, room;
};

static int add_set(void *arg, const struct kiln_effort_set *set, struct kiln_error *err)
{
    struct sets *sets = arg;
    struct kiln_bound_set *at = kiln_room(sets->at, sets->count, &sets->room, sizeof *at);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the LoRA sets of a batch");
    sets->at = at;
    sets->at[sets->count++] = (struct kiln_bound_set){
        .work_s = set->work_s, .longest_s = set->longest_s, .resident = set->lora_set[0] == '\0'};
    return 0;
}

json_t *kiln_effort_json(struct kiln_cli *cli, const char *batch)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_effort effort;
    struct kiln_error err;
    struct sets sets = {0};
    json_t *value = NULL;
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0)
        rc = kiln_ledger_effort(ledger, kiln_pool(cli), batch, &effort, add_set, &sets, &err);
    if (rc == 0 && effort.pictures > 0) {
        double makespan_s = (double)(effort.ended_ms - effort.began_ms) / 1000;
        struct kiln_bound bound =
            kiln_bound_of(sets.at, sets.count, kiln_bound_fleet_of(effort.workers));
        /* What was done is a schedule too, so no bound lies above it.  Workers measure by their own
         * clocks, the ledger by the database's, which may have been set meanwhile. */
        double bound_s = fmin(bound.makespan_s, fmax(makespan_s, 0));
        value =
            json_pack("{s:f, s:f, s:f, s:I, s:I, s:i}", "makespan_s", makespan_s, "lower_bound_s",
                      bound_s, "ratio", bound_s > 0 ? makespan_s / bound_s : 1.0, "switches",
                      (json_int_t)effort.switches, "switches_min", (json_int_t)bound.switches,
                      "workers", (int)effort.workers);
    }
    free(sets.at);
    kiln_ledger_close(ledger);
    return value;
}

void kiln_say_effort(struct kiln_cli *cli, const char *batch)
{
    json_t *effort = kiln_effort_json(cli, batch);
    char took[32], bound[32];
    if (!effort)
        return;
    long long workers = json_integer_value(json_object_get(effort, "workers"));
    kiln_say(
        cli,
        "      drawn in %s by %lld worker%s; no schedule could do it in less than %s (%.2f x); "
        "%lld LoRA switches, %lld at least",
        kiln_seconds_text(json_number_value(json_object_get(effort, "makespan_s")), took,
                          sizeof took),
        workers, workers == 1 ? "" : "s",
        kiln_seconds_text(json_number_value(json_object_get(effort, "lower_bound_s")), bound,
                          sizeof bound),
        json_number_value(json_object_get(effort, "ratio")),
        (long long)json_integer_value(json_object_get(effort, "switches")),
        (long long)json_integer_value(json_object_get(effort, "switches_min")));
    json_decref(effort);
}
