/* backfill.c - `kiln backfill add|ls|show|pause|resume|rm`.
 *
 * The jobs of a backfill are those of its batch, so `kiln jobs`, `export` and `cancel` work on them
 * as on any others.
 */
#include "scheduler/cli/fleet/backfill.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/control.h"
#include "scheduler/cli/fleet/pause.h"
#include "scheduler/intake/window.h"
#include "scheduler/pauses.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/queue/backfill.h"

struct backfills {
    struct kiln_listing listing;
    struct kiln_pauses pauses;
    bool whole; /* show: everything, not a line */
};

/* --- its state -------------------------------------------------------------------- */
static const struct kiln_pause *pause_of(const struct backfills *list,
                                         const struct kiln_backfill_row *row)
{
    const struct kiln_policy_job job = {.batch_id = row->batch_id,
                                        .model = "",
                                        .lora_set = "",
                                        .tenant = "",
                                        .priority = KILN_PRIORITY_BACKFILL};
    return row->held ? kiln_pauses_find(&list->pauses, &job) : NULL;
}

static const char *state_of(const struct backfills *list, const struct kiln_backfill_row *row)
{
    const struct kiln_pause *pause = pause_of(list, row);
    if (row->error)
        return "failed";
    if (row->ended)
        return "ended";
    if (pause)
        return pause->scope == KILN_SCOPE_WINDOW ? "closed" : "paused";
    return row->lines ? "active" : "asleep";
}

static void backfill_json(struct kiln_text *out, const struct backfills *list,
                          const struct kiln_backfill_row *row)
{
    const struct kiln_backfill_spec *spec = &row->spec;
    const struct kiln_window window = {spec->window_from, spec->window_to};
    const struct kiln_pause *pause = pause_of(list, row);
    char paused[1024] = "", hours[16];
    if (pause)
        kiln_pause_text(pause, paused, sizeof paused);
    kiln_window_text(&window, hours, sizeof hours);
    kiln_json_put(
        out,
        "{order:s state:s held_by:s error:s batch:s jobs:c made:u gpu_seconds:d prompts:u "
        "pass_jobs:u passes:d mark:u",
        spec->name, state_of(list, row), paused[0] ? paused : NULL, row->error, row->batch,
        &row->jobs, row->made, row->gpu_seconds, row->lines, spec->pass_jobs,
        (double)row->cursor / (double)spec->pass_jobs, spec->mark);
    kiln_json_put(out, spec->rate > 0 ? "rate_per_hour:d" : "rate_per_hour:n", spec->rate);
    kiln_json_put(out, spec->until_jobs ? "until_jobs:u" : "until_jobs:n", spec->until_jobs);
    kiln_json_put(out, "until:t window:s seed_policy:s set:s who:s created_at:t topped_up_at:t}\n",
                  spec->until_ms, hours[0] ? hours : NULL, spec->seed_fixed ? "fixed" : "fresh",
                  spec->overrides[0] ? spec->overrides : NULL, spec->who, row->created_ms,
                  row->topped_ms);
}

