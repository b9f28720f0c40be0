/* tokenizer_files.c - reads tokenizer.json, or vocab.json + merges.txt, and with either of them
 * tokenizer_config.json.  tokenizer_steps.c checks the steps that tokenizer.json describes.
 */
#include "pipeline/text/tokenizer_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/text/pretokenizer.h"
#include "pipeline/text/tokenizer_steps.h"
#include "storage/formats/json_bounds.h"
#include "storage/formats/regular.h"

#define FILE_BYTES_MAX (64 * 1024 * 1024)
#define JSON_DEPTH_MAX 32
#define JSON_VALUES_MAX ((size_t)6 * KILN_VOCAB_MAX) /* a pair of a merge counts as three */

/* --- files ------------------------------------------------------------------------------------ */

/* The JSON object of dir/name, kept alive by f->roots; *ret is NULL if there is no such file. */
static int load_json(struct kiln_tokenizer_files *f, const char *dir, const char *name,
                     json_t **ret, struct kiln_error *err)
{
    char path[PATH_MAX];
    json_t *json;
    *ret = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int rc = kiln_json_file(path, FILE_BYTES_MAX, JSON_DEPTH_MAX, JSON_VALUES_MAX, &json, err);
    if (rc)
        return rc == KILN_NOT_FOUND ? 0 : rc;
    if (json_array_append_new(f->roots, json) != 0)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    if (!json_is_object(json))
        return kiln_fail(err, KILN_CORRUPT, "%s: not an object", path);
    *ret = json;
    return 0;
}

/* merges.txt as the array that tokenizer.json would hold. */
static int load_merges(struct kiln_tokenizer_files *f, const char *dir, struct kiln_error *err)
{
    char path[PATH_MAX], *text;
    size_t size, number = 0;
    snprintf(path, sizeof path, "%s/merges.txt", dir);
    int rc = kiln_regular_read(path, FILE_BYTES_MAX, &text, &size, err);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, rc, "%s: there is a vocab.json and no such file", path);
    if (rc)
        return rc;
    f->merges = json_array();
    if (json_array_append_new(f->roots, f->merges) != 0)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    for (char *line = text, *next; line < text + size && !rc; line = next) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        next = end ? end + 1 : text + size;
        end = end ? end : next;
        while (end > line && end[-1] == '\r')
            end--;
        number++;
        if (end > line && strncmp(line, "#version", 8) != 0 &&
            json_array_append_new(f->merges, json_stringn(line, (size_t)(end - line))) != 0)
            rc = kiln_fail(err, KILN_CORRUPT, "%s:%zu: not UTF-8", path, number);
    }
    free(text);
    return rc;
}

/* --- vocab.json ------------------------------------------------------------------------------- */

/* "added_tokens_decoder": {"151643": {"content": ...}} as a list that holds the ids. */
static int list_added(struct kiln_tokenizer_files *f, const char *dir, json_t *config,
                      struct kiln_error *err)
{
    const char *key;
    json_t *token, *added = json_array();
    if (json_array_append_new(f->roots, added) != 0)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", dir);
    f->added = added;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, token)
    {
        char *end;
        errno = 0;
        long id = strtol(key, &end, 10);
        if (end == key || *end || errno || id < 0 || !json_is_object(token))
            return kiln_fail(err, KILN_CORRUPT,
                             "%s/tokenizer_config.json: added token \"%.32s\" is not an id with "
                             "an object",
                             dir, key);
        if (json_object_set_new(token, "id", json_integer(id)) != 0 ||
            json_array_append(added, token) != 0)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", dir);
    }
    return 0;
}

/* --- both ------------------------------------------------------------------------------------- */

static int check_sizes(const struct kiln_tokenizer_files *f, struct kiln_error *err)
{
    if (!json_is_object(f->vocab) || json_object_size(f->vocab) > KILN_VOCAB_MAX)
        return kiln_fail(err, KILN_CORRUPT, "%s: the vocabulary is not an object of at most %d",
                         f->path, KILN_VOCAB_MAX);
    if (!json_is_array(f->merges) || json_array_size(f->merges) > KILN_VOCAB_MAX)
        return kiln_fail(err, KILN_CORRUPT, "%s: the merges are not a list of at most %d", f->path,
                         KILN_VOCAB_MAX);
    if (f->added && (!json_is_array(f->added) || json_array_size(f->added) > KILN_ADDED_MAX))
        return kiln_fail(err, KILN_CORRUPT, "%s: the added tokens are not a list of at most %d",
                         f->path, KILN_ADDED_MAX);
    return 0;
}

int kiln_tokenizer_files_read(const char *dir, struct kiln_tokenizer_files *ret,
                              struct kiln_error *err)
{
    struct kiln_tokenizer_files *f = ret;
    json_t *root = NULL, *vocab = NULL, *config = NULL;
    *f = (struct kiln_tokenizer_files){.roots = json_array()};
    if (!f->roots)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", dir);
    if (strlen(dir) > PATH_MAX - 32)
        return kiln_fail(err, KILN_BAD_INPUT, "%.64s...: the path is too long", dir);
    int rc = load_json(f, dir, "tokenizer_config.json", &config, err);
    rc = rc ? rc : kiln_tokenizer_options_check(dir, config, err);
    rc = rc ? rc : load_json(f, dir, "tokenizer.json", &root, err);
    if (!rc && !root)
        rc = load_json(f, dir, "vocab.json", &vocab, err);
    if (!rc && !root && !vocab)
        rc = kiln_fail(err, KILN_NOT_FOUND, "%s: neither tokenizer.json nor vocab.json", dir);
    if (!rc && asprintf(&f->path, "%s/%s", dir, root ? "tokenizer.json" : "vocab.json") < 0) {
        f->path = NULL;
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", dir);
    }
    if (!rc && root) {
        rc = kiln_tokenizer_steps_read(f, root, err);
    } else if (!rc) {
        f->vocab = vocab;
        f->pattern = kiln_qwen_pattern;
        f->nfc = true;
        rc = load_merges(f, dir, err);
        rc = rc ? rc : list_added(f, dir, config, err);
    }
    return rc ? rc : check_sizes(f, err);
}

void kiln_tokenizer_files_release(struct kiln_tokenizer_files *f)
{
    json_decref(f->roots);
    free(f->path);
    *f = (struct kiln_tokenizer_files){0};
}
