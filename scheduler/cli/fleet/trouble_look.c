/* trouble_look.c - the facts behind trouble.h, and telling them while a command waits.
 *
 * A look reads the heartbeats, and all queued jobs once: it groups them by model, or those of a
 * batch by what pauses can match if the first of them are paused.  That takes a fraction of a
 * second for a million jobs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/pauses.h"
#include "schemas/clock.h"
#include "schemas/wire/wire.h"
#include "storage/bus/doctor.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/webhook.h"

#define LOOK_EVERY_S (KILN_TROUBLE_LOOK_MS / 1e3)
#define SLOW_LATER 9           /* so a slow server costs a tenth of the wait */
#define BLOCKED_FRESH_MS 30000 /* the scheduler renews the reason every five seconds */
#define PAUSED_MAX (KILN_PAUSE_NAME_MAX + 640)
#define BLOCKED_AHEAD_MS 60000 /* by how much the clock of Redis may be set back */

/* --- models that queued jobs need ------------------------------------------------------------- */

static int note_model(void *arg, const char *model, struct kiln_error *err)
{
    (void)err;
    kiln_needed_add(arg, model);
    return 0;
}

static int note_group(void *arg, const struct kiln_group_row *group, struct kiln_error *err)
{
    return group->queued ? note_model(arg, group->model, err) : 0;
}

/* --- the pause of all queued jobs of a batch ---------------------------------------------------
 */

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

int kiln_troubles_pause(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                        bool first, char *out, size_t size, struct kiln_error *err)
{
    struct kiln_pauses pauses = {0};
    struct held held = {.pauses = &pauses};
    char text[KILN_PAUSE_NAME_MAX + 512];
    out[0] = '\0';
    int rc = kiln_ledger_pauses(ledger, kiln_pool(cli), false, kiln_pauses_keep, &pauses, err);
    for (size_t i = 0; i < pauses.count && !batch; i++)
        if (pauses.at[i].scope == KILN_SCOPE_ALL)
            held.by = &pauses.at[i];
    if (rc == 0 && pauses.count && batch)
        rc = kiln_ledger_waiting_sorts(ledger, kiln_pool(cli), batch, true, note_held, &held, err);
    if (rc == 0 && pauses.count && batch && !first &&
        !held.free) /* one that is not paused is enough */
        rc = kiln_ledger_waiting_sorts(ledger, kiln_pool(cli), batch, false, note_held, &held, err);
    if (rc == 0 && held.by && !held.free) {
        kiln_pause_text(held.by, text, sizeof text);
        snprintf(out, size, "%s%s", text, held.others ? "; its other jobs are paused as well" : "");
    }
    kiln_pauses_release(&pauses);
    return rc;
}

struct each_text {
    bool people;
    void (*each)(void *arg, const char *text);
    void *arg;
};

static int tell_pause(void *arg, const struct kiln_pause *pause, struct kiln_error *err)
{
    const struct each_text *to = arg;
    char text[KILN_PAUSE_NAME_MAX + 512];
    (void)err;
    if (to->people && (pause->scope == KILN_SCOPE_WINDOW || pause->scope == KILN_SCOPE_QUOTA))
        return 0;
    kiln_pause_text(pause, text, sizeof text);
    to->each(to->arg, text);
    return 0;
}

int kiln_troubles_pauses(struct kiln_cli *cli, struct kiln_ledger *ledger, bool people,
                         void (*each)(void *arg, const char *text), void *arg,
                         struct kiln_error *err)
{
    struct each_text to = {people, each, arg};
    return kiln_ledger_pauses(ledger, kiln_pool(cli), false, tell_pause, &to, err);
}

/* --- the bus ---------------------------------------------------------------------------------- */

void kiln_intake_blocked(struct kiln_bus *bus, const char *pool, int64_t now_ms, char *out,
                         size_t size, double *ret_s)
{
    char key[KILN_NAME_MAX + 64];
    struct kiln_bus_entries entries = {0};
    const struct kiln_bus_entry *entry;
    kiln_wire_key(key, sizeof key, pool, "blocked", NULL);
    out[0] = '\0';
    *ret_s = 0;
    if (kiln_bus_newest(bus, key, &entries, &entry, NULL) || !entry)
        return;
    int64_t age_ms = now_ms - (int64_t)strtoll(entry->id, NULL, 10);
    if (age_ms > BLOCKED_FRESH_MS || age_ms < -BLOCKED_AHEAD_MS)
        return;
    kiln_safe_line(kiln_bus_field(entry, "error"), out, size);
    *ret_s = strtod(kiln_bus_field(entry, "blocked_ms"), NULL) / 1e3;
}

/* What Redis knows; an error is a fact as well. */
static int look_bus(struct kiln_cli *cli, struct kiln_ledger *ledger, struct kiln_roster *roster,
                    char *blocked, size_t size, struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    double blocked_s;
    int64_t now_ms = kiln_wall_ms();
    int rc = kiln_open_bus(cli, &bus, err);
    if (rc == 0) {
        (void)!kiln_bus_time(bus, &now_ms, NULL);
        kiln_intake_blocked(bus, kiln_pool(cli), now_ms, blocked, size, &blocked_s);
        rc = kiln_roster_read(cli, ledger, bus, roster, err);
    }
    kiln_bus_close(bus);
    return rc;
}

