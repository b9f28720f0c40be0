/* status.c - `kiln status`, `kiln workers` and `kiln watch`: the same look at the fleet, once or
 * again and again.
 *
 * A look opens its own connections and closes them: a watch that runs for days survives restarts of
 * the servers and holds nothing while it sleeps.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/groups.h"
#include "scheduler/cli/hold.h"
#include "scheduler/cli/progress.h"
#include "scheduler/cli/roster.h"
#include "scheduler/cli/verbs.h"
#include "scheduler/holds.h"
#include "storage/bus.h"
#include "storage/ledger.h"

#define GROUPS_SHOWN 20

struct look {
    struct kiln_cli *cli;
    struct kiln_counts counts;
    struct kiln_roster roster;
    json_t *groups, *holds;
    uint64_t intake;
    bool led, has_batch;
    struct kiln_progress batch;
};

static int add_group(void *arg, const struct kiln_group_row *group, struct kiln_error *err)
{
    struct look *look = arg;
    char since[64], name[KILN_HOLD_NAME_MAX + 1];
    const struct kiln_policy_job job = {.model = group->model,
                                        .lora_set = group->lora_set,
                                        .width = group->width,
                                        .height = group->height,
                                        .steps = group->steps};
    (void)err;
    kiln_group_of(&job, name, sizeof name);
    json_array_append_new(
        look->groups,
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:s?}", "group", name, "model",
                  group->model, "loras", group->lora_set, "width", (int)group->width, "height",
                  (int)group->height, "steps", (int)group->steps, "queued",
                  (json_int_t)group->queued, "assigned", (json_int_t)group->assigned, "oldest",
                  group->oldest_ms ? kiln_time_text(group->oldest_ms, since, sizeof since) : NULL));
    return 0;
}

/* What the ledger knows: counts, groups with something to do, whether anybody leads. */
static int look_ledger(struct look *look, const char *batch, struct kiln_error *err)
{
    const char *pool = kiln_pool(look->cli);
    struct kiln_ledger *ledger = NULL;
    int rc = kiln_open_ledger(look->cli, &ledger, err);
    if (rc == 0)
        rc = kiln_ledger_counts(ledger, pool, &look->counts, err);
    if (rc == 0)
        rc = kiln_ledger_groups(ledger, pool, add_group, look, err);
    if (rc == 0 && !(look->holds = kiln_holds_json(look->cli, ledger, err)))
        rc = err->code;
    if (rc == 0)
        rc = kiln_ledger_led(ledger, pool, &look->led, err);
    if (rc == 0 && batch) {
        rc = kiln_ledger_progress(ledger, pool, batch, &look->batch, err);
        look->has_batch = rc == 0;
    }
    kiln_ledger_close(ledger);
    return rc;
}

/* Lines that are in Redis and not in the ledger yet. */
static int look_intake(struct look *look, struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    char key[256];
    kiln_wire_key(key, sizeof key, kiln_pool(look->cli), "intake", NULL);
    int rc = kiln_open_bus(look->cli, &bus, err);
    if (rc == 0)
        rc = kiln_bus_length(bus, key, &look->intake, err);
    kiln_bus_close(bus);
    return rc;
}

static void look_release(struct look *look)
{
    json_decref(look->groups);
    json_decref(look->holds);
    kiln_roster_release(&look->roster);
}

/* Everything at once; on an error *ret holds nothing. */
static int look_now(struct kiln_cli *cli, const char *batch, struct look *ret,
                    struct kiln_error *err)
{
    *ret = (struct look){.cli = cli, .groups = json_array()};
    int rc = look_ledger(ret, batch, err);
    if (rc == 0)
        rc = kiln_roster_load(cli, &ret->roster, err);
    if (rc == 0)
        rc = look_intake(ret, err);
    if (rc)
        look_release(ret);
    return rc;
}

/* The contract of `kiln status --json`, and more keys beside it. */
static json_t *look_json(const struct look *look)
{
    json_t *value =
        json_pack("{s:s, s:o, s:o, s:O, s:O, s:I, s:b}", "pool", kiln_pool(look->cli), "jobs",
                  kiln_counts_json(&look->counts), "workers",
                  kiln_roster_json(&look->roster, false), "groups", look->groups, "holds",
                  look->holds, "intake", (json_int_t)look->intake, "scheduler", (int)look->led);
    if (look->has_batch)
        json_object_set_new(value, "batch", kiln_counts_json(&look->batch.jobs));
    return value;
}

static void print_counts(const struct kiln_counts *counts)
{
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        printf("%s%llu %s", state ? ", " : "", (unsigned long long)counts->at[state],
               kiln_job_state_name((enum kiln_job_state)state));
    putchar('\n');
}

