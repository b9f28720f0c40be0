/* control.c - control messages to the scheduler, queries, and `kiln drain`.
 *
 * A control message is a hint: what must not be lost is in the ledger before it is sent.  Only a
 * drain is not, since it changes no job; so it fails without the bus.
 */
#include "scheduler/cli/fleet/control.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/stack/guard.h"
#include "storage/bus/bus.h"

#define ANSWER_MS 2000
#define CONTROL_LENGTH 10000 /* of the stream: messages are handled within milliseconds */

static int send_control(struct kiln_cli *cli, const struct kiln_control *control,
                        struct kiln_error *err)
{
    char *text = kiln_control_encode(control);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a control message");
    struct kiln_bus *bus = NULL;
    int rc = kiln_open_bus(cli, &bus, err);
    if (rc == 0) {
        char key[256];
        kiln_wire_key(key, sizeof key, kiln_pool(cli), "control", NULL);
        rc = kiln_bus_append(bus, key, CONTROL_LENGTH, (const char *const[]){"order", text},
                             (const size_t[]){5, strlen(text)}, 1, err);
    }
    kiln_bus_close(bus);
    free(text);
    return rc;
}

void kiln_control_notify(struct kiln_cli *cli, const struct kiln_control *control)
{
    struct kiln_error err;
    if (send_control(cli, control, &err))
        kiln_say(cli, "recorded in the ledger; the scheduler will read it there (%s)", err.text);
}

int kiln_cancel_batch(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                      uint64_t *ret_count, struct kiln_error *err)
{
    struct kiln_control control = {.kind = KILN_CONTROL_CANCEL_BATCH, .recorded = true};
    int rc = kiln_ledger_cancel(ledger, kiln_pool(cli), 0, batch, ret_count, err);
    if (rc)
        return rc;
    snprintf(control.id, sizeof control.id, "%s", batch);
    if (*ret_count > 0)
        kiln_control_notify(cli, &control);
    return 0;
}

/* --- queries -----------------------------------------------------------------------------------
 */

int kiln_query(struct kiln_cli *cli, struct kiln_control question, json_t **ret,
               struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    struct timespec now;
    char *text = NULL, key[512];
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(question.id, sizeof question.id, "q-%llx-%lx-%lx", (unsigned long long)now.tv_sec,
             (unsigned long)now.tv_nsec, (unsigned long)getpid());
    question.kind = KILN_CONTROL_ASK;
    *ret = NULL;
    int rc = send_control(cli, &question, err);
    kiln_wire_key(key, sizeof key, kiln_pool(cli), "answer", question.id);
    if (rc == 0)
        rc = kiln_open_bus(cli, &bus, err);
    if (rc == 0)
        rc = kiln_bus_pop(bus, key, ANSWER_MS, &text, err);
    kiln_bus_close(bus);
    if (rc == 0 && text) {
        json_error_t why;
        *ret = json_loads(text, 0, &why);
        if (!json_is_object(*ret)) {
            json_decref(*ret);
            *ret = NULL;
            rc = kiln_fail(err, KILN_PROTOCOL, "the scheduler's answer is not JSON: %s", why.text);
        }
    }
    free(text);
    return rc;
}

/* --- kiln drain ------------------------------------------------------------------------------- */

#define DRAIN_LIMIT_S 600 /* unless --timeout says otherwise */
#define REMIND_S 3        /* a heartbeat, and time to read it */

/* The worker of a private stack whose files have that name (worker-0, its id in earlier releases),
 * or NULL. */
static const struct kiln_roster_worker *
find_by_files(const struct kiln_cli *cli, const struct kiln_roster *roster, const char *name)
{
    struct kiln_stack stack;
    struct kiln_error err;
    char id[KILN_PROCESS_NAME_MAX] = "";
    char *conf = kiln_stack_worker_number(name) >= 0 && cli->config_path
                     ? realpath(cli->config_path, NULL)
                     : NULL;
    if (conf && kiln_stack_open(&stack, dirname(conf), false, &err) == 0)
        kiln_guard_id(&stack, name, id);
    free(conf);
    return kiln_roster_find(roster, id);
}

/* The live worker that is meant, by its name or else by its device; the error names the nearest of
 * those that live, or two that may be meant. */
static int find_worker(const struct kiln_cli *cli, const struct kiln_roster *roster,
                       const char *name, char out[KILN_NAME_MAX + 1], struct kiln_error *err)
{
    struct kiln_suggest near = {0};
    const struct kiln_roster_worker *worker = kiln_roster_find(roster, name), *other = NULL;
    int rc = 0;
    worker = worker ? worker : find_by_files(cli, roster, name);
    worker = worker && worker->live ? worker : NULL;
    for (int by_device = 0; !worker && by_device < 2; by_device++)
        for (size_t i = 0; i < roster->count; i++) {
            const struct kiln_worker_row *row = &roster->at[i].row;
            char device[KILN_PROCESS_NAME_MAX];
            kiln_worker_name_of(row->host, row->device, 0, device);
            if (roster->at[i].live && kiln_worker_meant(by_device ? device : row->name, name)) {
                other = other ? other : worker;
                worker = &roster->at[i];
            }
        }
    if (other)
        return kiln_fail(err, KILN_BAD_INPUT, "'%s' may be %s or %s; give the whole name", name,
                         other->row.name, worker->row.name);
    if (worker) {
        snprintf(out, KILN_NAME_MAX + 1, "%s", worker->row.name);
        return 0;
    }
    for (size_t i = 0; i < roster->count && rc == 0; i++)
        if (roster->at[i].live)
            rc = kiln_suggest_add(&near, roster->at[i].row.name, err);
    return kiln_suggest_refuse(&near, rc, "live worker", name, err);
}