/* --- URLs that were not told -------------------------------------------------------------------
 */

/* A clause about the messages that failed within a day or are tried again and again; "" for none.
 */
static int find_webhooks(struct kiln_cli *cli, struct kiln_ledger *ledger, char *out, size_t size,
                         struct kiln_error *err)
{
    struct kiln_webhook_trouble trouble;
    char why[KILN_ERROR_TEXT_MAX];
    out[0] = '\0';
    int rc = kiln_ledger_webhook_trouble(ledger, kiln_pool(cli), &trouble, err);
    if (rc || trouble.failed + trouble.retried == 0)
        return rc;
    kiln_safe_line(trouble.error, why, sizeof why);
    snprintf(out, size, "%s about the end of a batch not delivered%s, the latest of batch %s: %s",
             KILN_COUNT(trouble.failed + trouble.retried, "webhook message"),
             trouble.failed ? "" : " so far", trouble.batch, why);
    return 0;
}

/* What is left to find out: who leads, and all that Redis knows. */
static int look_fleet(struct kiln_cli *cli, struct kiln_ledger *ledger,
                      struct kiln_trouble_facts *facts, struct kiln_roster *ret_roster,
                      struct kiln_error *ret_bus, struct kiln_troubles *ret, struct kiln_error *err)
{
    char blocked[KILN_ERROR_TEXT_MAX] = "", webhook[KILN_ERROR_TEXT_MAX + 256] = "";
    int rc = kiln_ledger_led(ledger, kiln_pool(cli), &facts->led, err);
    if (rc == 0 && facts->of_pool)
        rc = find_webhooks(cli, ledger, webhook, sizeof webhook, err);
    if (rc)
        return rc;
    int lost = look_bus(cli, ledger, ret_roster, blocked, sizeof blocked, ret_bus);
    ret_bus->code = lost;
    facts->pool = kiln_pool(cli);
    facts->intake = blocked;
    facts->webhook = webhook;
    facts->lease_s = kiln_config_number(cli->config, KILN_KEY_LEASE_S);
    facts->redis = lost ? ret_bus->text : NULL;
    facts->roster = lost ? NULL : ret_roster;
    facts->now_ms = kiln_wall_ms();
    kiln_troubles_find(facts, ret);
    facts->intake = facts->webhook = NULL; /* they end here */
    return 0;
}

int kiln_troubles_look_at(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                          const struct kiln_needed *needed, struct kiln_roster *ret_roster,
                          struct kiln_error *ret_bus, struct kiln_troubles *ret,
                          struct kiln_error *err)
{
    char paused[PAUSED_MAX] = "";
    struct kiln_trouble_facts facts = {.paused = paused, .of_pool = true, .needed = needed};
    int rc = kiln_troubles_pause(cli, ledger, batch, false, paused, sizeof paused, err);
    return rc ? rc : look_fleet(cli, ledger, &facts, ret_roster, ret_bus, ret, err);
}

int kiln_troubles_look(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                       struct kiln_troubles *ret, struct kiln_error *err)
{
    const char *pool = kiln_pool(cli);
    char paused[PAUSED_MAX] = "";
    struct kiln_needed needed = {.count = 0};
    struct kiln_roster roster = {0};
    struct kiln_error bus;
    struct kiln_trouble_facts facts = {.paused = paused, .of_pool = !batch, .needed = &needed};
    int rc = kiln_troubles_pause(cli, ledger, batch, false, paused, sizeof paused, err);
    if (rc == 0 && !(batch && paused[0])) /* else nothing but the pause is told */
        rc = batch ? kiln_ledger_waiting_models(ledger, pool, batch, note_model, &needed, err)
                   : kiln_ledger_groups(ledger, pool, note_group, &needed, err);
    if (rc == 0)
        rc = look_fleet(cli, ledger, &facts, &roster, &bus, ret, err);
    kiln_roster_release(&roster);
    return rc;
}

/* --- while a command waits ---------------------------------------------------------------------
 */

void kiln_troubles_say(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                       struct kiln_bar *bar, struct kiln_troubles_said *said)
{
    struct kiln_troubles now;
    const struct kiln_trouble *fresh[KILN_TROUBLES_MAX];
    struct kiln_error err;
    double start_s = kiln_now_s();
    if (start_s < said->due_s)
        return;
    int rc = kiln_troubles_look(cli, ledger, batch, &now, &err);
    double took_s = kiln_now_s() - start_s;
    said->due_s = start_s + took_s + LOOK_EVERY_S + SLOW_LATER * took_s;
    size_t count = rc ? 0 : kiln_troubles_new(&said->last, &now, fresh);
    for (size_t i = 0; i < count; i++) {
        kiln_bar_end(bar);
        kiln_say(cli, "batch %s %s: %s", batch, fresh[i]->stops ? "waits" : "is slowed down",
                 fresh[i]->text);
        kiln_say(cli, "      %s; the wait continues", fresh[i]->next);
    }
}
