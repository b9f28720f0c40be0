/* import.c - `kiln lora import`: LoRAs with the texts that another program has of them.
 *
 *     loras.json            schemas/loras.schema.json; files lie beside it
 *     NAME.metadata.json    a sidecar of ComfyUI-Lora-Manager, beside NAME.safetensors
 *     DIR                   the loras.json in it, else all sidecars in it
 *
 * A sidecar's texts are a stranger's: trained words, the recommended strength and the tags are
 * taken, cleaned and within the router's limits; descriptions are not, which are advertising.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scheduler/cli/lora/entry.h"
#include "scheduler/cli/lora/registry.h"
#include "scheduler/router/router.h"
#include "schemas/names.h"
#include "storage/formats/regular.h"

#define SIDECAR ".metadata.json"
#define SIDECAR_MAX (4 << 20)
#define LIST_MAX (64 << 20)
#define WORDS_MAX 8 /* of a sidecar; the first is the one that is prepended */

static int load(const char *path, size_t most, json_t **ret, struct kiln_error *err)
{
    char *text = NULL;
    size_t len = 0;
    json_error_t where;
    int rc = kiln_regular_read(path, most, &text, &len, err);
    if (rc)
        return rc;
    *ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (!*ret)
        return kiln_fail(err, KILN_BAD_INPUT, "%s, line %d: %s", path, where.line, where.text);
    return 0;
}

/* Adds the file with this entry, or gives a LoRA of the name both.  An exit status. */
static int import_one(struct kiln_lora_registry *registry, const char *path, json_t *entry)
{
    struct kiln_lora_found found;
    struct kiln_error err;
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (!name || !kiln_name_valid(name, strlen(name), KILN_NAME_MAX)) {
        kiln_fail(&err, KILN_BAD_INPUT, "%s: '%.80s' cannot name a LoRA: up to %d " KILN_NAME_RULE,
                  path, name ? name : "", KILN_NAME_MAX);
        return kiln_report(registry->cli, &err);
    }
    int rc = kiln_lora_registry_find(registry, name, &found, &err);
    if (rc && rc != KILN_NOT_FOUND)
        return kiln_report(registry->cli, &err);
    int status = kiln_lora_add_file(registry, path, entry, rc ? NULL : &found);
    if (rc == 0)
        kiln_lora_found_release(&found);
    return status;
}

/* The directory that the path lies in, with its slash. */
static int dir_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

static int import_list(struct kiln_lora_registry *registry, const char *path)
{
    struct kiln_error err;
    json_t *root = NULL, *entry;
    size_t i;
    int status = 0;
    int rc = load(path, LIST_MAX, &root, &err);
    if (rc == 0 && !json_is_array(json_object_get(root, "loras")))
        rc = kiln_fail(&err, KILN_BAD_INPUT, "%s: there is no list 'loras'", path);
    if (rc)
        status = kiln_report(registry->cli, &err);
    json_array_foreach(json_object_get(root, "loras"), i, entry)
    {
        char file[PATH_MAX];
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *own = json_string_value(json_object_get(entry, "file"));
        if (own && strchr(own, '/')) {
            kiln_fail(&err, KILN_BAD_INPUT, "%s: the file '%.80s' must be in the same directory",
                      path, own);
            int one = kiln_report(registry->cli, &err);
            status = status ? status : one;
            continue;
        }
        snprintf(file, sizeof file, "%.*s%s%s", dir_length(path), path,
                 own    ? own
                 : name ? name
                        : "",
                 own ? "" : ".safetensors");
        kiln_lora_file_forget(entry);
        int one = import_one(registry, file, entry);
        status = status ? status : one;
    }
    json_decref(root);
    return status;
}

/* --- sidecars --------------------------------------------------------------------------------- */

static void take_words(const json_t *words, const char *key, json_t *entry)
{
    json_t *list = json_array();
    char text[KILN_ROUTER_TEXT_MAX + 1];
    size_t i;
    const json_t *word;
    json_array_foreach(words, i, word)
    {
        if (!json_is_string(word) || json_array_size(list) == WORDS_MAX)
            continue;
        kiln_lora_clean_text(json_string_value(word), text, KILN_ROUTER_TEXT_MAX);
        if (*text)
            (void)json_array_append_new(list, json_string(text));
    }
    if (json_array_size(list))
        (void)json_object_set(entry, key, list);
    json_decref(list);
}

