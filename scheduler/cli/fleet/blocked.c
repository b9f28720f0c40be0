/* blocked.c - see blocked.h.
 *
 * A look groups the queued jobs of the batch by model, and by what pauses can match while one is in
 * force, and reads the heartbeats.  That takes a fraction of a second for a million jobs, so a wait
 * does it only now and then.
 */
#include "scheduler/cli/fleet/blocked.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/pauses.h"

#define LOOK_EVERY_S 5.0   /* while the batch is blocked, */
#define LOOK_SELDOM_S 20.0 /* and otherwise */
#define SLOW_LATER 9       /* so a slow server costs a tenth of the wait */
#define NAMED_MAX 3        /* models */

bool kiln_serves(const struct kiln_roster_worker *worker, const char *model)
{
    return worker->live && (!model || !model[0] || strcmp(worker->beat.model, model) == 0);
}

bool kiln_blocked_by_workers(const struct kiln_roster *roster, const char *pool, char *out,
                             size_t size)
{
    size_t draining = 0;
    for (size_t i = 0; i < roster->count; i++)
        draining += roster->at[i].live && roster->at[i].beat.draining;
    if (draining < roster->live)
        return false;
    if (roster->live == 0)
        snprintf(out, size, "no worker is alive in pool %s", pool);
    else
        snprintf(out, size, "every live worker is draining");
    return true;
}

const char *kiln_blocked_by_model(const struct kiln_roster *roster, const char *model)
{
    size_t draining = 0;
    for (size_t i = 0; i < roster->count; i++) {
        if (!kiln_serves(&roster->at[i], model))
            continue;
        if (!roster->at[i].beat.draining)
            return NULL;
        draining++;
    }
    return draining ? "only draining workers have" : "no live worker has";
}

/* --- for a batch ------------------------------------------------------------------------------ */

struct unserved {
    const struct kiln_roster *roster;
    struct kiln_text names;
    size_t count;
    const char *why; /* of the first one */
};

static int note_model(void *arg, const char *model, struct kiln_error *err)
{
    struct unserved *unserved = arg;
    (void)err;
    const char *why = kiln_blocked_by_model(unserved->roster, model);
    if (!why)
        return 0;
    if (unserved->count == 0)
        unserved->why = why;
    if (unserved->count++ < NAMED_MAX)
        kiln_text_printf(&unserved->names, "%s'%s'", unserved->count > 1 ? ", " : "", model);
    return 0;
}

static int find_models(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                       const struct kiln_roster *roster, char *out, size_t size,
                       struct kiln_error *err)
{
    struct unserved unserved = {.roster = roster};
    int rc = kiln_ledger_waiting_models(ledger, kiln_pool(cli), batch, note_model, &unserved, err);
    if (rc == 0 && unserved.count > NAMED_MAX)
        kiln_text_printf(&unserved.names, " and %zu more", unserved.count - NAMED_MAX);
    if (rc == 0 && unserved.count && !unserved.names.failed)
        snprintf(out, size, "its jobs need model%s %s, which %s", unserved.count > 1 ? "s" : "",
                 unserved.names.at,
                 unserved.count > 1 ? "no worker that takes jobs has" : unserved.why);
    kiln_text_release(&unserved.names);
    return rc;
}

struct held {
    const struct kiln_pauses *pauses;
    const struct kiln_pause *by; /* of the first sort */
    bool free, others;           /* a sort that is not paused; one that another pause matches */
};

static int note_held(void *arg, const struct kiln_waiting_row *sort, struct kiln_error *err)
{
    struct held *held = arg;
    (void)err;
    const struct kiln_policy_job job = {.batch_id = sort->batch_id,
                                        .model = sort->model,
                                        .lora_set = sort->lora_set,
                                        .tenant = sort->tenant,
                                        .width = sort->width,
                                        .height = sort->height,
                                        .steps = sort->steps,
                                        .mode = sort->mode,
                                        .priority = sort->priority};
    const struct kiln_pause *by = kiln_pauses_find(held->pauses, &job);
    held->free = held->free || !by;
    held->others = held->others || (held->by && by != held->by);
    held->by = held->by ? held->by : by;
    return 0;
}

/* The pause of all queued jobs of the batch; "" while one of them is not paused. */
static int find_pauses(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                       char *out, size_t size, struct kiln_error *err)
{
    struct kiln_pauses pauses = {0};
    struct held held = {.pauses = &pauses};
    char text[KILN_PAUSE_NAME_MAX + 512];
    int rc = kiln_ledger_pauses(ledger, kiln_pool(cli), false, kiln_pauses_keep, &pauses, err);
    if (rc == 0 && pauses.count)
        rc = kiln_ledger_waiting_sorts(ledger, kiln_pool(cli), batch, note_held, &held, err);
    if (rc == 0 && held.by && !held.free) {
        kiln_pause_text(held.by, text, sizeof text);
        snprintf(out, size, "%s%s", text, held.others ? "; its other jobs are paused as well" : "");
    }
    kiln_pauses_release(&pauses);
    return rc;
}

/* Why the batch waits; "" if it does not.  *ret_next: what to do about it. */
static int find_reason(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                       char *out, size_t size, const char **ret_next, struct kiln_error *err)
{
    struct kiln_roster roster = {0};
    bool led = false;
    out[0] = '\0';
    *ret_next = "`kiln status` lists the pauses";
    int rc = find_pauses(cli, ledger, batch, out, size, err);
    if (rc || out[0])
        return rc;
    rc = kiln_ledger_led(ledger, kiln_pool(cli), &led, err);
    if (rc == 0 && !led) {
        snprintf(out, size, "no scheduler leads pool %s", kiln_pool(cli));
        *ret_next = "start kiln-scheduler, or `kiln up` for a private stack";
        return 0;
    }
    if (rc == 0)
        rc = kiln_roster_load(cli, &roster, err);
    *ret_next = "start workers: `kiln worker start` on this machine, `kiln up --workers N` in a "
                "private stack";
    if (rc == 0 && !kiln_blocked_by_workers(&roster, kiln_pool(cli), out, size)) {
        *ret_next = "`kiln workers --json` shows their models; start a worker with that model, "
                    "or cancel the batch";
        rc = find_models(cli, ledger, batch, &roster, out, size, err);
    }
    kiln_roster_release(&roster);
    return rc;
}

void kiln_blocked_say(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                      struct kiln_bar *bar, struct kiln_blocked_said *told)
{
    char text[sizeof told->text];
    const char *next;
    struct kiln_error err;
    double start_s = kiln_now_s();
    if (start_s < told->due_s)
        return;
    int rc = find_reason(cli, ledger, batch, text, sizeof text, &next, &err);
    double took_s = kiln_now_s() - start_s;
    double rest_s = rc == 0 && !text[0] ? LOOK_SELDOM_S : LOOK_EVERY_S;
    told->due_s = start_s + took_s + rest_s + SLOW_LATER * took_s;
    if (rc || strcmp(text, told->text) == 0)
        return;
    snprintf(told->text, sizeof told->text, "%s", text);
    if (!text[0])
        return;
    kiln_bar_end(bar);
    kiln_say(cli, "batch %s waits: %s", batch, text);
    kiln_say(cli, "      %s; the wait continues", next);
}
