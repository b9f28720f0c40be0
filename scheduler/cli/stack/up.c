/* up.c - `kiln up`: from an empty directory, or from whatever is left in it, to a running
 * stack.
 *
 * Every step looks first and does only what is missing, in the order in which the parts need each
 * other; so a second `up`, an `up` after a crash and an `up` after a half-finished one are the same
 * code.  What has started keeps running when a later step fails.
 */
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/stack/guard.h"
#include "scheduler/cli/stack/stack.h"
#include "schemas/text/text.h"
#include "storage/ledger/migrate.h"

/* In the order in which the parts need each other. */
static int start_all(struct kiln_stack *stack, struct kiln_cli *cli, bool changed,
                     struct kiln_error *err)
{
    struct kiln_migration migration = {0};
    int rc = kiln_stack_redis(stack, cli, err);
    stack->begun = rc == 0;
    if (rc == 0)
        rc = kiln_stack_postgres(stack, cli, err);
    if (rc == 0)
        rc = kiln_migrate(cli->config, &migration, err);
    if (rc == 0 && migration.from != migration.to)
        kiln_stack_say(cli, "ledger", "schema %d (was %d)", migration.to, migration.from);
    if (rc == 0)
        rc = kiln_stack_scheduler(stack, cli, changed, err);
    return rc ? rc : kiln_stack_workers(stack, cli, changed, err);
}

int kiln_stack_up(struct kiln_cli *cli, const char *dir, long workers, struct kiln_stack *stack,
                  struct kiln_error *err)
{
    struct kiln_devices devices = {.count = 0};
    bool changed = false;
    const bool given = strcmp(kiln_config_origin(cli->config, KILN_KEY_DEVICE), "default") != 0;
    stack->begun = false;
    /* A mistyped path or device is found before a directory is made. */
    int rc = kiln_stack_check_given(cli->config, err);
    if (rc == 0)
        rc = kiln_devices_read(kiln_config_text(cli->config, KILN_KEY_DEVICE), &devices, err);
    if (rc == 0)
        rc = kiln_stack_open(stack, dir, true, err);
    if (rc)
        return rc;
    rc = kiln_stack_lock(stack, err);
    /* --device cpu,cuda:0; the list of the last time stays when none is given. */
    if (rc == 0 && (given || stack->device_count == 0)) {
        memcpy(stack->devices, devices.at, sizeof devices.at);
        stack->device_count = devices.count;
    }
    if (rc == 0)
        rc = kiln_stack_configure(stack, cli, &changed, err);
    if (rc == 0)
        stack->workers = workers >= 0         ? (int)workers
                         : stack->workers < 0 ? stack->device_count
                                              : stack->workers;
    /* Before anything is started: a worker without a model would only end again. */
    if (rc == 0 && stack->workers > 0 && !kiln_config_text(cli->config, KILN_KEY_MODEL)[0] &&
        strcmp(kiln_config_text(cli->config, KILN_KEY_ENGINE), "testcard") != 0)
        rc = kiln_fail(err, KILN_CONFIG,
                       "no model is configured: give --model DIR, a directory in the "
                       "diffusers layout (or --engine testcard to try the queue "
                       "without a model)");
    if (rc == 0)
        rc = kiln_stack_save(stack, err);
    if (rc)
        kiln_stack_unmake(stack);
    if (rc == 0)
        (void)kiln_socket_dirs_sweep(); /* of other stacks, which are gone */
    if (rc == 0)
        rc = start_all(stack, cli, changed, err);
    kiln_stack_close(stack);
    return rc;
}

void kiln_stack_say_begun(const struct kiln_stack *stack, const struct kiln_cli *cli)
{
    if (stack->begun)
        kiln_say(cli,
                 "      the started processes keep running; `kiln up --dir %s` continues, `kiln "
                 "down --dir %s` stops them",
                 stack->dir, stack->dir);
}

/* The name of the first part that should run and does not, or NULL. */
static const char *missing(const struct kiln_stack *stack, char out[KILN_PROCESS_NAME_MAX])
{
    if (!kiln_stack_find_redis(stack))
        return "redis";
    if (!kiln_stack_find_postgres(stack))
        return "postgres";
    if (!kiln_stack_find_scheduler(stack))
        return "scheduler";
    for (int i = 0; i < stack->workers; i++) {
        struct kiln_guard_report report;
        kiln_stack_worker_name(i, out);
        if (!kiln_worker_find(stack, out, NULL, NULL) || /* or the guard was faster */
            (kiln_guard_report(stack, out, &report) && report.restarts > 0))
            return out;
    }
    return stack->workers > 0 && !kiln_guard_find(stack) ? KILN_GUARD_NAME : NULL;
}