static void backfill_text(struct kiln_text *out, const struct backfills *list,
                          const struct kiln_backfill_row *row)
{
    const struct kiln_backfill_spec *spec = &row->spec;
    const struct kiln_window window = {spec->window_from, spec->window_to};
    const struct kiln_pause *pause = pause_of(list, row);
    char text[1024], time[32];
    kiln_text_printf(out, "backfill %s  %s\n", spec->name, state_of(list, row));
    if (row->error) {
        kiln_text_puts(out, "  failed: ");
        kiln_text_safe(out, row->error);
        kiln_text_printf(out, "; correct it, then `kiln backfill resume %s`\n", spec->name);
    }
    if (pause) {
        kiln_pause_text(pause, text, sizeof text);
        kiln_text_puts(out, "  paused     ");
        kiln_text_safe(out, text);
        kiln_text_puts(out, "\n");
    }
    kiln_text_printf(out, "  batch      %s\n", row->batch);
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        kiln_text_printf(out, "  %-10s %llu\n", kiln_job_state_name((enum kiln_job_state)state),
                         (unsigned long long)row->jobs.at[state]);
    kiln_text_printf(out, "  made       %llu jobs, %.2f passes of %llu (%llu prompts)\n",
                     (unsigned long long)row->made, (double)row->cursor / (double)spec->pass_jobs,
                     (unsigned long long)spec->pass_jobs, (unsigned long long)row->lines);
    kiln_text_printf(out, "  spent      %.1f GPU-seconds\n", row->gpu_seconds);
    kiln_text_printf(out, "  low-water  %llu queued or assigned\n", (unsigned long long)spec->mark);
    if (spec->rate > 0)
        kiln_text_printf(out, "  rate       %g/h\n", spec->rate);
    if (spec->until_jobs)
        kiln_text_printf(out, "  until      %llu jobs\n", (unsigned long long)spec->until_jobs);
    if (spec->until_ms)
        kiln_text_printf(out, "  until      %s\n",
                         kiln_short_time(spec->until_ms, time, sizeof time));
    kiln_window_text(&window, text, sizeof text);
    if (text[0])
        kiln_text_printf(out, "  window     %s by the scheduler's clock\n", text);
    kiln_text_printf(out, "  seeds      %s\n", spec->seed_fixed ? "fixed" : "fresh");
    if (spec->overrides[0])
        kiln_text_printf(out, "  set        %s\n", spec->overrides);
    kiln_text_printf(out, "  added      %s by %s\n",
                     kiln_short_time(row->created_ms, time, sizeof time), spec->who);
    kiln_text_printf(out, "  topped up  %s\n", kiln_short_time(row->topped_ms, time, sizeof time));
}

static int list_backfill(void *arg, const struct kiln_backfill_row *row, struct kiln_error *err)
{
    struct backfills *list = arg;
    struct kiln_text *line = &list->listing.line;
    const uint64_t *at = row->jobs.at;
    if (list->listing.cli->json)
        backfill_json(line, list, row);
    else if (list->whole)
        backfill_text(line, list, row);
    else {
        kiln_text_cell(line, list->listing.cli->columns, row->spec.name, 16);
        kiln_text_printf(line,
                         " %-7s %6" PRIu64 " %6" PRIu64 " %8" PRIu64 " %8" PRIu64 " %6" PRIu64
                         " %8.0f %7.2f\n",
                         state_of(list, row), row->spec.mark, at[KILN_JOB_QUEUED],
                         at[KILN_JOB_ASSIGNED], at[KILN_JOB_DONE], at[KILN_JOB_FAILED],
                         row->gpu_seconds, (double)row->cursor / (double)row->spec.pass_jobs);
    }
    return kiln_listing_put(&list->listing, err);
}

/* --- unknown names ---------------------------------------------------------------------------- */
static int add_name(void *arg, const struct kiln_backfill_row *row, struct kiln_error *err)
{
    return kiln_suggest_add(arg, row->spec.name, err);
}

/* --- ls, show, rm ----------------------------------------------------------------------------- */
static int list(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *name)
{
    struct backfills backfills = {.listing = {.cli = cli, .none = "no backfills", .hang = 13},
                                  .whole = name != NULL};
    struct kiln_error err;
    int rc = kiln_ledger_pauses(ledger, kiln_pool(cli), false, kiln_pauses_keep, &backfills.pauses,
                                &err);
    if (!name)
        kiln_listing_head(&backfills.listing, "%-16s %-7s %6s %6s %8s %8s %6s %8s %7s", "BACKFILL",
                          "STATE", "LOW", "QUEUED", "ASSIGNED", "DONE", "FAILED", "GPU-SEC",
                          "PASSES");
    if (rc == 0)
        rc = kiln_ledger_backfills(ledger, kiln_pool(cli), name, list_backfill, &backfills, &err);
    kiln_pauses_release(&backfills.pauses);
    return kiln_listing_end(&backfills.listing, rc, &err);
}

static int keep_batch(void *arg, const struct kiln_backfill_row *row, struct kiln_error *err)
{
    (void)err;
    snprintf(arg, KILN_BATCH_NAME_MAX + 1, "%s", row->batch);
    return 0;
}

