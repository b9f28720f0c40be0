/* tokenizer_files.c - reads tokenizer.json, or vocab.json + merges.txt + tokenizer_config.json.
 *
 * tokenizer.json can describe any tokenizer; Kiln builds one family.  So every step in it is
 * compared with what Kiln does, and any other is refused by its name: a step passed over in
 * silence would give other ids, and other pictures, without a word.
 */
#include "pipeline/tokenizer_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/pretokenizer.h"
#include "storage/regular.h"

#define FILE_BYTES_MAX (64 * 1024 * 1024)

/* --- files ------------------------------------------------------------------------------------ */

/* *ret_exists is false, and the result 0, if there is no such file. */
static int open_file(const char *path, FILE **ret, bool *ret_exists, struct kiln_error *err)
{
    struct stat st;
    int fd, code = kiln_regular_open(path, &fd, &st, err);
    *ret_exists = code != KILN_NOT_FOUND;
    if (code)
        return *ret_exists ? code : 0;
    if (st.st_size > FILE_BYTES_MAX)
        code = kiln_fail(err, KILN_UNSUPPORTED, "%s: %lld bytes, at most %d", path,
                         (long long)st.st_size, FILE_BYTES_MAX);
    else if (!(*ret = fdopen(fd, "r")))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    if (code)
        close(fd);
    return code;
}

/* The JSON object of dir/name, kept alive by f->roots; *ret is NULL if there is no such file. */
static int load_json(struct kiln_tokenizer_files *f, const char *dir, const char *name,
                     json_t **ret, struct kiln_error *err)
{
    char path[PATH_MAX];
    FILE *file = NULL;
    bool exists;
    json_error_t where;
    *ret = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int rc = open_file(path, &file, &exists, err);
    if (rc || !exists)
        return rc;
    json_t *json = json_loadf(file, JSON_REJECT_DUPLICATES, &where);
    fclose(file);
    if (!json)
        return kiln_fail(err, KILN_CORRUPT, "%s:%d: %s", path, where.line, where.text);
    if (json_array_append_new(f->roots, json) != 0)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    if (!json_is_object(json))
        return kiln_fail(err, KILN_CORRUPT, "%s: not an object", path);
    *ret = json;
    return 0;
}

/* merges.txt as the array that tokenizer.json would hold. */
static int read_merges(FILE *file, const char *path, json_t *merges, struct kiln_error *err)
{
    char *line = NULL;
    size_t size = 0, number = 0;
    ssize_t len;
    int rc = 0;
    while (!rc && (len = getline(&line, &size, file)) >= 0) {
        number++;
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
            line[--len] = '\0';
        if (len == 0 || strncmp(line, "#version", 8) == 0)
            continue;
        if (json_array_append_new(merges, json_stringn(line, (size_t)len)) != 0)
            rc = kiln_fail(err, KILN_CORRUPT, "%s:%zu: not UTF-8", path, number);
    }
    free(line);
    return rc;
}

static int load_merges(struct kiln_tokenizer_files *f, const char *dir, struct kiln_error *err)
{
    char path[PATH_MAX];
    FILE *file = NULL;
    bool exists;
    snprintf(path, sizeof path, "%s/merges.txt", dir);
    int rc = open_file(path, &file, &exists, err);
    if (rc)
        return rc;
    if (!exists)
        return kiln_fail(err, KILN_NOT_FOUND, "%s: there is a vocab.json and no such file", path);
    f->merges = json_array();
    if (json_array_append_new(f->roots, f->merges) != 0) {
        fclose(file);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    }
    rc = read_merges(file, path, f->merges, err);
    fclose(file);
    return rc;
}

/* --- tokenizer.json --------------------------------------------------------------------------- */

static const char *type_of(const json_t *step)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    return type ? type : "without a type";
}

static bool is_type(const json_t *step, const char *type)
{
    return strcmp(type_of(step), type) == 0;
}

/* Absent, null, false, "" or zero: the option is off. */
static bool is_off(const json_t *step, const char *key)
{
    const json_t *v = json_object_get(step, key);
    return !v || json_is_null(v) || json_is_false(v) ||
           (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_number(v) && json_number_value(v) == 0);
}

static int refuse(const struct kiln_tokenizer_files *f, const char *part, const char *what,
                  struct kiln_error *err)
{
    return kiln_fail(err, KILN_UNSUPPORTED, "%s: %s \"%.64s\" is not supported", f->path, part,
                     what);
}

static int check_normalizer(struct kiln_tokenizer_files *f, const json_t *step,
                            struct kiln_error *err)
{
    f->nfc = is_type(step, "NFC");
    return !step || json_is_null(step) || f->nfc ? 0 : refuse(f, "normalizer", type_of(step), err);
}

