/* edit.c - `kiln lora edit`, `rename` and `rm`: changes of a LoRA that keep its file. */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/lora/entry.h"
#include "scheduler/cli/lora/registry.h"
#include "schemas/names.h"

/* Says which version holds the change; the name alone on stdout. */
static int print_changed(struct kiln_cli *cli, const char *name, const char *what, uint64_t version)
{
    kiln_say(cli, "%s %s; registry version %llu", what, name, (unsigned long long)version);
    if (cli->json)
        return kiln_print_json(
            cli, json_pack("{s:s, s:I}", "name", name, "version", (json_int_t)version));
    puts(name);
    return kiln_stdout_ok() ? 0 : EX_IOERR;
}

/* --- edit ------------------------------------------------------------------------------------- */

static int edit(struct kiln_lora_registry *registry, const struct kiln_args *args,
                struct kiln_lora_found *found)
{
    struct kiln_cli *cli = registry->cli;
    struct kiln_lora_list list = {0};
    struct kiln_error err;
    uint64_t version;
    bool changed;
    int status = kiln_lora_entry_options(cli, args, found->entry);
    if (status)
        return status;
    int rc = kiln_lora_registry_write(registry, found->entry, found->row.id, &found->row.file,
                                      false, &version, &err);
    rc = rc ? rc
            : kiln_lora_list(registry->ledger, kiln_pool(cli), KILN_LORA_NOW, UINT64_MAX, &list,
                             &changed, &err);
    if (rc)
        return kiln_report(cli, &err);
    kiln_lora_entry_explain(cli, found->entry, registry->lexicon, list.texts);
    kiln_lora_list_release(&list);
    return print_changed(cli, found->row.name, "changed", version);
}

int kiln_lora_edit(struct kiln_cli *cli, const struct kiln_args *args)
{
    if (args->rest_count != 2 || args->given_count == 0)
        return kiln_usage(cli, "give name and options: kiln lora edit NAME --triggers 'ink wash'");
    return kiln_lora_change_found(cli, args, false, edit);
}

/* --- rename ----------------------------------------------------------------------------------- */

static int rename_found(struct kiln_lora_registry *registry, const struct kiln_args *args,
                        struct kiln_lora_found *found)
{
    struct kiln_cli *cli = registry->cli;
    const char *name = args->rest[2];
    struct kiln_error err;
    uint64_t version;
    (void)json_object_set_new(found->entry, "name", json_string(name));
    if (kiln_lora_registry_write(registry, found->entry, found->row.id, &found->row.file, false,
                                 &version, &err))
        return kiln_report(cli, &err);
    return print_changed(cli, name, "renamed to", version);
}

int kiln_lora_rename(struct kiln_cli *cli, const struct kiln_args *args)
{
    if (args->rest_count != 3)
        return kiln_usage(cli, "give both names: kiln lora rename OLD NEW");
    if (!kiln_name_valid(args->rest[2], strlen(args->rest[2]), KILN_NAME_MAX))
        return kiln_usage(cli, "'%.80s' cannot name a LoRA: up to %d " KILN_NAME_RULE,
                          args->rest[2], KILN_NAME_MAX);
    return kiln_lora_change_found(cli, args, false, rename_found);
}

/* --- rm --------------------------------------------------------------------------------------- */

static int remove_found(struct kiln_lora_registry *registry, const struct kiln_args *args,
                        struct kiln_lora_found *found)
{
    struct kiln_cli *cli = registry->cli;
    const struct kiln_lora_row *row = &found->row;
    struct kiln_error err;
    char question[256];
    uint64_t waiting, version;
    if (kiln_lora_waiting(registry->ledger, kiln_pool(cli), row->name, row->file.sha256, &waiting,
                          &err))
        return kiln_report(cli, &err);
    if (waiting) {
        kiln_fail(&err, KILN_FULL,
                  "LoRA '%s' is still needed (%s): wait for their end, or cancel them; "
                  "`kiln lora edit %s --disable` keeps new prompts away",
                  row->name, KILN_COUNT(waiting, "job"), row->name);
        return kiln_report(cli, &err);
    }
    if (row->seen)
        kiln_warn(cli,
                  "%s: the file stays in lora_dir, and the scheduler registers it again after a "
                  "restart or a change: delete the file too, or use `kiln lora edit %s --disable`",
                  row->name, row->name);
    snprintf(question, sizeof question, "LoRA '%s' will be removed from the registry%s.", row->name,
             row->seen ? "" : "; `kiln gc` removes its file when no picture needs it");
    if (!kiln_confirm(cli, kiln_arg(args, "yes") != NULL, question))
        return EX_USAGE;
    if (kiln_lora_change(registry->ledger, kiln_pool(cli),
                         &(struct kiln_lora_change){.ends = row->id,
                                                    .name = row->name,
                                                    .tenant = row->tenant,
                                                    .file = &row->file,
                                                    .who = registry->who},
                         &version, &err))
        return kiln_report(cli, &err);
    return print_changed(cli, row->name, "removed", version);
}

int kiln_lora_remove(struct kiln_cli *cli, const struct kiln_args *args)
{
    if (args->rest_count != 2)
        return kiln_usage(cli, "give the name: kiln lora rm NAME");
    return kiln_lora_change_found(cli, args, false, remove_found);
}
