/* registry.c - see registry.h. */
#include "scheduler/cli/lora/registry.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/fleet/pause.h"
#include "scheduler/cli/lora/entry.h"
#include "storage/ledger/ledger.h"

int kiln_lora_registry_open(struct kiln_cli *cli, bool files, struct kiln_lora_registry *ret,
                            struct kiln_error *err)
{
    const char *model = kiln_config_text(cli->config, KILN_KEY_MODEL);
    struct kiln_lora_registry r = {.cli = cli};
    kiln_user_name(r.who, sizeof r.who);
    if (files && !*model)
        return kiln_fail(err, KILN_CONFIG,
                         "LoRAs are checked against the model: name its directory with --model");
    int rc = files ? kiln_lora_modules_open(model, &r.modules, err) : 0;
    if (rc == 0)
        rc = kiln_open_ledger(cli, &r.ledger, err);
    if (rc == 0 && files)
        rc = kiln_store_open(cli->config, &r.store, err);
    if (rc == 0)
        rc = kiln_lexicon_new(&r.lexicon, err);
    if (rc)
        kiln_lora_registry_close(&r);
    else
        *ret = r;
    return rc;
}

void kiln_lora_registry_close(struct kiln_lora_registry *registry)
{
    kiln_lexicon_free(registry->lexicon);
    kiln_store_close(registry->store);
    kiln_ledger_close(registry->ledger);
    kiln_lora_modules_close(&registry->modules);
}

static int keep_row(void *arg, const struct kiln_lora_row *row, struct kiln_error *err)
{
    struct kiln_lora_found *found = arg;
    json_error_t where;
    found->row = *row;
    found->row.who = found->row.entry = NULL;
    found->entry = json_loads(row->entry, 0, &where);
    if (!json_is_object(found->entry))
        return kiln_fail(err, KILN_CORRUPT, "the ledger's texts of LoRA '%s' are damaged",
                         row->name);
    return 0;
}

static int keep_name(void *arg, const struct kiln_lora_row *row, struct kiln_error *err)
{
    return kiln_suggest_add(arg, row->name, err);
}

int kiln_lora_registry_find(struct kiln_lora_registry *registry, const char *name,
                            struct kiln_lora_found *ret, struct kiln_error *err)
{
    struct kiln_suggest names = {0};
    const char *pool = kiln_pool(registry->cli);
    *ret = (struct kiln_lora_found){0};
    int rc = kiln_lora_rows(registry->ledger, pool, KILN_LORA_NOW, name, keep_row, ret, err);
    if (rc || ret->row.id) {
        if (rc)
            kiln_lora_found_release(ret);
        return rc;
    }
    rc = kiln_lora_rows(registry->ledger, pool, KILN_LORA_NOW, NULL, keep_name, &names, err);
    return kiln_suggest_refuse(&names, rc, "LoRA", name, err);
}

void kiln_lora_found_release(struct kiln_lora_found *found)
{
    json_decref(found->entry);
    *found = (struct kiln_lora_found){0};
}

int kiln_lora_change_found(struct kiln_cli *cli, const struct kiln_args *args, bool files,
                           kiln_lora_change_one *change)
{
    struct kiln_lora_registry registry;
    struct kiln_lora_found found;
    struct kiln_error err;
    int status;
    if (kiln_lora_registry_open(cli, files, &registry, &err))
        return kiln_report(cli, &err);
    if (kiln_lora_registry_find(&registry, args->rest[1], &found, &err))
        status = kiln_report(cli, &err);
    else {
        status = change(&registry, args, &found);
        kiln_lora_found_release(&found);
    }
    kiln_lora_registry_close(&registry);
    return status;
}

int kiln_lora_registry_write(struct kiln_lora_registry *registry, const json_t *entry,
                             uint64_t ends, const struct kiln_lora_file_facts *file, bool new_file,
                             uint64_t *ret_version, struct kiln_error *err)
{
    struct kiln_lora_facts facts;
    char *text;
    int rc = kiln_lora_entry_check(entry, "the registry", registry->lexicon, &facts, &text, err);
    if (rc)
        return rc;
    rc = kiln_lora_change(
        registry->ledger, kiln_pool(registry->cli),
        &(struct kiln_lora_change){.ends = ends,
                                   .name = json_string_value(json_object_get(entry, "name")),
                                   .tenant = facts.tenant,
                                   .file = file,
                                   .new_file = new_file,
                                   .enabled = facts.enabled,
                                   .routable = facts.routable,
                                   .who = registry->who,
                                   .entry = text},
        ret_version, err);
    free(text);
    return rc;
}

/* --- files of a directory --------------------------------------------------------------------- */

bool kiln_lora_has_ending(const char *path, const char *ending)
{
    const size_t len = strlen(path), tail = strlen(ending);
    return len > tail && strcmp(path + len - tail, ending) == 0;
}

int kiln_lora_each_file(struct kiln_lora_registry *registry, const struct kiln_args *args,
                        const char *dir, const char *ending, const char *none,
                        kiln_lora_take_path *take)
{
    struct dirent **files = NULL;
    struct kiln_error err;
    int status = 0, taken = 0, count = scandir(dir, &files, NULL, alphasort);
    if (count < 0) {
        kiln_fail(&err, KILN_IO, "%s: %s", dir, strerror(errno));
        return kiln_report(registry->cli, &err);
    }
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX + NAME_MAX + 2];
        snprintf(path, sizeof path, "%s/%s", dir, files[i]->d_name);
        if (kiln_lora_has_ending(files[i]->d_name, ending)) {
            const int one = take(registry, args, path);
            status = status ? status : one;
            taken++;
        }
        free(files[i]);
    }
    free(files);
    if (taken)
        return status;
    kiln_fail(&err, KILN_NOT_FOUND, "%s: %s", dir, none);
    return kiln_report(registry->cli, &err);
}