/* How many of the workers that were live before the drain still are: the same processes, since new
 * ones may have their names. */
static size_t still_there(const struct kiln_roster *before, const struct kiln_roster *now,
                          const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < before->count; i++) {
        const struct kiln_roster_worker *was = &before->at[i];
        if (!was->live || (name[0] && strcmp(was->row.name, name) != 0))
            continue;
        const struct kiln_roster_worker *is = kiln_roster_find(now, was->row.name);
        count += is && is->live && strcmp(is->beat.incarnation, was->beat.incarnation) == 0;
    }
    return count;
}

/* Repeats the drain for workers that do not drain yet: the scheduler passes it on to the workers
 * it knows, and one that has just started is not among them. */
static int remind(struct kiln_cli *cli, const struct kiln_roster *before,
                  const struct kiln_roster *now, const char *name, struct kiln_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < now->count && rc == 0; i++) {
        const struct kiln_roster_worker *worker = &now->at[i];
        struct kiln_control control = {.kind = KILN_CONTROL_DRAIN};
        const struct kiln_roster_worker *was = kiln_roster_find(before, worker->row.name);
        if (!worker->live || worker->beat.draining || !was || !was->live ||
            strcmp(was->beat.incarnation, worker->beat.incarnation) != 0 ||
            (name[0] && strcmp(worker->row.name, name) != 0))
            continue;
        snprintf(control.id, sizeof control.id, "%s", worker->row.name);
        rc = send_control(cli, &control, err);
    }
    return rc;
}

static int wait_drained(struct kiln_cli *cli, const struct kiln_roster *before, const char *name,
                        double limit_s, struct kiln_error *err)
{
    double again_s = kiln_now_s() + REMIND_S;
    for (double until = kiln_now_s() + limit_s;;) {
        struct kiln_roster now;
        int rc = kiln_roster_load(cli, &now, err);
        if (rc)
            return rc;
        size_t left = still_there(before, &now, name);
        if (left > 0 && kiln_now_s() > again_s) {
            rc = remind(cli, before, &now, name, err);
            again_s = kiln_now_s() + REMIND_S;
        }
        kiln_roster_release(&now);
        if (rc || left == 0)
            return rc;
        if (kiln_now_s() > until)
            return kiln_fail(err, KILN_TIMEOUT, "%zu worker%s still running after %.0f s", left,
                             left == 1 ? " is" : "s are", limit_s);
        kiln_sleep_s(0.1);
    }
}

/* Sends the message, and waits if wait_s is above 0.  word NULL: all workers; else name becomes the
 * one that is meant. */
static int drain(struct kiln_cli *cli, char name[KILN_NAME_MAX + 1], const char *word,
                 double wait_s, struct kiln_error *err)
{
    struct kiln_control control = {.kind = KILN_CONTROL_DRAIN};
    struct kiln_roster before;
    int rc = kiln_roster_load(cli, &before, err);
    if (rc)
        return rc;
    name[0] = '\0';
    if (word)
        rc = find_worker(cli, &before, word, name, err);
    snprintf(control.id, sizeof control.id, "%s", name);
    if (rc == 0)
        rc = send_control(cli, &control, err);
    if (rc == 0 && before.live == 0)
        kiln_say(cli, "no worker is alive in pool %s", kiln_pool(cli));
    else if (rc == 0)
        kiln_say(cli, "%s: finishes its batch, returns its other jobs and ends",
                 name[0] ? name : "each worker");
    if (rc == 0 && wait_s > 0)
        rc = wait_drained(cli, &before, name, wait_s, err);
    kiln_roster_release(&before);
    return rc;
}

int kiln_verb_drain(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    long limit_s;
    int status = kiln_arg_int(cli, args, "timeout", 1, 86400, DRAIN_LIMIT_S, &limit_s);
    if (status)
        return status;
    bool all = kiln_arg(args, "all") != NULL, wait = kiln_arg(args, "wait") != NULL;
    if (all == (args->rest_count == 1))
        return kiln_usage(cli, "name one worker, or give --all");
    if (!wait && kiln_arg(args, "timeout"))
        return kiln_usage(cli, "--timeout needs --wait");
    char question[KILN_NAME_MAX + 80];
    snprintf(question, sizeof question, "Every worker of pool %s will finish its batch and end.",
             kiln_pool(cli));
    if (all && !kiln_confirm(cli, kiln_arg(args, "yes") != NULL, question))
        return EX_USAGE;
    char name[KILN_NAME_MAX + 1];
    if (drain(cli, name, all ? NULL : args->rest[0], wait ? (double)limit_s : 0, &err))
        return kiln_report(cli, &err);
    if (wait)
        kiln_say(cli, "%s ended", all ? "all workers have" : name);
    return cli->json ? kiln_print_json(cli, json_pack("{s:s, s:b}", "draining", all ? "all" : name,
                                                      "ended", wait))
                     : 0;
}
