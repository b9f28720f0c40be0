/* subwords.c - see subwords.h. */
#include "pipeline/embed/tokens/subwords.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/tokens/added.h"
#include "pipeline/embed/tokens/models.h"
#include "pipeline/embed/tokens/template.h"
#include "storage/formats/json_bounds.h"

#define FILE_BYTES_MAX (64 * 1024 * 1024)
#define JSON_DEPTH_MAX 32
#define JSON_VALUES_MAX ((size_t)6 * KILN_PIECES_MAX)

struct kiln_subwords {
    struct kiln_steps *steps;
    struct kiln_added *added;
    struct kiln_model model;
    struct kiln_template template;
    struct kiln_subwords_info info;
};

/* --- opening ---------------------------------------------------------------------------------- */

static int compare_lengths(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static size_t characters(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((uint8_t)text[i] & 0xc0u) != 0x80u;
    return count;
}

/* Whether the model's vocabulary lacks it, so that an added token is one more. */
static bool is_new(const struct kiln_model *m, const json_t *content)
{
    return kiln_pieces_find(m->pieces, json_string_value(content), json_string_length(content)) < 0;
}

/* The median length of all tokens in characters, as numpy has it, without its fraction. */
static int measure(struct kiln_subwords *s, const json_t *root, struct kiln_error *err)
{
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab"), *value;
    const json_t *added = json_object_get(root, "added_tokens");
    const size_t most = json_array_size(vocab) + json_object_size(vocab) + json_array_size(added);
    size_t *lengths = malloc((most + 1) * sizeof *lengths), n = 0, i;
    const char *key;
    if (!lengths)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to measure a vocabulary");
    json_object_foreach(vocab, key, value) lengths[n++] = characters(key, strlen(key));
    json_array_foreach(vocab, i, value)
    {
        const json_t *piece = json_array_get(value, 0);
        lengths[n++] = characters(json_string_value(piece), json_string_length(piece));
    }
    for (i = 0; i < json_array_size(added); i++) {
        const json_t *content = json_object_get(json_array_get(added, i), "content");
        if (is_new(&s->model, content))
            lengths[n++] = characters(json_string_value(content), json_string_length(content));
    }
    qsort(lengths, n, sizeof *lengths, compare_lengths);
    const size_t twice = n ? lengths[(n - 1) / 2] + lengths[n / 2] : 0;
    s->info.median_length = twice / 2 > 0 ? twice / 2 : 1;
    free(lengths);
    return 0;
}

static int build(struct kiln_subwords *s, const json_t *root, const char *path,
                 struct kiln_error *err)
{
    const json_t *model = json_object_get(root, "model");
    if (!json_is_object(model))
        return kiln_fail(err, KILN_CORRUPT, "%s: no model", path);
    int rc = kiln_steps_read(root, path, &s->steps, err);
    rc = rc ? rc : kiln_model_read(model, path, &s->model, err);
    if (!rc)
        rc = kiln_added_read(json_object_get(root, "added_tokens"), s->steps, path, &s->added, err);
    rc = rc ? rc
            : kiln_template_read(json_object_get(root, "post_processor"), path, &s->template, err);
    if (rc)
        return rc;
    struct kiln_subwords_info *info = &s->info;
    info->unk_id = s->model.unk_id;
    info->blank_id = kiln_pieces_find(s->model.pieces, "\xe2\x96\x81", 3);
    info->max_id = s->model.max_id;
    const int32_t others[] = {kiln_added_max_id(s->added), kiln_template_max_id(&s->template)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        info->max_id = others[i] > info->max_id ? others[i] : info->max_id;
    info->special_count = s->template.before_count + s->template.behind_count;
    info->lowercase = kiln_steps_lowercase(s->steps);
    return measure(s, root, err);
}

int kiln_subwords_open(const char *path, struct kiln_subwords **ret, struct kiln_error *err)
{
    json_t *root = NULL;
    struct kiln_subwords *s = calloc(1, sizeof *s);
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", path);
    int rc = kiln_json_file(path, FILE_BYTES_MAX, JSON_DEPTH_MAX, JSON_VALUES_MAX, &root, err);
    rc = rc ? rc : build(s, root, path, err);
    json_decref(root);
    if (rc)
        kiln_subwords_free(s);
    else
        *ret = s;
    return rc;
}

void kiln_subwords_free(struct kiln_subwords *s)
{
    if (!s)
        return;
    kiln_steps_free(s->steps);
    kiln_added_free(s->added);
    kiln_model_release(&s->model);
    free(s);
}

const struct kiln_subwords_info *kiln_subwords_info(const struct kiln_subwords *s)
{
    return &s->info;
}

size_t kiln_subwords_known(const struct kiln_subwords *s, const int32_t *ids, size_t count)
{
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        known += ids[i] != s->info.unk_id && ids[i] != s->info.blank_id;
    return known;
}

/* --- encoding --------------------------------------------------------------------------------- */

struct encoding {
    const struct kiln_subwords *s;
    struct kiln_ids *ids;
    size_t limit; /* ids->count from which on no more are needed */
};

/* No error: enough ids are there. */
#define ENOUGH (-1)

static int encode_word(void *arg, const char *word, size_t len, struct kiln_error *err)
{
    struct encoding *e = arg;
    const struct kiln_model *m = &e->s->model;
    if (e->ids->count >= e->limit)
        return ENOUGH;
    return (m->type == KILN_UNIGRAM ? kiln_unigram_encode : kiln_wordpiece_encode)(m, word, len,
                                                                                   e->ids, err);
}

/* A part of the text, or of the normalised text, that has no added token of the kind before. */
static int encode_part(struct encoding *e, bool normalised, const char *text, size_t len,
                       struct kiln_error *err);

/* Cuts the added tokens of one kind out of the text. */
static int cut(struct encoding *e, bool normalised, const char *text, size_t len,
               struct kiln_error *err)
{
    struct kiln_added_match match;
    size_t at = 0;
    int rc = 0;
    while (!rc && kiln_added_next(e->s->added, normalised, text, len, at, &match)) {
        rc = encode_part(e, normalised, text + at, match.begin - at, err);
        if (!rc)
            kiln_ids_add(e->ids, match.id);
        at = match.end;
    }
    return rc ? rc : encode_part(e, normalised, text + at, len - at, err);
}

static int encode_part(struct encoding *e, bool normalised, const char *text, size_t len,
                       struct kiln_error *err)
{
    struct kiln_text normal = {0};
    if (len == 0)
        return 0;
    if (normalised)
        return kiln_steps_split(e->s->steps, text, len, encode_word, e, err);
    int rc = kiln_steps_normalise(e->s->steps, text, len, &normal, err);
    if (!rc && normal.len > 0)
        rc = cut(e, true, normal.at, normal.len, err);
    kiln_text_release(&normal);
    return rc;
}

int kiln_subwords_encode(const struct kiln_subwords *s, const char *text, size_t len, bool template,
                         size_t max, struct kiln_ids *ids, struct kiln_error *err)
{
    const struct kiln_template *t = &s->template;
    for (size_t i = 0; template && i < t->before_count; i++)
        kiln_ids_add(ids, t->before[i]);
    const size_t begin = ids->count;
    const size_t limit = max < SIZE_MAX - begin ? begin + max : SIZE_MAX;
    struct encoding e = {s, ids, limit};
    int rc = cut(&e, false, text, len, err);
    if (rc && rc != ENOUGH)
        return rc;
    if (ids->count > limit)
        ids->count = limit;
    for (size_t i = 0; template && i < t->behind_count; i++)
        kiln_ids_add(ids, t->behind[i]);
    return ids->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory to tokenize a text") : 0;
}