/* The largest first; a fleet with thousands of LoRA sets has thousands of groups. */
static void print_groups(const struct look *look)
{
    size_t i, total = json_array_size(look->groups);
    json_t *group;
    json_array_foreach(look->groups, i, group)
    {
        if (i == GROUPS_SHOWN) {
            printf("  and %zu groups more\n", total - i);
            break;
        }
        printf("  %-28s  %8lld queued %6lld assigned\n",
               json_string_value(json_object_get(group, "group")),
               (long long)json_integer_value(json_object_get(group, "queued")),
               (long long)json_integer_value(json_object_get(group, "assigned")));
    }
}

static void print_look(const struct look *look)
{
    printf("pool %s: ", kiln_pool(look->cli));
    print_counts(&look->counts);
    if (!look->led)
        puts("no scheduler leads this pool: nothing is handed out");
    size_t i;
    json_t *hold;
    json_array_foreach(look->holds, i, hold)
        printf("held: %s\n", json_string_value(json_object_get(hold, "text")));
    if (look->intake)
        printf("%llu lines wait in the intake stream\n", (unsigned long long)look->intake);
    if (look->roster.live == 0)
        puts("no worker is alive");
    else
        kiln_roster_print(look->cli, &look->roster, false);
    if (json_array_size(look->groups))
        puts("groups:");
    print_groups(look);
}

int kiln_verb_status(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct look look;
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status)
        return status;
    if (kiln_arg(&args, "groups"))
        return kiln_status_groups(cli);
    if (look_now(cli, NULL, &look, &err))
        return kiln_report(cli, &err);
    if (cli->json)
        status = kiln_print_json(cli, look_json(&look));
    else
        print_look(&look);
    look_release(&look);
    return status;
}

int kiln_verb_workers(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct kiln_roster roster;
    int status = kiln_args_parse(cli, argc, argv, 0, 0, &args);
    if (status)
        return status;
    if (kiln_roster_load(cli, &roster, &err))
        return kiln_report(cli, &err);
    if (cli->json)
        status = kiln_print_json(cli, kiln_roster_json(&roster, true));
    else
        kiln_roster_print(cli, &roster, true);
    kiln_roster_release(&roster);
    return status;
}

/* --- watch ------------------------------------------------------------------------------------ */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_no)
{
    interrupted = signal_no;
}

static const struct kiln_counts *shown_counts(const struct look *look)
{
    return look->has_batch ? &look->batch.jobs : &look->counts;
}

/* One line a change, for logs and pipes. */
static void print_change(const struct look *look, struct kiln_counts *last)
{
    if (memcmp(shown_counts(look), last, sizeof *last) == 0)
        return;
    char now[64];
    *last = *shown_counts(look);
    printf("%s  ", kiln_time_text(kiln_wall_ms(), now, sizeof now));
    print_counts(last);
}

/* Plain escape codes that every terminal knows; the list scrolls if it is long. */
static void redraw(const struct look *look, const char *batch)
{
    char now[64];
    fputs("\033[H\033[2J", stdout); /* home, clear */
    printf("kiln watch  %s   (Ctrl-C ends)\n\n", kiln_time_text(kiln_wall_ms(), now, sizeof now));
    if (batch) {
        printf("batch %s: ", batch);
        print_counts(&look->batch.jobs);
    }
    print_look(look);
}

static bool batch_over(const struct look *look)
{
    return look->has_batch && look->batch.whole && look->batch.jobs.at[KILN_JOB_QUEUED] == 0 &&
           look->batch.jobs.at[KILN_JOB_ASSIGNED] == 0;
}

/* Shows one look; *ret_over: the batch that is watched has ended. */
static int watch_once(struct kiln_cli *cli, const char *batch, struct kiln_counts *last,
                      bool *ret_over, int *ret_status, struct kiln_error *err)
{
    struct look look;
    int rc = look_now(cli, batch, &look, err);
    if (rc)
        return rc;
    if (cli->json)
        (void)kiln_print_json(cli, look_json(&look));
    else if (cli->tty_out)
        redraw(&look, batch);
    else
        print_change(&look, last);
    fflush(stdout);
    *ret_over = batch_over(&look);
    *ret_status = *ret_over ? kiln_batch_status(&look.batch) : 0;
    look_release(&look);
    return 0;
}

int kiln_verb_watch(struct kiln_cli *cli, int argc, char **argv)
{
    struct kiln_args args;
    struct kiln_error err;
    struct kiln_counts last;
    long interval;
    bool over = false;
    int status = kiln_args_parse(cli, argc, argv, 0, 1, &args);
    if (status == 0)
        status = kiln_arg_int(cli, &args, "interval", 1, 3600, 1, &interval);
    if (status)
        return status;
    memset(&last, 0xff, sizeof last); /* unlike any */
    const char *batch = args.rest_count ? args.rest[0] : NULL;
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    while (!interrupted && !over && kiln_stdout_ok()) {
        if (watch_once(cli, batch, &last, &over, &status, &err))
            return kiln_report(cli, &err);
        if (!over)
            kiln_sleep_s((double)interval);
    }
    return status;
}