/* The backfill first: from then on no job is added to those that are cancelled next. */
static int remove_backfill(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *name,
                           bool yes)
{
    char batch[KILN_BATCH_NAME_MAX + 1] = "", question[256];
    struct kiln_error err;
    uint64_t cancelled = 0;
    bool left;
    snprintf(question, sizeof question,
             "Backfill %s will be removed and its queued jobs cancelled; its pictures stay.", name);
    if (!kiln_confirm(cli, yes, question))
        return EX_USAGE;
    int rc = kiln_ledger_backfills(ledger, kiln_pool(cli), name, keep_batch, batch, &err);
    if (rc == 0)
        rc = kiln_ledger_backfill_remove(ledger, kiln_pool(cli), name, &left, &err);
    if (rc)
        return kiln_report(cli, &err);
    rc = left ? kiln_cancel_batch(cli, ledger, batch, &cancelled, &err) : 0;
    if (rc) {
        kiln_warn(cli, "the backfill is removed, but its jobs are not cancelled: `kiln cancel %s`",
                  batch);
        return kiln_report(cli, &err);
    }
    if (left)
        kiln_say(cli, "Removed backfill %s and cancelled %s; its pictures stay in batch %s", name,
                 KILN_COUNT(cancelled, "job"), batch);
    else
        kiln_say(cli, "Removed backfill %s, which had made no jobs, and its empty batch %s", name,
                 batch);
    return cli->json ? kiln_print_json(cli, json_pack("{s:s, s:s?, s:I}", "removed", name, "batch",
                                                      left ? batch : NULL, "cancelled",
                                                      (json_int_t)cancelled))
                     : 0;
}

/* --- the verb --------------------------------------------------------------------------------- */
enum action { ADD, LS, SHOW, PAUSE, RESUME, RM, ACTIONS };
static const char *const actions[ACTIONS] = {"add", "ls", "show", "pause", "resume", "rm"};

static int run_action(struct kiln_cli *cli, const struct kiln_args *args, enum action action,
                      const char *name)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_suggest near = {0};
    struct kiln_error err;
    bool reads = action == LS || action == SHOW;
    int rc = reads ? kiln_open_reader(cli, &ledger, &err) : kiln_open_ledger(cli, &ledger, &err);
    int status;
    if (rc == 0 && name)
        rc = kiln_ledger_backfills(ledger, kiln_pool(cli), NULL, add_name, &near, &err);
    if (rc == 0 && name && !kiln_suggest_has(&near, name))
        rc = kiln_suggest_refuse(&near, 0, "backfill", name, &err);
    kiln_suggest_release(&near);
    if (rc == 0 && action == RESUME)
        rc = kiln_ledger_backfill_restart(ledger, kiln_pool(cli), name, &err);
    if (rc)
        status = kiln_report(cli, &err);
    else if (action == PAUSE || action == RESUME)
        status = kiln_pause_set(cli, ledger, KILN_SCOPE_ONE_BACKFILL, name, action == PAUSE,
                                kiln_arg(args, "reason"));
    else if (action == RM)
        status = remove_backfill(cli, ledger, name, kiln_arg(args, "yes") != NULL);
    else
        status = list(cli, ledger, name);
    kiln_ledger_close(ledger);
    return status;
}

/* Options belong to add, but for --reason and --yes. */
static int check_options(struct kiln_cli *cli, const struct kiln_args *args, enum action action)
{
    for (int i = 0; i < args->given_count; i++) {
        const char *option = args->given[i].option->name;
        bool reason = strcmp(option, "reason") == 0, yes = strcmp(option, "yes") == 0;
        bool fits = reason ? action == PAUSE || action == RESUME
                    : yes  ? action == RM
                           : action == ADD;
        if (!fits)
            return kiln_usage(cli, "--%s is not for `backfill %s`", option, actions[action]);
    }
    return 0;
}

int kiln_verb_backfill(struct kiln_cli *cli, const struct kiln_args *args)
{
    int action = 0;
    while (action < ACTIONS && strcmp(actions[action], args->rest[0]) != 0)
        action++;
    if (action == ACTIONS)
        return kiln_usage(cli,
                          "unknown subcommand '%.40s'; use add, ls, show, pause, resume "
                          "or rm",
                          args->rest[0]);
    if ((action == LS) != (args->rest_count == 1))
        return kiln_usage(cli,
                          action == LS
                              ? "`backfill ls` takes no name: it lists all; `show` takes one"
                              : "name the backfill: kiln backfill %s NAME",
                          args->rest[0]);
    int status = check_options(cli, args, (enum action)action);
    if (status)
        return status;
    const char *name = args->rest_count == 2 ? args->rest[1] : NULL;
    return action == ADD ? kiln_backfill_add(cli, args, name)
                         : run_action(cli, args, (enum action)action, name);
}
