/* folder.c - see folder.h.
 *
 * A file is hashed again only when its state has changed (size, times), and registered again only
 * when its hash or its texts have.  Both lists, of files and of what is known, are in order of the
 * names, so a look at thousands of files costs a stat for each.
 */
#include "scheduler/intake/folder.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scheduler/router/lora_file.h"
#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/job/inputs.h"
#include "schemas/limits.h"
#include "schemas/room.h"
#include "schemas/telemetry/log.h"
#include "storage/formats/file_hash.h"
#include "storage/formats/regular.h"
#include "storage/ledger/lora/lora.h"

#define LOOK_MS 500
#define LOOK_SHARE 20     /* a look that takes longer than its share of that is made less often, */
#define LOOK_MOST_MS 5000 /* but at least this often: one that hashes a large file is slow once */
#define FILES_MAX 10000

/* One file as it was registered. */
struct known {
    char name[KILN_NAME_MAX + 1];
    struct stat st;
    uint64_t reading;                /* of loras.json that its texts are of; 0: not registered */
    uint8_t texts[KILN_SHA256_SIZE]; /* of its entry */
};

struct kiln_lora_folder {
    const char *pool;
    const struct kiln_lexicon *lexicon;
    char dir[PATH_MAX];   /* "": there is none */
    struct known *known;  /* in order of the names */
    size_t count, at;     /* at: where the next look goes on */
    bool ended;           /* rows of files that are gone have been ended */
    double next_ms;       /* monotonic; the next look */
    struct stat texts_at; /* of the loras.json that was read last */
    json_t *texts;        /* its entries by name, or NULL */
    uint64_t reading;     /* counts its states, from 1 */
};

struct kiln_lora_folder *kiln_lora_folder_new(const struct kiln_config *config,
                                              const struct kiln_lexicon *lexicon)
{
    struct kiln_lora_folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return NULL;
    folder->pool = kiln_config_text(config, KILN_KEY_POOL);
    folder->lexicon = lexicon;
    kiln_config_lora_dir(config, folder->dir, sizeof folder->dir);
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

/* The entries of loras.json by name.  Of two with one name the first counts. */
static json_t *by_name(json_t *root)
{
    json_t *names = json_object(), *entry;
    size_t i;
    json_array_foreach(json_object_get(root, "loras"), i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && !json_object_get(names, name))
            (void)json_object_set(names, name, entry);
    }
    json_decref(root);
    return names;
}

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
    if (folder->reading && kiln_regular_same(&st, &folder->texts_at))
        return;
    folder->texts_at = st;
    folder->reading++;
    json_decref(folder->texts);
    folder->texts = NULL;
    if (st.st_mode == 0)
        return;
    if (kiln_regular_read(path, KILN_LORA_FILE_MAX, &text, &len, &err) != 0) {
        kiln_log(KILN_LOG_WARNING, "loras_json_unread", kiln_f("error", "%s", err.text));
        return;
    }
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (root)
        folder->texts = by_name(root);
    else
        kiln_log(KILN_LOG_WARNING, "loras_json_unread",
                 kiln_f("error", "%s, line %d: %s", path, where.line, where.text));
}

/* The entry of a name as text, malloc'd, or NULL. */
static char *entry_of(const struct kiln_lora_folder *folder, const char *name)
{
    json_t *copy = json_copy(json_object_get(folder->texts, name));
    kiln_lora_file_forget(copy);
    char *text = copy ? json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(copy);
    return text;
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

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->name, ((const struct known *)b)->name);
}

/* The names of the directory's files, sorted.  False: it cannot be read, or there is no memory. */
static bool list_files(const char *path, struct known **ret, size_t *ret_count)
{
    struct known *files = NULL;
    size_t count = 0, room = 0;
    DIR *dir = opendir(path);
    bool whole = dir != NULL;
    for (struct dirent *entry; whole && (entry = readdir(dir));) {
        const size_t len = kiln_lora_stem(entry->d_name);
        if (len == 0)
            continue;
        struct known *at = kiln_room(files, count, &room, sizeof *at);
        whole = at && count < FILES_MAX;
        files = at ? at : files;
        if (!whole)
            break;
        at = &files[count++];
        memset(at, 0, sizeof *at);
        snprintf(at->name, sizeof at->name, "%.*s", (int)len, entry->d_name);
    }
    if (dir)
        closedir(dir);
    if (!whole && count == FILES_MAX)
        kiln_log(KILN_LOG_WARNING, "lora_dir_too_large", kiln_f("dir", "%s", path),
                 kiln_f("files_max", "%d", FILES_MAX));
    if (!whole) {
        free(files);
        return false;
    }
    if (count)
        qsort(files, count, sizeof *files, compare);
    *ret = files;
    *ret_count = count;
    return true;
}