/* Split by a regular expression, then ByteLevel without its own. */
static int check_pre_tokenizer(struct kiln_tokenizer_files *f, const json_t *step,
                               struct kiln_error *err)
{
    const json_t *steps = json_object_get(step, "pretokenizers");
    if (!is_type(step, "Sequence") || json_array_size(steps) != 2)
        return refuse(f, "pre_tokenizer", type_of(step), err);
    const json_t *split = json_array_get(steps, 0), *bytes = json_array_get(steps, 1);
    if (!is_type(split, "Split"))
        return refuse(f, "pre_tokenizer", type_of(split), err);
    if (!is_type(bytes, "ByteLevel"))
        return refuse(f, "pre_tokenizer", type_of(bytes), err);
    if (!is_off(bytes, "add_prefix_space"))
        return refuse(f, "option", "add_prefix_space", err);
    if (!is_off(bytes, "use_regex"))
        return refuse(f, "option", "use_regex", err);
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    if (!behavior || strcmp(behavior, "Isolated") != 0)
        return refuse(f, "split behavior", behavior ? behavior : "", err);
    if (!is_off(split, "invert"))
        return refuse(f, "option", "invert", err);
    f->pattern = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    return f->pattern ? 0 : refuse(f, "split pattern", "that is no Regex", err);
}

static int check_model(struct kiln_tokenizer_files *f, const json_t *model, struct kiln_error *err)
{
    static const char *const options[] = {"dropout",
                                          "unk_token",
                                          "continuing_subword_prefix",
                                          "end_of_word_suffix",
                                          "fuse_unk",
                                          "byte_fallback",
                                          "ignore_merges"};
    if (!is_type(model, "BPE"))
        return refuse(f, "model", type_of(model), err);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!is_off(model, options[i]))
            return refuse(f, "option", options[i], err);
    f->vocab = json_object_get(model, "vocab");
    f->merges = json_object_get(model, "merges");
    return 0;
}

static int read_tokenizer_json(struct kiln_tokenizer_files *f, json_t *root, struct kiln_error *err)
{
    const json_t *post = json_object_get(root, "post_processor");
    int rc = check_normalizer(f, json_object_get(root, "normalizer"), err);
    if (!rc)
        rc = check_pre_tokenizer(f, json_object_get(root, "pre_tokenizer"), err);
    if (!rc)
        rc = check_model(f, json_object_get(root, "model"), err);
    if (!rc && post && !json_is_null(post) && !is_type(post, "ByteLevel"))
        rc = refuse(f, "post_processor", type_of(post), err);
    f->added = json_object_get(root, "added_tokens");
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

static int read_vocab_and_merges(struct kiln_tokenizer_files *f, const char *dir, json_t *vocab,
                                 struct kiln_error *err)
{
    json_t *config = NULL;
    f->vocab = vocab;
    f->pattern = kiln_qwen_pattern;
    f->nfc = true;
    int rc = load_merges(f, dir, err);
    if (!rc)
        rc = load_json(f, dir, "tokenizer_config.json", &config, err);
    return rc ? rc : list_added(f, dir, config, err);
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

static int set_path(struct kiln_tokenizer_files *f, const char *dir, const char *name,
                    struct kiln_error *err)
{
    if (asprintf(&f->path, "%s/%s", dir, name) >= 0)
        return 0;
    f->path = NULL;
    return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", dir);
}

int kiln_tokenizer_files_read(const char *dir, struct kiln_tokenizer_files *ret,
                              struct kiln_error *err)
{
    struct kiln_tokenizer_files *f = ret;
    json_t *root = NULL;
    *f = (struct kiln_tokenizer_files){.roots = json_array()};
    if (!f->roots)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", dir);
    if (strlen(dir) > PATH_MAX - 32)
        return kiln_fail(err, KILN_BAD_INPUT, "%.64s...: the path is too long", dir);
    int rc = load_json(f, dir, "tokenizer.json", &root, err);
    if (!rc && root) {
        rc = set_path(f, dir, "tokenizer.json", err);
        if (!rc)
            rc = read_tokenizer_json(f, root, err);
        return rc ? rc : check_sizes(f, err);
    }
    if (!rc)
        rc = load_json(f, dir, "vocab.json", &root, err);
    if (!rc && !root)
        rc = kiln_fail(err, KILN_NOT_FOUND, "%s: neither tokenizer.json nor vocab.json", dir);
    if (!rc)
        rc = set_path(f, dir, "vocab.json", err);
    if (!rc)
        rc = read_vocab_and_merges(f, dir, root, err);
    return rc ? rc : check_sizes(f, err);
}

void kiln_tokenizer_files_release(struct kiln_tokenizer_files *f)
{
    json_decref(f->roots);
    free(f->path);
    *f = (struct kiln_tokenizer_files){0};
}
