/* add.c - `kiln lora add` and `replace`: a file becomes an object, and then a row.
 *
 * The file is read once into memory; those bytes are checked, hashed and stored, so what was
 * checked is what jobs get.  The object is stored before the row names it, and looked for again
 * afterwards: `kiln gc` may have removed an older copy between the two.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "pipeline/lora/file/strength.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/lora/entry.h"
#include "scheduler/cli/lora/header.h"
#include "scheduler/cli/lora/registry.h"
#include "scheduler/router/router.h"
#include "schemas/digest.h"
#include "schemas/names.h"
#include "storage/formats/regular.h"

#define SUFFIX ".safetensors"
#define CONTENT_TYPE "application/octet-stream"

struct taken {
    uint8_t *data;
    size_t size;
    struct kiln_lora_file_facts facts;
    struct kiln_lora_measure measure;
};

/* --- reading ---------------------------------------------------------------------------------- */

static int read_open(int fd, const char *path, const struct stat *before, struct taken *ret,
                     struct kiln_error *err)
{
    size_t have = 0;
    if ((uint64_t)before->st_size > KILN_LORA_BYTES_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: larger than %zu bytes", path,
                         KILN_LORA_BYTES_MAX);
    ret->size = (size_t)before->st_size;
    ret->data = malloc(ret->size + 1);
    if (!ret->data)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    while (have < ret->size) {
        ssize_t n = read(fd, ret->data + have, ret->size - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(errno));
        if (n == 0)
            break;
        have += (size_t)n;
    }
    ret->size = have; /* less: it was cut, as its state says */
    return 0;
}

/* Called some time after the read, because file times advance in steps of milliseconds. */
static int check_state(int fd, const char *path, const struct stat *before, struct kiln_error *err)
{
    struct stat after;
    if (fstat(fd, &after) == 0 && kiln_regular_same(before, &after))
        return 0;
    return kiln_fail(err, KILN_CORRUPT,
                     "%s was changed while it was read; add it when it is complete", path);
}

static int take_file(struct kiln_lora_registry *registry, const char *path, const char *name,
                     struct taken *ret, struct kiln_error *err)
{
    struct kiln_lora_file *file = NULL;
    uint8_t hash[KILN_SHA256_SIZE];
    struct stat st;
    int fd, rc = kiln_regular_open(path, &fd, &st, err);
    if (rc)
        return rc;
    rc = read_open(fd, path, &st, ret, err);
    if (!rc)
        rc = kiln_lora_open_memory(ret->data, ret->size, path, registry->modules.at,
                                   registry->modules.count, &file, err);
    if (!rc && kiln_lora_measure(file, &registry->modules, &ret->measure, err))
        rc = kiln_fail_in(err, "%s", path);
    struct kiln_error moved; /* says more than what was found in a torn file */
    if (check_state(fd, path, &st, &moved)) {
        *err = moved;
        rc = moved.code;
    }
    close(fd);
    if (!rc)
        kiln_lora_say_claims(registry->cli, file, name);
    kiln_lora_close(file);
    if (rc)
        return rc;
    ret->facts = (struct kiln_lora_file_facts){.bytes = ret->size,
                                               .rank = ret->measure.rank,
                                               .modules = ret->measure.modules,
                                               .strength = ret->measure.strength,
                                               .stored = true};
    kiln_sha256(ret->data, ret->size, hash);
    kiln_hex(hash, sizeof hash, ret->facts.sha256);
    return 0;
}

/* --- storing ---------------------------------------------------------------------------------- */

static int put(struct kiln_lora_registry *registry, const struct taken *taken,
               struct kiln_error *err)
{
    char key[KILN_LORA_KEY_MAX];
    kiln_lora_key(taken->facts.sha256, key);
    struct kiln_put put = {
        .key = key, .data = taken->data, .size = taken->size, .content_type = CONTENT_TYPE};
    return kiln_store_put(registry->store, &put, 1, err);
}