/* Takes the list of files over, with what is known of each. */
static void take_list(struct kiln_lora_folder *folder, struct known *files, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count && folder->count; i++) {
        const struct known *old =
            bsearch(&files[i], folder->known, folder->count, sizeof *folder->known, compare);
        if (old)
            files[i] = *old;
        kept += old != NULL;
    }
    folder->ended = folder->ended && kept == folder->count;
    free(folder->known);
    folder->known = files;
    folder->count = count;
}

static int take_file(struct kiln_lora_folder *folder, struct kiln_ledger *ledger,
                     struct known *known, struct kiln_error *err)
{
    char path[PATH_MAX + KILN_NAME_MAX + 16], sha256[KILN_FILE_HASH_MAX];
    char now[KILN_LORA_SHA256_MAX];
    uint8_t digest[KILN_SHA256_SIZE];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s.safetensors", folder->dir, known->name);
    if (stat(path, &st) != 0)
        return 0;
    const bool same_file = known->reading && kiln_regular_same(&st, &known->st);
    if (same_file && known->reading == folder->reading)
        return 0;
    char *entry = entry_of(folder, known->name);
    kiln_sha256(entry ? entry : "", entry ? strlen(entry) : 0, digest);
    int rc = 0;
    bool good = same_file && memcmp(digest, known->texts, sizeof digest) == 0;
    if (!good && kiln_file_hash(path, KILN_LORA_BYTES_MAX, sha256)) {
        struct kiln_lora_facts facts;
        struct kiln_lora_seen seen = {
            .name = known->name, .tenant = "", .sha256 = sha256, .bytes = (uint64_t)st.st_size};
        take_texts(folder, entry, &facts, &seen);
        rc = kiln_lora_register_seen(ledger, folder->pool, &seen, now, err);
        good = rc == 0;
    }
    if (good) {
        known->st = st;
        known->reading = folder->reading;
        memcpy(known->texts, digest, sizeof digest);
    }
    free(entry);
    return rc;
}

/* Ends the rows of files that are gone. */
static int end_gone(struct kiln_lora_folder *folder, struct kiln_ledger *ledger,
                    struct kiln_error *err)
{
    const char **names = calloc(folder->count + 1, sizeof *names);
    uint32_t ended = 0;
    if (!names)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of LoRAs");
    for (size_t i = 0; i < folder->count; i++)
        names[i] = folder->known[i].name;
    int rc = kiln_lora_end_seen(ledger, folder->pool, names, folder->count, &ended, err);
    free(names);
    folder->ended = rc == 0;
    if (ended)
        kiln_log(KILN_LOG_INFO, "lora_files_gone", kiln_f("loras", "%u", ended),
                 kiln_f("dir", "%s", folder->dir));
    return rc;
}

int kiln_lora_folder_register(struct kiln_lora_folder *folder, struct kiln_ledger *ledger,
                              int64_t limit_ms, struct kiln_error *err)
{
    const double began_ms = kiln_monotonic_ms();
    struct known *files;
    size_t count;
    if (!folder->dir[0] || began_ms < folder->next_ms)
        return 0;
    if (folder->at == 0) {
        if (!list_files(folder->dir, &files, &count)) {
            /* One that is too large is logged each time. */
            folder->next_ms = began_ms + LOOK_MOST_MS;
            return 0;
        }
        take_list(folder, files, count);
        read_texts(folder);
    }
    int rc = 0;
    while (rc == 0 && folder->at < folder->count &&
           kiln_monotonic_ms() < began_ms + (double)limit_ms)
        if ((rc = take_file(folder, ledger, &folder->known[folder->at], err)) == 0)
            folder->at++;
    if (rc || folder->at < folder->count)
        return rc;
    folder->at = 0;
    const double now_ms = kiln_monotonic_ms();
    folder->next_ms = now_ms + fmin(fmax(LOOK_MS, LOOK_SHARE * (now_ms - began_ms)), LOOK_MOST_MS);
    return folder->ended ? 0 : end_gone(folder, ledger, err);
}
