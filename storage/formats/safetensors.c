/* safetensors.c - opens one safetensors file, or the shards of an index, as one set of tensors.
 *
 * Files are mapped read-only and the tensors point into the mapping: a model of 12 GB is not read
 * before it is used, and two processes share its pages.  The price of a mapping is that a file
 * which somebody cuts short while it is open kills the reader (SIGBUS).  kiln_st_check() compares
 * the files with what they were when they were opened; loaders call it before a long read, and
 * models are replaced by renaming a new file over the old one, never by writing into it.  Small
 * files that come and go while jobs are rendered (LoRAs) are read into memory instead.
 *
 * An index (model.safetensors.index.json) has "weight_map": {"tensor": "shard file"}.  Shards
 * are names in the same directory, and index and shards must agree in both directions.
 */
#include "storage/formats/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/formats/json_bounds.h"
#include "storage/formats/regular.h"
#include "storage/formats/safetensors_shard.h"

#define SHARDS_MAX 1024
#define INDEX_BYTES_MAX KILN_ST_HEADER_MAX
#define INDEX_DEPTH_MAX 16 /* of which the weight_map needs 2; the rest is metadata */
#define INDEX_VALUES_MAX ((size_t)KILN_ST_TENSORS_MAX * 4)

struct kiln_st {
    struct kiln_st_shard *shards;
    size_t shard_count;
    struct kiln_st_tensor *tensors; /* of all shards, sorted by name */
    size_t count;
    size_t room; /* how many bytes of files may still be read; KILN_ST_MAP: they are mapped */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kiln_st_tensor *)a)->name,
                  ((const struct kiln_st_tensor *)b)->name);
}

/* --- the set ---------------------------------------------------------------------------------- */

/* Joins the shards' tables; a name in two shards has two meanings and is refused. */
static int collect(struct kiln_st *st, struct kiln_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < st->shard_count; i++)
        total += st->shards[i].header.count;
    if (total > KILN_ST_TENSORS_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s and its other shards: %zu tensors, at most %d",
                         st->shards[0].path, total, KILN_ST_TENSORS_MAX);
    st->tensors = calloc(total + 1, sizeof *st->tensors);
    if (!st->tensors)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a table of %zu tensors", total);
    for (size_t i = 0; i < st->shard_count; i++) {
        const struct kiln_st_header *h = &st->shards[i].header;
        if (h->count > 0) /* an empty table may be a null pointer, which memcpy must not see */
            memcpy(st->tensors + st->count, h->tensors, h->count * sizeof *h->tensors);
        st->count += h->count;
    }
    qsort(st->tensors, st->count, sizeof *st->tensors, by_name);
    for (size_t i = 1; i < st->count; i++)
        if (strcmp(st->tensors[i - 1].name, st->tensors[i].name) == 0)
            return kiln_fail(err, KILN_CORRUPT, "tensor %s is in two shards beside %s",
                             st->tensors[i].name, st->shards[0].path);
    return 0;
}

static struct kiln_st *st_new(size_t shards, size_t room)
{
    struct kiln_st *st = calloc(1, sizeof *st);
    if (st)
        st->shards = calloc(shards, sizeof *st->shards);
    if (!st || !st->shards) {
        free(st);
        return NULL;
    }
    st->room = room;
    return st;
}

/* Hands out the set, or closes it if rc says that opening has failed. */
static int finish(struct kiln_st *st, int rc, struct kiln_st **ret)
{
    if (rc)
        kiln_st_close(st);
    else
        *ret = st;
    return rc;
}

static int open_single(const char *path, size_t room, struct kiln_st **ret, struct kiln_error *err)
{
    struct kiln_st *st = st_new(1, room);
    if (!st)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", path);
    st->shard_count = 1;
    int rc = kiln_st_shard_open(&st->shards[0], path, &st->room, err);
    return finish(st, rc ? rc : collect(st, err), ret);
}

int kiln_st_open_memory(const void *data, size_t size, const char *what, struct kiln_st **ret,
                        struct kiln_error *err)
{
    struct kiln_st *st = st_new(1, KILN_ST_MAP);
    if (!st)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", what);
    st->shard_count = 1;
    struct kiln_st_shard *s = &st->shards[0];
    *s = (struct kiln_st_shard){.fd = -1, .size = size, .path = strdup(what)};
    int rc = s->path ? kiln_st_header_parse(data, size, what, &s->header, err)
                     : kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", what);
    return finish(st, rc ? rc : collect(st, err), ret);
}

void kiln_st_close(struct kiln_st *st)
{
    if (!st)
        return;
    for (size_t i = 0; i < st->shard_count; i++)
        kiln_st_shard_release(&st->shards[i]);
    free(st->shards);
    free(st->tensors);
    free(st);
}