/* usage_tips is JSON in a text: {"strength": 0.8, "strength_min": ..., "strength_max": ...}. */
static void take_strengths(const json_t *sidecar, json_t *entry)
{
    static const char *const keys[][2] = {
        {"strength", "scale"}, {"strength_min", "min"}, {"strength_max", "max"}};
    const char *text = json_string_value(json_object_get(sidecar, "usage_tips"));
    json_t *tips = text ? json_loads(text, 0, NULL) : NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(tips, keys[i][0]);
        if (json_is_number(value))
            (void)json_object_set_new(entry, keys[i][1], json_real(json_number_value(value)));
    }
    json_decref(tips);
}

/* The base as Kiln names it; others stay as they are, so that no pool of Z-Image takes them. */
static void take_base(const json_t *sidecar, json_t *entry)
{
    static const struct {
        const char *theirs, *variant;
    } known[] = {{"ZImageTurbo", "turbo"},
                 {"Z-Image-Turbo", "turbo"},
                 {"ZImageBase", "base"},
                 {"Z-Image", "unknown"},
                 {"ZImage", "unknown"}};
    const char *base = json_string_value(json_object_get(sidecar, "base_model"));
    char clean[KILN_NAME_MAX + 1];
    if (!base || !*base || strcmp(base, "Unknown") == 0)
        return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(base, known[i].theirs) == 0) {
            (void)json_object_set_new(entry, "base", json_string("z-image"));
            (void)json_object_set_new(entry, "variant", json_string(known[i].variant));
            return;
        }
    kiln_lora_clean_text(base, clean, KILN_NAME_MAX);
    (void)json_object_set_new(entry, "base", json_string(clean));
}

static int import_sidecar(struct kiln_lora_registry *registry, const struct kiln_args *args,
                          const char *path)
{
    (void)args;
    const size_t len = strlen(path) - (sizeof SIDECAR - 1);
    const int dir = dir_length(path);
    struct kiln_error err;
    json_t *sidecar = NULL;
    char file[PATH_MAX];
    if (load(path, SIDECAR_MAX, &sidecar, &err))
        return kiln_report(registry->cli, &err);
    json_t *entry = json_pack("{s:s%}", "name", path + dir, len - (size_t)dir);
    const json_t *civitai = json_object_get(sidecar, "civitai");
    take_words(json_object_get(civitai, "trainedWords"), "triggers", entry);
    take_words(json_object_get(sidecar, "tags"), "positive", entry);
    take_strengths(sidecar, entry);
    take_base(sidecar, entry);
    snprintf(file, sizeof file, "%.*s.safetensors", (int)len, path);
    int status = import_one(registry, file, entry);
    json_decref(entry);
    json_decref(sidecar);
    return status;
}

static int import_directory(struct kiln_lora_registry *registry, const struct kiln_args *args,
                            const char *dir)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/loras.json", dir);
    if (stat(path, &st) == 0)
        return import_list(registry, path);
    return kiln_lora_each_file(registry, args, dir, SIDECAR,
                               "neither a loras.json nor a NAME" SIDECAR, import_sidecar);
}

int kiln_lora_import(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_lora_registry registry;
    struct kiln_error err;
    struct stat st;
    if (args->rest_count != 2)
        return kiln_usage(cli, "give the file: kiln lora import loras.json|NAME" SIDECAR "|DIR");
    if (kiln_lora_registry_open(cli, true, &registry, &err))
        return kiln_report(cli, &err);
    const char *path = args->rest[1];
    int status;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        status = import_directory(&registry, args, path);
    else if (kiln_lora_has_ending(path, SIDECAR))
        status = import_sidecar(&registry, args, path);
    else
        status = import_list(&registry, path);
    kiln_lora_registry_close(&registry);
    return status;
}
