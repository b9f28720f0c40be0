/* run.c - `kiln run FILE --out DIR`: up, enqueue, wait and export in one command.
 *
 * The batch is named after the file, so the same command continues the same batch: after a Ctrl-C
 * nothing is rendered twice, and after an edit only what changed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/batch_wait.h"
#include "scheduler/cli/fleet/trouble.h"
#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "scheduler/cli/jobs/enqueue/identity.h"
#include "scheduler/cli/jobs/export/export.h"
#include "scheduler/cli/jobs/makespan.h"
#include "scheduler/cli/jobs/on_done.h"
#include "scheduler/cli/stack/stack.h"
#include "storage/daemon/config_file.h"
#include "storage/ledger/ledger.h"
#include "storage/webhook/webhook.h"

/* --- where it runs ---------------------------------------------------------------------------- */

/* Loads the file's settings; flags of the command line still override them. */
static int take_settings(struct kiln_cli *cli, const char *path, struct kiln_error *err)
{
    struct kiln_config *config = NULL;
    int rc = kiln_config_load(path, &config, NULL, err);
    if (rc)
        return rc;
    for (int key = 0; rc == 0 && key < KILN_KEY_COUNT; key++)
        if (strncmp(kiln_config_origin(cli->config, (enum kiln_key)key), "flag", 4) == 0)
            rc = kiln_config_set(config, kiln_keys[key].name,
                                 kiln_config_text(cli->config, (enum kiln_key)key),
                                 kiln_config_origin(cli->config, (enum kiln_key)key), err);
    if (rc == 0)
        rc = kiln_config_check(config, err);
    kiln_config_free(cli->config);
    cli->config = config;
    return rc;
}

/* Where the run takes place. */
struct place {
    struct kiln_cli *cli;
    bool own; /* stack is a private stack that this command looks after */
    struct kiln_stack stack;
    struct kiln_troubles_said said; /* before the batch is in the ledger */
    bool unasked;                   /* the ledger could not be asked, which was said */
};

/* Starts the private stack if needed, or uses the fleet that the settings name. */
static int reach_servers(struct place *place, const char *dir, long workers, struct kiln_error *err)
{
    struct kiln_cli *cli = place->cli;
    char path[PATH_MAX], stack_dir[PATH_MAX];
    kiln_settings_path(cli, path);
    if (!dir && !path[0])
        dir = ".kiln";
    if (!dir && kiln_stack_of(path, stack_dir))
        dir = stack_dir;
    place->own = dir != NULL;
    if (!dir)
        return take_settings(cli, path, err);
    int rc = kiln_stack_up(cli, dir, workers, &place->stack, err);
    if (rc == 0)
        kiln_stack_gallery(&place->stack, cli, -1);
    return rc;
}

/* Without a stack yet: the default size is the one that its model would give it. */
static int take_model_size(struct kiln_cli *cli, struct kiln_error *err)
{
    char programs[PATH_MAX], size[24];
    const char *named = kiln_config_text(cli->config, KILN_KEY_MODEL);
    if (strcmp(kiln_config_origin(cli->config, KILN_KEY_SIZE), "default") != 0)
        return 0;
    char *demo = named[0] || kiln_program_dir(programs, err) ? NULL : kiln_demo_model(programs);
    const char *model = demo ? demo : named;
    int rc = model[0] && kiln_model_size(model, size, sizeof size)
                 ? kiln_config_set(cli->config, "size", size, model, err)
                 : 0;
    free(demo);
    return rc;
}

/* --dry-run, with the settings that the run would have. */
static int plan(struct kiln_cli *cli, const char *dir, const struct kiln_enqueue_request *request)
{
    struct kiln_error err;
    struct kiln_enqueue_result result;
    char path[PATH_MAX];
    if (!dir)
        kiln_settings_path(cli, path);
    else if (access(kiln_join(path, dir, "kiln.conf"), F_OK) != 0)
        path[0] = '\0';
    if (path[0] ? take_settings(cli, path, &err) : take_model_size(cli, &err))
        return kiln_report(cli, &err);
    int status = kiln_enqueue(cli, request, &result);
    if (!path[0] && !result.compared) { /* without a stack every job is new */
        result.compared = true;
        result.accepted = result.plan.jobs;
    }
    int printed = status && status != EX_DATAERR ? 0 : kiln_enqueue_print_plan(cli, &result);
    kiln_enqueue_release(&result);
    return status ? status : printed;
}

/* --- the job ---------------------------------------------------------------------------------- */

/* Restarts what died while we wait: nothing else looks after a private stack. */
static int tend(void *arg, struct kiln_error *err)
{
    struct place *place = arg;
    return place->own ? kiln_stack_tend(&place->stack, place->cli, err) : 0;
}

/* What is in the way of a batch that the scheduler has not taken in. */
static void say_unanswered(void *arg, const char *batch)
{
    struct place *place = arg;
    struct kiln_ledger *ledger = NULL;
    struct kiln_bar none = {0};
    struct kiln_error err;
    if (kiln_open_reader(place->cli, &ledger, &err) == 0)
        kiln_troubles_say(place->cli, ledger, batch, &none, &place->said);
    else if (!place->unasked)
        kiln_say(place->cli, "the ledger cannot be asked what is in the way: %s", err.text);
    place->unasked = place->unasked || !ledger;
    kiln_ledger_close(ledger);
}

/* A private stack outlives the command, so that the next run starts at once. */
static void say_left(const struct place *place)
{
    if (place->own)
        kiln_say(
            place->cli,
            "      the stack in %s keeps running (Redis, Postgres, scheduler, %s%s); `kiln down "
            "--dir %s` stops it",
            place->stack.dir, KILN_COUNT((uint64_t)place->stack.workers, "worker"),
            place->stack.gallery ? ", web gallery" : "", place->stack.dir);
}