int kiln_st_check(const struct kiln_st *st, struct kiln_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < st->shard_count && !rc; i++)
        rc = kiln_st_shard_check(&st->shards[i], err);
    return rc;
}

bool kiln_st_source(const struct kiln_st *st, const struct kiln_st_tensor *t, int *ret_fd,
                    uint64_t *ret_offset, const char **ret_path)
{
    for (size_t i = 0; i < st->shard_count; i++) {
        const struct kiln_st_shard *s = &st->shards[i];
        uintptr_t begin = (uintptr_t)s->data, at = (uintptr_t)t->data;
        if (s->fd < 0 || at < begin || at - begin > s->size)
            continue;
        *ret_fd = s->fd;
        *ret_offset = at - begin;
        *ret_path = s->path;
        return true;
    }
    return false;
}

/* --- an index --------------------------------------------------------------------------------- */

/* A shard is a plain name beside the index: no way to another directory. */
static bool shard_name_ok(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= NAME_MAX && name[0] != '.' && !strchr(name, '/');
}

static int load_index(const char *path, json_t **ret, struct kiln_error *err)
{
    json_t *json;
    int rc = kiln_json_file(path, INDEX_BYTES_MAX, INDEX_DEPTH_MAX, INDEX_VALUES_MAX, &json, err);
    if (rc)
        return rc;
    if (!json_is_object(json_object_get(json, "weight_map"))) {
        json_decref(json);
        return kiln_fail(err, KILN_CORRUPT, "%s: there is no \"weight_map\"", path);
    }
    *ret = json;
    return 0;
}

/* Opens dir/name unless it is open already. */
static int add_shard(struct kiln_st *st, const char *dir, const char *name, struct kiln_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return kiln_fail(err, KILN_BAD_INPUT, "%s/%s: the path is too long", dir, name);
    for (size_t i = 0; i < st->shard_count; i++)
        if (strcmp(st->shards[i].path, path) == 0)
            return 0;
    if (st->shard_count == SHARDS_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: more than %d shards", dir, SHARDS_MAX);
    struct kiln_st_shard *s = &st->shards[st->shard_count];
    int rc = kiln_st_shard_open(s, path, &st->room, err);
    if (rc)
        kiln_st_shard_release(s);
    else
        st->shard_count++;
    return rc;
}

static int open_shards(struct kiln_st *st, const json_t *map, const char *dir, const char *path,
                       struct kiln_error *err)
{
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!name || !shard_name_ok(name))
            return kiln_fail(err, KILN_CORRUPT,
                             "%s: tensor %.128s is not mapped to a file name in its directory",
                             path, tensor);
        int rc = add_shard(st, dir, name, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Every mapped tensor must be in its shard, and no shard may hold one that is not mapped. */
static int compare_index(const struct kiln_st *st, const json_t *map, const char *dir,
                         const char *path, struct kiln_error *err)
{
    size_t held = 0;
    for (size_t i = 0; i < st->shard_count; i++) {
        const struct kiln_st_shard *s = &st->shards[i];
        for (size_t k = 0; k < s->header.count; k++, held++) {
            const char *tensor = s->header.tensors[k].name;
            const char *mapped = json_string_value(json_object_get(map, tensor));
            if (!mapped || strcmp(mapped, s->path + strlen(dir) + 1) != 0)
                return kiln_fail(err, KILN_CORRUPT, "%s holds tensor %s, %s does not say so",
                                 s->path, tensor, path);
        }
    }
    if (held == json_object_size(map))
        return 0;
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)map, tensor, value)
    {
        if (!kiln_st_find(st, tensor))
            return kiln_fail(err, KILN_CORRUPT, "%s: tensor %.128s is not in %s", path, tensor,
                             json_string_value(value));
    }
    return kiln_fail(err, KILN_INTERNAL, "%s: index and shards disagree", path);
}

static int open_index(const char *path, size_t room, struct kiln_st **ret, struct kiln_error *err)
{
    json_t *index = NULL;
    int rc = load_index(path, &index, err);
    if (rc)
        return rc;
    const json_t *map = json_object_get(index, "weight_map");
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    struct kiln_st *st = st_new(SHARDS_MAX, room);
    if (!dir || !st)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", path);
    else if (json_object_size(map) == 0)
        rc = kiln_fail(err, KILN_CORRUPT, "%s: \"weight_map\" is empty", path);
    if (!rc)
        rc = open_shards(st, map, dir, path, err);
    if (!rc)
        rc = collect(st, err);
    if (!rc)
        rc = compare_index(st, map, dir, path, err);
    json_decref(index);
    free(dir);
    return finish(st, rc, ret);
}

