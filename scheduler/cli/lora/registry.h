/* registry.h - what the subcommands of `kiln lora` share: an open registry, and one LoRA of it. */
#ifndef KILN_CLI_LORA_REGISTRY_H
#define KILN_CLI_LORA_REGISTRY_H

#include "pipeline/lora/file/modules.h"
#include "scheduler/cli/core/cli.h"
#include "scheduler/router/lexicon.h"
#include "storage/ledger/lora/change.h"
#include "storage/objects/store.h"

struct kiln_lora_registry {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_lexicon *lexicon;
    char who[128];
    struct kiln_store *store; /* this and the modules for files alone */
    struct kiln_lora_modules modules;
};

/* files: also the store and the model of the settings, to check files against. */
int kiln_lora_registry_open(struct kiln_cli *cli, bool files, struct kiln_lora_registry *ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_registry_close(struct kiln_lora_registry *registry);

struct kiln_lora_found {
    struct kiln_lora_row row; /* who and entry are not lent but NULL */
    json_t *entry;
};
/* The LoRA of that name now; KILN_NOT_FOUND names the nearest. */
int kiln_lora_registry_find(struct kiln_lora_registry *registry, const char *name,
                            struct kiln_lora_found *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lora_found_release(struct kiln_lora_found *found);

typedef int kiln_lora_change_one(struct kiln_lora_registry *registry, const struct kiln_args *args,
                                 struct kiln_lora_found *found);
/* Opens the registry, finds the LoRA that the command line names first, and changes it.  An exit
 * status. */
int kiln_lora_change_found(struct kiln_cli *cli, const struct kiln_args *args, bool files,
                           kiln_lora_change_one *change) KILN_MUST_CHECK;

bool kiln_lora_has_ending(const char *path, const char *ending); /* with something before it */
typedef int kiln_lora_take_path(struct kiln_lora_registry *registry, const struct kiln_args *args,
                                const char *path);
/* Calls take for each file of the directory with this ending, in order of the names.  The first
 * failure decides the exit status, and the rest is still tried.  none: the error without files. */
int kiln_lora_each_file(struct kiln_lora_registry *registry, const struct kiln_args *args,
                        const char *dir, const char *ending, const char *none,
                        kiln_lora_take_path *take) KILN_MUST_CHECK;

/* Writes the row that begins with `entry`, after checking it; ends: the row before, 0: none. */
int kiln_lora_registry_write(struct kiln_lora_registry *registry, const json_t *entry,
                             uint64_t ends, const struct kiln_lora_file_facts *file, bool new_file,
                             uint64_t *ret_version, struct kiln_error *err) KILN_MUST_CHECK;

/* Reads a file, checks it against the model, stores it and writes its row.  An exit status.  The
 * result is printed. */
int kiln_lora_add_file(struct kiln_lora_registry *registry, const char *path, json_t *entry,
                       const struct kiln_lora_found *before) KILN_MUST_CHECK;

/* --version N, or --at N; KILN_LORA_NOW without.  An exit status. */
int kiln_lora_arg_at(struct kiln_cli *cli, const struct kiln_args *args,
                     uint64_t *ret) KILN_MUST_CHECK;

/* The subcommands; each an exit status. */
int kiln_lora_add(struct kiln_cli *cli, const struct kiln_args *args);
int kiln_lora_import(struct kiln_cli *cli, const struct kiln_args *args);
int kiln_lora_replace(struct kiln_cli *cli, const struct kiln_args *args);
int kiln_lora_edit(struct kiln_cli *cli, const struct kiln_args *args);
int kiln_lora_rename(struct kiln_cli *cli, const struct kiln_args *args);
int kiln_lora_remove(struct kiln_cli *cli, const struct kiln_args *args);
int kiln_lora_learn(struct kiln_cli *cli, const struct kiln_args *args);
int kiln_lora_ls(struct kiln_cli *cli, const struct kiln_args *args);
int kiln_lora_show(struct kiln_cli *cli, const struct kiln_args *args);

#endif