/* n commands at once may exceed the limit by n - 1 files: each sees only what is stored already. */
static int check_room(struct kiln_lora_registry *registry, const char *path,
                      const struct taken *taken, struct kiln_error *err)
{
    const double limit = kiln_config_number(registry->cli->config, KILN_KEY_LORA_STORE_GB) * 1e9;
    uint64_t bytes = 0;
    bool there = false;
    int rc = limit > 0
                 ? kiln_lora_stored(registry->ledger, taken->facts.sha256, &bytes, &there, err)
                 : 0;
    if (rc || limit <= 0 || there || (double)bytes + (double)taken->size <= limit)
        return rc;
    return kiln_fail(err, KILN_FULL,
                     "%s (%s) would not fit: the store has %s of LoRA files, and lora_store_gb "
                     "allows %s; remove LoRAs with `kiln lora rm` and then `kiln gc`, or raise the "
                     "limit",
                     path, KILN_BYTES(taken->size), KILN_BYTES(bytes), KILN_BYTES(limit));
}

static int put_and_write(struct kiln_lora_registry *registry, const struct taken *taken,
                         const json_t *entry, uint64_t ends, uint64_t *ret_version,
                         struct kiln_error *err)
{
    char key[KILN_LORA_KEY_MAX];
    uint64_t size;
    kiln_lora_key(taken->facts.sha256, key);
    int rc = put(registry, taken, err);
    if (rc == 0)
        rc = kiln_lora_registry_write(registry, entry, ends, &taken->facts, true, ret_version, err);
    if (rc == 0)
        rc = kiln_store_head(registry->store, key, &size, err);
    return rc == KILN_NOT_FOUND ? put(registry, taken, err) : rc;
}

static int print_added(struct kiln_lora_registry *registry, const struct taken *taken,
                       const json_t *entry, bool routable, uint64_t version)
{
    const struct kiln_cli *cli = registry->cli;
    const char *name = json_string_value(json_object_get(entry, "name"));
    const struct kiln_lora_measure *m = &taken->measure;
    kiln_say(cli, "%s: %s, rank %u, %s, strength %.3g (%s: %.3g); registry version %llu", name,
             KILN_BYTES(taken->size), m->rank, KILN_COUNT(m->modules, "module"), m->strength,
             m->modules ? registry->modules.at[m->highest_module].name : "-", m->highest,
             (unsigned long long)version);
    if (!routable)
        kiln_say(cli,
                 "      no prompt is routed to it: it has no texts, or is disabled (kiln lora "
                 "edit %s --triggers ...)",
                 name);
    if (!cli->json) {
        puts(name);
        return kiln_stdout_ok() ? 0 : EX_IOERR;
    }
    return kiln_print_json(cli, json_pack("{s:s, s:I, s:s, s:I, s:i, s:i, s:f, s:b}", "name", name,
                                          "version", (json_int_t)version, "sha256",
                                          taken->facts.sha256, "bytes", (json_int_t)taken->size,
                                          "rank", (int)m->rank, "modules", (int)m->modules,
                                          "strength", m->strength, "routable", (int)routable));
}

int kiln_lora_add_file(struct kiln_lora_registry *registry, const char *path, json_t *entry,
                       const struct kiln_lora_found *before)
{
    struct kiln_cli *cli = registry->cli;
    const char *name = json_string_value(json_object_get(entry, "name"));
    struct kiln_lora_facts facts;
    struct kiln_lora_list list = {0};
    struct taken taken = {0};
    struct kiln_error err;
    uint64_t version = 0;
    bool changed;
    int status = 0;
    char *text = NULL;
    int rc = kiln_lora_entry_check(entry, path, registry->lexicon, &facts, &text, &err);
    if (rc == 0)
        rc = kiln_lora_list(registry->ledger, kiln_pool(cli), KILN_LORA_NOW, UINT64_MAX, &list,
                            &changed, &err);
    if (rc == 0)
        rc = take_file(registry, path, name, &taken, &err);
    for (size_t i = 0; rc == 0 && i < list.count; i++)
        if (strcmp(list.at[i].sha256, taken.facts.sha256) == 0 && strcmp(list.at[i].name, name))
            kiln_warn(cli, "%s: LoRA '%s' has the same file", name, list.at[i].name);
    if (rc == 0)
        rc = check_room(registry, path, &taken, &err);
    if (rc == 0)
        rc = put_and_write(registry, &taken, entry, before ? before->row.id : 0, &version, &err);
    if (rc)
        status = kiln_report(cli, &err);
    else {
        kiln_lora_entry_explain(cli, entry, registry->lexicon, list.texts);
        status = print_added(registry, &taken, entry, facts.routable, version);
    }
    kiln_lora_list_release(&list);
    free(taken.data);
    free(text);
    return status;
}