/* The batch has ended.  removed: gc has taken rows of it; rendered: it has new jobs. */
static int fetch(struct place *place, struct kiln_export *export, bool removed, bool rendered)
{
    struct kiln_cli *cli = place->cli;
    const char *batch = export->batch, *out = export->out;
    struct kiln_error err;
    if (kiln_export_batch(cli, export, &err))
        return kiln_report(cli, &err);
    /* Not kiln_batch_status: lines that failed or were refused once may have been edited since. */
    bool bad = export->states.at[KILN_JOB_DONE] < export->jobs || removed;
    int status = bad ? 1 : 0;
    if (export->pictures == export->jobs)
        kiln_say(cli, "%s exported", KILN_COUNT(export->pictures, "picture"));
    else
        kiln_say(cli, "%" PRIu64 " of %s exported", export->pictures,
                 KILN_COUNT(export->jobs, "picture"));
    if (status)
        kiln_say(cli, "      why not all: `kiln errors %s`, `kiln show %s`", batch, batch);
    int damaged = kiln_export_status(cli, export);
    status = damaged ? damaged : status;
    if (!cli->json && rendered) /* else the time would be that of an earlier run */
        kiln_say_makespan(cli, batch);
    char *real = realpath(out, NULL);
    int printed = 0;
    if (cli->json) {
        char index[PATH_MAX];
        kiln_join(index, real ? real : out, "index.html");
        printed = kiln_print_json(
            cli, json_pack("{s:s, s:s, s:s, s:o, s:I, s:o?}", "batch", batch, "out", out, "index",
                           index, "jobs", kiln_counts_json(&export->states), "damaged",
                           (json_int_t) export->damaged, "effort", kiln_makespan_json(cli, batch)));
    } else {
        printf("%s/index.html\n", real ? real : out);
    }
    free(real);
    return status ? status : printed;
}

/* rendered: the batch has new jobs.  command: of --on-done, or NULL.  It runs when the pictures are
 * there, or could not be exported. */
static int finish(struct place *place, struct kiln_export *export, bool rendered,
                  const char *command)
{
    struct kiln_cli *cli = place->cli;
    struct kiln_error err;
    struct kiln_progress progress;
    int rc = kiln_wait_batch(cli, export->batch, -1, tend, place, &progress, &err);
    if (rc == KILN_CANCELLED) {
        kiln_warn(cli, "%s; to go on, repeat the command or run `kiln wait %s`", err.text,
                  export->batch);
        return 130;
    }
    if (rc)
        return kiln_report(cli, &err);
    int status = fetch(place, export, progress.removed > 0, rendered);
    return kiln_on_done_run(cli, command, export->batch, &progress, status);
}

/* Before anything is rendered: whether the batch may be exported there. */
static int check_directory(struct kiln_cli *cli, const struct kiln_enqueue_request *request,
                           const struct kiln_export *export, struct kiln_error *err)
{
    struct kiln_export of_batch = *export;
    char own[KILN_BATCH_NAME_MAX + 1], source[KILN_BATCH_NAME_MAX + 1];
    if (!kiln_file_names(request->file, own, source))
        own[0] = '\0'; /* a new batch */
    of_batch.batch = request->batch ? request->batch : own;
    return kiln_export_check(cli, &of_batch, err);
}

int kiln_verb_run(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_enqueue_request request;
    struct kiln_enqueue_result result;
    struct kiln_set sets[KILN_GIVEN_MAX];
    struct place place = {.cli = cli, .stack.lock_fd = -1};
    long workers;
    int status = kiln_arg_int(cli, args, "workers", 1, KILN_STACK_WORKERS_MAX, -1, &workers);
    if (status == 0)
        status = kiln_enqueue_read_args(cli, args, sets, &request);
    if (status)
        return status;
    struct kiln_export export = {.out = kiln_arg(args, "out"), .html = true};
    if (!export.out && !request.dry_run)
        return kiln_usage(cli, "--out DIR is missing");
    status = kiln_export_args(cli, args, &export);
    if (status)
        return status;
    const char *command =
        request.on_done && !kiln_webhook_is_url(request.on_done) ? request.on_done : NULL;
    request.on_done = command ? NULL : request.on_done;
    request.file = args->rest[0];
    if (strcmp(request.file, "-") != 0 && access(request.file, R_OK) != 0) {
        kiln_warn(cli, "%s: %s", request.file, strerror(errno));
        return EX_NOINPUT;
    }
    if (request.dry_run)
        return plan(cli, kiln_arg(args, "dir"), &request);
    if (kiln_export_check(cli, &export, &err))
        return kiln_report(cli, &err);
    if (reach_servers(&place, kiln_arg(args, "dir"), workers, &err)) {
        status = kiln_report(cli, &err);
        if (place.own)
            kiln_stack_say_begun(&place.stack, cli);
        return status;
    }
    if (check_directory(cli, &request, &export, &err)) {
        status = kiln_report(cli, &err);
        say_left(&place);
        return status;
    }
    request.unanswered = say_unanswered;
    request.arg = &place;
    status = kiln_enqueue(cli, &request, &result);
    bool go_on = result.sent > 0 && (status == 0 || status == EX_DATAERR);
    if (go_on) { /* refused lines do not stop the good ones */
        export.batch = result.batch;
        int finished = finish(&place, &export, result.accepted > 0, command);
        status = status ? status : finished;
    }
    say_left(&place);
    kiln_enqueue_release(&result);
    return status;
}
