/* context.c - reads the styles file, lists the LoRA directory and the registry of LoRAs.
 *
 * With the list a user learns of a misspelt LoRA at once, not from a failed job.  It guarantees
 * nothing, because the directory of the workers may differ.
 */
#include "scheduler/cli/jobs/enqueue/context.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/expand.h"
#include "schemas/job/inputs.h"
#include "schemas/room.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/styles_file.h"
#include "storage/ledger/ledger.h"

/* Adds the NAME of NAME.safetensors; ignores other files. */
static int add_lora(struct kiln_enqueue_context *context, const char *file, size_t *room,
                    struct kiln_error *err)
{
    const size_t len = kiln_lora_stem(file);
    if (len == 0)
        return 0;
    char **names = kiln_room(context->lora_names, context->lora_count, room, sizeof *names);
    char *name = names ? strndup(file, len) : NULL;
    context->lora_names = names ? names : context->lora_names;
    if (!name)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of LoRAs");
    context->lora_names[context->lora_count++] = name;
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_loras(struct kiln_enqueue_context *context, DIR *dir, struct kiln_error *err)
{
    struct dirent *entry;
    size_t room = 0;
    int code = 0;
    while (!code && (entry = readdir(dir)))
        code = add_lora(context, entry->d_name, &room, err);
    if (!code && !context->lora_names && !(context->lora_names = calloc(1, sizeof(char *))))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of LoRAs");
    if (code)
        return code;
    qsort(context->lora_names, context->lora_count, sizeof *context->lora_names, compare);
    context->job.lora_names = (const char *const *)context->lora_names;
    context->job.lora_name_count = context->lora_count;
    return 0;
}

/* A lora_dir that was set and is not there is an error; a model that is not on this machine is
 * usual for a client. */
static int find_loras(const struct kiln_config *config, struct kiln_enqueue_context *context,
                      struct kiln_error *err)
{
    const char *own = kiln_config_text(config, KILN_KEY_LORA_DIR);
    const char *model = kiln_config_text(config, KILN_KEY_MODEL);
    char path[PATH_MAX];
    kiln_config_lora_dir(config, path, sizeof path);
    if (*path == '\0')
        return 0;
    DIR *dir = opendir(path);
    if (!dir && *own)
        return kiln_fail(err, KILN_CONFIG, "lora_dir: open %s: %s", path, strerror(errno));
    if (!dir && (dir = opendir(model))) { /* the model is here and has no LoRAs */
        closedir(dir);
        dir = NULL;
        context->lora_names = calloc(1, sizeof(char *));
        context->job.lora_names = (const char *const *)context->lora_names;
    }
    if (!dir)
        return 0;
    int code = list_loras(context, dir, err);
    closedir(dir);
    return code;
}

/* --- the registry ----------------------------------------------------------------------------- */

static int read_registry(struct kiln_enqueue_context *context, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    bool changed;
    int code = kiln_ledger_open(context->config, "kiln enqueue", &ledger, err);
    if (!code)
        code = kiln_lora_list(ledger, kiln_config_text(context->config, KILN_KEY_POOL),
                              KILN_LORA_NOW, UINT64_MAX, &context->registry, &changed, err);
    kiln_ledger_close(ledger);
    if (code)
        return code;
    const size_t most = context->lora_count + context->registry.count;
    if (!(context->all_loras = calloc(most + 1, sizeof *context->all_loras)))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of LoRAs");
    for (size_t i = 0; i < context->lora_count; i++)
        context->all_loras[context->all_lora_count++] = context->lora_names[i];
    for (size_t i = 0; i < context->registry.count; i++)
        context->all_loras[context->all_lora_count++] = context->registry.at[i].name;
    qsort(context->all_loras, most, sizeof *context->all_loras, compare);
    size_t kept = 0; /* each name once */
    for (size_t i = 0; i < most; i++)
        if (kept == 0 || strcmp(context->all_loras[kept - 1], context->all_loras[i]) != 0)
            context->all_loras[kept++] = context->all_loras[i];
    context->all_lora_count = kept;
    return 0;
}

/* The first answer counts for all lines. */
int kiln_enqueue_context_registry(struct kiln_enqueue_context *context, struct kiln_error *err)
{
    if (!context->all_loras && !context->registry_err.code &&
        read_registry(context, &context->registry_err) == 0)
        context->registry_err.code = 0;
    if (context->registry_err.code)
        *err = context->registry_err;
    return context->registry_err.code;
}

static int more_loras(void *arg, const char *const **ret_names, size_t *ret_count,
                      struct kiln_error *err)
{
    struct kiln_enqueue_context *context = arg;
    int code = kiln_enqueue_context_registry(context, err);
    *ret_names = context->all_loras;
    *ret_count = context->all_lora_count;
    return code;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int try_one(const char *line, const struct kiln_job_context *context, struct kiln_error *err)
{
    struct kiln_job job;
    struct kiln_expand *expand = kiln_expand_new();
    if (!expand)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for --set");
    int code = kiln_expand_begin(expand, line, strlen(line), context, err);
    if (!code)
        code = kiln_expand_job(expand, 0, &job, err);
    if (!code)
        kiln_job_release(&job);
    kiln_expand_free(expand);
    return code;
}

/* Some keys need another one, which the lines may have: a start, coarse, or more steps. */
static int try_line(const struct kiln_job_context *context, struct kiln_error *err)
{
#define BEGIN "{\"prompt\":\"\",\"width\":1024,\"height\":1024"
    static const char *const others[] = {BEGIN ",\"init_job\":1}", BEGIN ",\"coarse\":\"1+1\"}",
                                         BEGIN ",\"steps\":50}"};
    struct kiln_error unfit;
    int code = try_one(BEGIN "}", context, err);
    for (size_t i = 0; i < sizeof others / sizeof *others && code == KILN_BAD_INPUT; i++)
        code = try_one(others[i], context, &unfit) ? code : 0;
    return code;
}

/* The option that is wrong: the last one that fails together with those after it.  It starts from
 * the end because the last value of a key counts. */
static const char *wrong_option(struct kiln_job_context context, const struct kiln_set *sets,
                                size_t count)
{
    struct kiln_error err;
    for (size_t i = count - 1; i > 0; i--) {
        char *overrides;
        if (kiln_input_overrides(sets + i, count - i, &overrides, &err))
            break;
        context.overrides = overrides;
        int code = try_line(&context, &err);
        free(overrides);
        if (code)
            return sets[i].option;
    }
    return sets[0].option;
}

int kiln_enqueue_context_open(const struct kiln_config *config, const struct kiln_set *sets,
                              size_t set_count, bool files, struct kiln_enqueue_context *ret,
                              struct kiln_error *err)
{
    memset(ret, 0, sizeof *ret);
    bool sets_wrong = false;
    ret->config = config;
    ret->job.more_loras = more_loras;
    ret->job.more_loras_arg = ret;
    ret->job.init_files = files;
    int code = kiln_styles_file_read(kiln_config_text(config, KILN_KEY_STYLES), &ret->styles, err);
    ret->job.styles = ret->styles;
    if (!code)
        code = kiln_model_card_context(config, &ret->job, err);
    if (!code)
        code = kiln_job_context_size(&ret->job, config, err);
    if (!code)
        code = find_loras(config, ret, err);
    if (!code && set_count > 0) {
        code = kiln_input_overrides(sets, set_count, &ret->overrides, err);
        ret->job.overrides = ret->overrides;
        if (!code) { /* so that a wrong override is reported once, not for each line */
            code = try_line(&ret->job, err);
            if (code && code != KILN_NO_MEMORY)
                code = kiln_fail(err, KILN_BAD_INPUT, "--%s: %s",
                                 wrong_option(ret->job, sets, set_count), err->text);
        }
        sets_wrong = code == KILN_BAD_INPUT;
    }
    if (code) {
        kiln_enqueue_context_release(ret);
        ret->sets_wrong = sets_wrong;
    }
    return code;
}

void kiln_lora_path(const struct kiln_config *config, const char *name, char out[PATH_MAX])
{
    kiln_config_lora_dir(config, out, PATH_MAX);
    const size_t len = strlen(out);
    snprintf(out + len, PATH_MAX - len, "/%s.safetensors", name);
}

void kiln_enqueue_context_release(struct kiln_enqueue_context *context)
{
    kiln_styles_free(context->styles);
    for (size_t i = 0; i < context->lora_count; i++)
        free(context->lora_names[i]);
    free(context->lora_names);
    free(context->all_loras);
    kiln_lora_list_release(&context->registry);
    free(context->overrides);
    memset(context, 0, sizeof *context);
}