/* --- a directory ------------------------------------------------------------------------------ */

#define SINGLE_SUFFIX ".safetensors"
#define INDEX_SUFFIX ".safetensors.index.json"

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

/* NAME.safetensors.index.json, or of a variant NAME.safetensors.index.VARIANT.json. */
static bool is_index(const char *name)
{
    return strstr(name, SINGLE_SUFFIX ".index.") && ends_with(name, ".json");
}

static int open_file(const char *path, size_t room, struct kiln_st **ret, struct kiln_error *err)
{
    const char *slash = strrchr(path, '/');
    return is_index(slash ? slash : path) ? open_index(path, room, ret, err)
                                          : open_single(path, room, ret, err);
}

/* The one index, or the one single file, of the directory: 0 none, 1 found, 2 several. */
static int only_one(DIR *dir, bool index, char *ret_name)
{
    int found = 0;
    rewinddir(dir);
    for (struct dirent *e; (e = readdir(dir)) && found < 2;) {
        bool fits = index ? is_index(e->d_name) : ends_with(e->d_name, SINGLE_SUFFIX);
        if (e->d_name[0] == '.' || !fits)
            continue;
        snprintf(ret_name, NAME_MAX + 1, "%s", e->d_name);
        found++;
    }
    return found;
}

/* An index before its own shards, which are .safetensors files too. */
static int choose_only(const char *dir_path, char *ret_name, struct kiln_error *err)
{
    DIR *dir = opendir(dir_path);
    if (!dir)
        return kiln_fail(err, KILN_IO, "open %s: %s", dir_path, strerror(errno));
    int found = only_one(dir, true, ret_name);
    if (found == 0)
        found = only_one(dir, false, ret_name);
    closedir(dir);
    if (found == 0)
        return kiln_fail(err, KILN_NOT_FOUND, "%s: there is no .safetensors file in it", dir_path);
    if (found > 1)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s: several .safetensors files, none of them model "
                         "or diffusion_pytorch_model: name one",
                         dir_path);
    return 0;
}

static int open_directory(const char *dir, size_t room, struct kiln_st **ret,
                          struct kiln_error *err)
{
    static const char *const usual[] = {"model" SINGLE_SUFFIX, "model" INDEX_SUFFIX,
                                        "diffusion_pytorch_model" SINGLE_SUFFIX,
                                        "diffusion_pytorch_model" INDEX_SUFFIX};
    char path[PATH_MAX], name[NAME_MAX + 1];
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (snprintf(path, sizeof path, "%s/%s", dir, usual[i]) < (int)sizeof path &&
            access(path, F_OK) == 0)
            return open_file(path, room, ret, err);
    int rc = choose_only(dir, name, err);
    if (rc)
        return rc;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return kiln_fail(err, KILN_BAD_INPUT, "%s/%s: the path is too long", dir, name);
    return open_file(path, room, ret, err);
}

static int open_path(const char *path, size_t room, struct kiln_st **ret, struct kiln_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return kiln_fail(err, errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "open %s: %s", path,
                         strerror(errno));
    return S_ISDIR(st.st_mode) ? open_directory(path, room, ret, err)
                               : open_file(path, room, ret, err);
}

int kiln_st_open(const char *path, struct kiln_st **ret, struct kiln_error *err)
{
    return open_path(path, KILN_ST_MAP, ret, err);
}

int kiln_st_open_read(const char *path, size_t bytes_max, struct kiln_st **ret,
                      struct kiln_error *err)
{
    return open_path(path, bytes_max, ret, err);
}

/* --- reading ---------------------------------------------------------------------------------- */

size_t kiln_st_count(const struct kiln_st *st)
{
    return st->count;
}

uint64_t kiln_st_total(const struct kiln_st *st)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < kiln_st_count(st); i++)
        bytes += kiln_st_at(st, i)->size;
    return bytes;
}

const struct kiln_st_tensor *kiln_st_at(const struct kiln_st *st, size_t i)
{
    return i < st->count ? &st->tensors[i] : NULL;
}

const struct kiln_st_tensor *kiln_st_find(const struct kiln_st *st, const char *name)
{
    struct kiln_st_tensor key = {.name = name};
    return bsearch(&key, st->tensors, st->count, sizeof key, by_name);
}

const char *kiln_st_metadata(const struct kiln_st *st, const char *key)
{
    const char *value = NULL;
    for (size_t i = 0; i < st->shard_count && !value; i++)
        value = json_string_value(
            json_object_get(json_object_get(st->shards[i].header.json, "__metadata__"), key));
    return value;
}