/* --- add -------------------------------------------------------------------------------------- */

/* The file's name without its ending, if that can name a LoRA; else "". */
static void name_of(const char *path, char out[KILN_NAME_MAX + 1])
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t len = strlen(base);
    if (kiln_lora_has_ending(base, SUFFIX))
        len -= sizeof SUFFIX - 1;
    out[0] = '\0';
    if (kiln_name_valid(base, len, KILN_NAME_MAX))
        snprintf(out, KILN_NAME_MAX + 1, "%.*s", (int)len, base);
}

/* Replaces a LoRA that lora_dir brought.  One that a person added needs `kiln lora replace`. */
static int add_one(struct kiln_lora_registry *registry, const struct kiln_args *args,
                   const char *path)
{
    struct kiln_cli *cli = registry->cli;
    char name[KILN_NAME_MAX + 1];
    const char *wanted = kiln_arg(args, "name");
    struct kiln_lora_found found;
    struct kiln_error err;
    name_of(path, name);
    if (wanted && !kiln_name_valid(wanted, strlen(wanted), KILN_NAME_MAX))
        return kiln_usage(cli, "--name '%.80s' must be up to %d " KILN_NAME_RULE, wanted,
                          KILN_NAME_MAX);
    if (!wanted && !*name)
        return kiln_usage(cli, "'%.200s' cannot name a LoRA: give --name", path);
    wanted = wanted ? wanted : name;
    int rc = kiln_lora_registry_find(registry, wanted, &found, &err);
    if (rc && rc != KILN_NOT_FOUND)
        return kiln_report(cli, &err);
    const bool there = rc == 0;
    json_t *entry = json_pack("{s:s}", "name", wanted);
    int status = kiln_lora_entry_options(cli, args, entry);
    if (status == 0 && there && !found.row.seen) {
        kiln_fail(&err, KILN_EXISTS,
                  "the registry has a LoRA '%s': give it this file with `kiln lora replace`, or "
                  "choose another --name",
                  wanted);
        status = kiln_report(cli, &err);
    }
    if (status == 0)
        status = kiln_lora_add_file(registry, path, entry, there ? &found : NULL);
    json_decref(entry);
    if (there)
        kiln_lora_found_release(&found);
    return status;
}

static int add_directory(struct kiln_lora_registry *registry, const struct kiln_args *args,
                         const char *dir)
{
    if (kiln_arg(args, "name"))
        return kiln_usage(registry->cli, "--name is for one file, and %.200s is a directory", dir);
    return kiln_lora_each_file(registry, args, dir, SUFFIX, "no file ends in " SUFFIX, add_one);
}

int kiln_lora_add(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_lora_registry registry;
    struct kiln_error err;
    struct stat st;
    if (args->rest_count != 2)
        return kiln_usage(cli, "give the file: kiln lora add FILE|DIR");
    if (kiln_lora_registry_open(cli, true, &registry, &err))
        return kiln_report(cli, &err);
    const char *path = args->rest[1];
    const bool dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    int status = dir ? add_directory(&registry, args, path) : add_one(&registry, args, path);
    kiln_lora_registry_close(&registry);
    return status;
}

/* --- replace ---------------------------------------------------------------------------------- */

static int replace(struct kiln_lora_registry *registry, const struct kiln_args *args,
                   struct kiln_lora_found *found)
{
    int status = kiln_lora_entry_options(registry->cli, args, found->entry);
    (void)json_object_del(found->entry, "bias"); /* which ratings of the file before taught */
    return status ? status : kiln_lora_add_file(registry, args->rest[2], found->entry, found);
}

int kiln_lora_replace(struct kiln_cli *cli, const struct kiln_args *args)
{
    if (args->rest_count != 3)
        return kiln_usage(cli, "give name and file: kiln lora replace NAME FILE");
    return kiln_lora_change_found(cli, args, true, replace);
}
