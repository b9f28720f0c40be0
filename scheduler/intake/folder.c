/* folder.c - see folder.h.
 *
 * A file is hashed again only when its state has changed (size, times), and registered again only
 * when its hash or its texts have.
 */
#include "scheduler/intake/folder.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scheduler/router/lora_file.h"
#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/names.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"
#include "storage/formats/file_hash.h"
#include "storage/formats/regular.h"
#include "storage/ledger/lora/lora.h"

#define SUFFIX ".safetensors"
#define LOOK_MS 5000
#define FILES_MAX 10000

/* One file as it was registered. */
struct known {
    char name[KILN_NAME_MAX + 1];
    struct stat st;
    uint8_t texts[KILN_SHA256_SIZE]; /* of its entry */
};

struct kiln_lora_folder {
    const char *pool;
    const struct kiln_lexicon *lexicon;
    char dir[PATH_MAX];
    struct known *known;
    size_t count, room;
    double next_ms;       /* monotonic; the next look */
    struct stat texts_at; /* of the loras.json that was read last */
    json_t *texts;        /* its list, or NULL */
};

struct kiln_lora_folder *kiln_lora_folder_new(const struct kiln_config *config,
                                              const struct kiln_lexicon *lexicon)
{
    const char *own = kiln_config_text(config, KILN_KEY_LORA_DIR);
    const char *model = kiln_config_text(config, KILN_KEY_MODEL);
    struct kiln_lora_folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return NULL;
    folder->pool = kiln_config_text(config, KILN_KEY_POOL);
    folder->lexicon = lexicon;
    if (*own || *model) /* else there is none */
        snprintf(folder->dir, sizeof folder->dir, "%s%s", *own ? own : model, *own ? "" : "/loras");
    return folder;
}

void kiln_lora_folder_free(struct kiln_lora_folder *folder)
{
    if (!folder)
        return;
    json_decref(folder->texts);
    free(folder->known);
    free(folder);
}

/* --- texts ------------------------------------------------------------------------------------ */

static void read_texts(struct kiln_lora_folder *folder)
{
    char path[PATH_MAX + 16], *text = NULL;
    struct kiln_error err;
    struct stat st;
    size_t len = 0;
    json_error_t where;
    snprintf(path, sizeof path, "%s/loras.json", folder->dir);
    if (stat(path, &st) != 0)
        memset(&st, 0, sizeof st);
    if (kiln_regular_same(&st, &folder->texts_at))
        return;
    folder->texts_at = st;
    json_decref(folder->texts);
    folder->texts = NULL;
    if (st.st_mode == 0)
        return;
    if (kiln_regular_read(path, KILN_LORA_FILE_MAX, &text, &len, &err) != 0) {
        kiln_log(KILN_LOG_WARNING, "loras_json_unread", kiln_f("error", "%s", err.text));
        return;
    }
    folder->texts = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (!folder->texts)
        kiln_log(KILN_LOG_WARNING, "loras_json_unread",
                 kiln_f("error", "%s, line %d: %s", path, where.line, where.text));
}

/* The entry of a name as text, malloc'd, or NULL. */
static char *entry_of(const struct kiln_lora_folder *folder, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(folder->texts, "loras"), i, entry)
    {
        const char *own = json_string_value(json_object_get(entry, "name"));
        if (!own || strcmp(own, name) != 0)
            continue;
        json_t *copy = json_copy(entry);
        (void)json_object_del(copy, "file");   /* the hash says which file it is, */
        (void)json_object_del(copy, "layout"); /* and the file how it is laid out */
        (void)json_object_del(copy, "rank");
        char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
        json_decref(copy);
        return text;
    }
    return NULL;
}

/* Texts that this release cannot read count as none. */
static void take_texts(const struct kiln_lora_folder *folder, const char *entry,
                       struct kiln_lora_facts *facts, struct kiln_lora_seen *seen)
{
    struct kiln_error err;
    if (!entry)
        return;
    if (kiln_lora_file_try(entry, "loras.json", folder->lexicon, facts, &err)) {
        kiln_log(KILN_LOG_WARNING, "lora_not_routable", kiln_f("lora", "%s", seen->name),
                 kiln_f("error", "%s", err.text));
        return;
    }
    seen->entry = entry;
    seen->tenant = facts->tenant;
    seen->enabled = facts->enabled;
    seen->routable = facts->routable;
}

/* --- files ------------------------------------------------------------------------------------ */

static struct known *place_of(struct kiln_lora_folder *folder, const char *name)
{
    for (size_t i = 0; i < folder->count; i++)
        if (strcmp(folder->known[i].name, name) == 0)
            return &folder->known[i];
    struct known *at = folder->count < FILES_MAX
                           ? kiln_room(folder->known, folder->count, &folder->room, sizeof *at)
                           : NULL;
    if (!at)
        return NULL;
    folder->known = at;
    at = &at[folder->count++];
    memset(at, 0, sizeof *at);
    snprintf(at->name, sizeof at->name, "%s", name);
    return at;
}

static int take_file(struct kiln_lora_folder *folder, struct kiln_ledger *ledger, const char *name,
                     struct kiln_error *err)
{
    char path[PATH_MAX + KILN_NAME_MAX + 16], sha256[KILN_FILE_HASH_MAX];
    char now[KILN_LORA_SHA256_MAX];
    uint8_t digest[KILN_SHA256_SIZE];
    struct stat st;
    struct known *known = place_of(folder, name);
    snprintf(path, sizeof path, "%s/%s" SUFFIX, folder->dir, name);
    if (!known || stat(path, &st) != 0)
        return 0;
    char *entry = entry_of(folder, name);
    kiln_sha256(entry ? entry : "", entry ? strlen(entry) : 0, digest);
    int rc = 0;
    if (!(kiln_regular_same(&st, &known->st) && memcmp(digest, known->texts, sizeof digest) == 0) &&
        kiln_file_hash(path, sha256)) {
        struct kiln_lora_seen seen = {
            .name = name, .tenant = "", .sha256 = sha256, .bytes = (uint64_t)st.st_size};
        struct kiln_lora_facts facts;
        take_texts(folder, entry, &facts, &seen);
        rc = kiln_lora_register_seen(ledger, folder->pool, &seen, now, err);
        if (rc == 0) {
            known->st = st;
            memcpy(known->texts, digest, sizeof digest);
        }
    }
    free(entry);
    return rc;
}

int kiln_lora_folder_register(struct kiln_lora_folder *folder, struct kiln_ledger *ledger,
                              int64_t limit_ms, struct kiln_error *err)
{
    const double began_ms = kiln_monotonic_ms();
    if (!folder->dir[0] || began_ms < folder->next_ms)
        return 0;
    DIR *dir = opendir(folder->dir);
    if (!dir) {
        folder->next_ms = began_ms + LOOK_MS;
        return 0;
    }
    read_texts(folder);
    int rc = 0;
    bool whole = true;
    for (struct dirent *entry; rc == 0 && whole && (entry = readdir(dir));) {
        char name[KILN_NAME_MAX + 1];
        const size_t len = strlen(entry->d_name), suffix = sizeof SUFFIX - 1;
        if (len <= suffix || strcmp(entry->d_name + len - suffix, SUFFIX) != 0 ||
            !kiln_name_valid(entry->d_name, len - suffix, KILN_NAME_MAX))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - suffix), entry->d_name);
        rc = take_file(folder, ledger, name, err);
        whole = kiln_monotonic_ms() < began_ms + (double)limit_ms;
    }
    closedir(dir);
    if (rc == 0 && whole)
        folder->next_ms = kiln_monotonic_ms() + LOOK_MS;
    return rc;
}
