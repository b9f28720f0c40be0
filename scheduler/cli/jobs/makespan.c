/* makespan.c - the makespan of a batch against the lower bound for the workers that rendered it.
 *
 * The bound is for this batch alone on those workers.  A fleet that also served other batches, or
 * that waited for lines to come in, rightly took longer.  The bound counts only the seconds of the
 * attempts that made the pictures.  Loading a LoRA set counts as 0 s: the ledger does not have
 * that time, the set may have been in host memory, or resident from an earlier batch.
 */
#include "scheduler/cli/jobs/makespan.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/policy/bounds.h"
#include "schemas/room.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/makespan.h"

struct sets {
    struct kiln_bound_set *at;
    size_t count, room;
};

static int add_set(void *arg, const struct kiln_makespan_set *set, struct kiln_error *err)
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

json_t *kiln_makespan_json(struct kiln_cli *cli, const char *batch)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_makespan makespan;
    struct kiln_error err;
    struct sets sets = {0};
    json_t *value = NULL;
    int rc = kiln_open_reader(cli, &ledger, &err);
    if (rc == 0)
        rc = kiln_ledger_makespan(ledger, kiln_pool(cli), batch, &makespan, add_set, &sets, &err);
    if (rc == 0 && makespan.pictures > 0) {
        double makespan_s = (double)(makespan.ended_ms - makespan.began_ms) / 1000;
        struct kiln_bound bound =
            kiln_bound_of(sets.at, sets.count, kiln_bound_fleet_of(makespan.workers));
        /* The real schedule took makespan_s, so the bound cannot be larger.  It can seem so because
         * workers use their own clocks and the ledger that of the database. */
        double bound_s = fmin(bound.makespan_s, fmax(makespan_s, 0));
        value =
            json_pack("{s:f, s:f, s:f, s:I, s:I, s:i}", "makespan_s", makespan_s, "lower_bound_s",
                      bound_s, "ratio", bound_s > 0 ? makespan_s / bound_s : 1.0, "switches",
                      (json_int_t)makespan.switches, "switches_min", (json_int_t)bound.switches,
                      "workers", (int)makespan.workers);
    }
    free(sets.at);
    kiln_ledger_close(ledger);
    return value;
}

void kiln_say_makespan(struct kiln_cli *cli, const char *batch)
{
    json_t *makespan = kiln_makespan_json(cli, batch);
    if (!makespan)
        return;
    uint64_t workers = (uint64_t)json_integer_value(json_object_get(makespan, "workers"));
    uint64_t switches = (uint64_t)json_integer_value(json_object_get(makespan, "switches"));
    kiln_say(cli, "      rendered in %s on %s (lower bound %s); %s (minimum %lld)",
             KILN_SECONDS(json_number_value(json_object_get(makespan, "makespan_s"))),
             KILN_COUNT(workers, "worker"),
             KILN_SECONDS(json_number_value(json_object_get(makespan, "lower_bound_s"))),
             KILN_COUNT(switches, "LoRA switch"),
             (long long)json_integer_value(json_object_get(makespan, "switches_min")));
    json_decref(makespan);
}