int kiln_stack_tend(struct kiln_stack *stack, struct kiln_cli *cli, struct kiln_error *err)
{
    char worker[KILN_PROCESS_NAME_MAX], id[KILN_PROCESS_NAME_MAX];
    const char *name = missing(stack, worker);
    if (!name)
        return 0;
    struct kiln_cli silent = *cli; /* shares the settings, which nothing here replaces */
    silent.quiet = true;
    kiln_guard_id(stack, name, id);
    kiln_say(cli, "%s%s has ended; starting it again (see %s/log/%s.log)",
             cli->progress ? "\r\033[K" : "", /* over the progress bar */
             strcmp(name, KILN_GUARD_NAME) == 0 ? "the guard" : id, stack->dir, name);
    int rc = kiln_stack_lock(stack, err);
    if (rc == 0)
        rc = start_all(stack, &silent, false, err);
    kiln_stack_close(stack);
    return rc;
}

/* 0 as a pid would mean that it died since. */
static json_t *stack_json(const struct kiln_stack *stack)
{
    json_t *pids = json_object();
    json_object_set_new(pids, "redis", json_integer(kiln_stack_find_redis(stack)));
    json_object_set_new(pids, "postgres", json_integer(kiln_stack_find_postgres(stack)));
    json_object_set_new(pids, "scheduler", json_integer(kiln_stack_find_scheduler(stack)));
    if (stack->gallery)
        json_object_set_new(pids, "gallery", json_integer(kiln_stack_find_gallery(stack)));
    for (int i = 0; i < stack->workers; i++) {
        char name[KILN_PROCESS_NAME_MAX];
        kiln_stack_worker_name(i, name);
        json_object_set_new(pids, name, json_integer(kiln_worker_find(stack, name, NULL, NULL)));
    }
    char url[KILN_GALLERY_URL_MAX];
    bool gallery = kiln_stack_gallery_url(stack, url);
    return json_pack("{s:s, s:s, s:i, s:s?, s:o}", "dir", stack->dir, "config", stack->conf,
                     "workers", stack->workers, "gallery", gallery ? url : NULL, "pids", pids);
}

/* What to type next; the path as a shell takes it. */
static void say_ready(const struct kiln_cli *cli, const char *conf)
{
    struct kiln_text word = {0};
    bool plain = conf[strspn(conf, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "/._-+,:@%=")] == '\0';
    for (const char *c = conf; *c; c++) {
        if (*c == '\'')
            kiln_text_puts(&word, "'\\'");
        kiln_text_add(&word, c, 1);
    }
    const char *quote = plain ? "" : "'";
    kiln_say(cli, "ready; next: export KILN_CONFIG=%s%s%s, then kiln enqueue FILE, kiln watch",
             quote, word.at ? word.at : conf, quote);
    kiln_text_release(&word);
}

int kiln_verb_up(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_stack stack;
    struct kiln_error err;
    long workers;
    int status = kiln_arg_int(cli, args, "workers", 0, KILN_STACK_WORKERS_MAX, -1, &workers);
    if (status)
        return status;
    char dir[PATH_MAX];
    const char *port = kiln_arg(args, "gallery");
    int choice = port ? 1 : kiln_arg(args, "no-gallery") ? 0 : -1;
    if (port && kiln_config_set(cli->config, "gallery_port", port, "--gallery", &err))
        return kiln_usage(cli, "%s", err.text);
    if (kiln_stack_meant(cli, kiln_arg(args, "dir"), dir, &err))
        return kiln_report(cli, &err);
    if (kiln_stack_up(cli, dir, workers, &stack, &err)) {
        status = kiln_report(cli, &err);
        kiln_stack_say_begun(&stack, cli);
        return status;
    }
    kiln_stack_gallery(&stack, cli, choice);
    if (cli->json)
        return kiln_print_json(cli, stack_json(&stack));
    if (stack.workers == 0)
        kiln_stack_say(cli, "workers",
                       "none: `kiln up --workers N` starts workers here, "
                       "`kiln-worker --config FILE` one on a machine that reaches these servers");
    if (strcmp(dir, ".kiln") == 0)
        kiln_say(cli, "ready; next: kiln enqueue FILE, kiln watch, kiln status, kiln down");
    else
        say_ready(cli, stack.conf);
    printf("%s\n", stack.conf);
    return 0;
}
