/* models.c - reads the model of a tokenizer.json. */
#include "pipeline/embed/tokens/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX_DEFAULT 100
#define UNKNOWN_PENALTY 10.0 /* of Unigram, below the smallest score */

/* Collected before they are sorted. */
struct list {
    struct kiln_piece *at;
    size_t count, bytes;
};

static int add_piece(struct list *list, const char *path, const char *text, size_t len,
                     json_int_t id, struct kiln_error *err)
{
    if (id < 0 || id >= KILN_PIECES_MAX)
        return kiln_fail(err, KILN_CORRUPT, "%s: the id of \"%.64s\" is not within 0 to %d", path,
                         text, KILN_PIECES_MAX - 1);
    list->bytes += len;
    if (len > KILN_PIECE_BYTES_MAX || list->bytes > KILN_PIECES_BYTES_MAX)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: piece \"%.64s...\" is too long", path, text);
    list->at[list->count++] = (struct kiln_piece){text, len, (int32_t)id};
    return 0;
}

/* {"piece": id, ...} */
static int read_dictionary(const json_t *vocab, const char *path, struct list *list,
                           struct kiln_model *m, struct kiln_error *err)
{
    const char *key;
    size_t key_len;
    json_t *value;
    json_object_keylen_foreach((json_t *)vocab, key, key_len, value)
    {
        int rc = add_piece(list, path, key, key_len,
                           json_is_integer(value) ? json_integer_value(value) : -1, err);
        if (rc)
            return rc;
        const int32_t id = list->at[list->count - 1].id;
        m->max_id = id > m->max_id ? id : m->max_id;
    }
    return 0;
}

/* [["piece", log-probability], ...], whose ids count from 0 */
static int read_scored(const json_t *vocab, const char *path, struct list *list,
                       struct kiln_model *m, struct kiln_error *err)
{
    const size_t count = json_array_size(vocab);
    double least = INFINITY;
    if (!(m->scores = calloc(count + 1, sizeof *m->scores)))
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its scores", path);
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(vocab, i), *piece = json_array_get(pair, 0);
        const json_t *score = json_array_get(pair, 1);
        if (!json_is_string(piece) || !json_is_number(score) ||
            !(fabs(json_number_value(score)) < 1e30))
            return kiln_fail(err, KILN_CORRUPT, "%s: piece %zu is not a text with a score", path,
                             i);
        int rc = add_piece(list, path, json_string_value(piece), json_string_length(piece),
                           (json_int_t)i, err);
        if (rc)
            return rc;
        m->scores[i] = json_number_value(score);
        least = m->scores[i] < least ? m->scores[i] : least;
    }
    m->max_id = (int32_t)count - 1;
    m->unk_score = least - UNKNOWN_PENALTY;
    return 0;
}

/* What comes before the pieces within a word, and which piece stands for unknown words. */
static int read_wordpiece(const json_t *model, const char *path, struct kiln_model *m,
                          struct kiln_error *err)
{
    const json_t *unk = json_object_get(model, "unk_token");
    const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
    const json_t *longest = json_object_get(model, "max_input_chars_per_word");
    if (!json_is_string(unk) || !json_is_string(prefix))
        return kiln_fail(err, KILN_CORRUPT,
                         "%s: WordPiece has no unk_token or continuing_subword_prefix", path);
    if (longest && (!json_is_integer(longest) || json_integer_value(longest) < 0))
        return kiln_fail(err, KILN_CORRUPT, "%s: max_input_chars_per_word is not a number", path);
    m->word_max = longest ? (size_t)json_integer_value(longest) : WORD_MAX_DEFAULT;
    m->unk_id = kiln_pieces_find(m->pieces, json_string_value(unk), json_string_length(unk));
    m->inner = kiln_pieces_start(m->pieces);
    m->has_inner = m->pieces != NULL;
    for (size_t i = 0; i < json_string_length(prefix) && m->has_inner; i++)
        m->has_inner =
            kiln_pieces_step(m->pieces, &m->inner, (uint8_t)json_string_value(prefix)[i]);
    return 0;
}

static int read_unigram(const json_t *model, const char *path, struct kiln_model *m,
                        struct kiln_error *err)
{
    const json_t *unk = json_object_get(model, "unk_id");
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: byte_fallback of Unigram is not supported",
                         path);
    if (unk && !json_is_null(unk) &&
        (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
         json_integer_value(unk) > m->max_id))
        return kiln_fail(err, KILN_CORRUPT, "%s: unk_id is not the id of a piece", path);
    m->unk_id = json_is_integer(unk) ? (int32_t)json_integer_value(unk) : -1;
    return 0;
}

/* The type that the model names, or the one that its vocabulary has the form of. */
static int read_type(const json_t *model, const char *path, struct kiln_model *m,
                     struct kiln_error *err)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    const bool scored = json_is_array(json_object_get(model, "vocab"));
    m->type = scored ? KILN_UNIGRAM : KILN_WORDPIECE;
    if (type && strcmp(type, "WordPiece") != 0 && strcmp(type, "Unigram") != 0)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: model \"%.64s\" is not supported", path, type);
    if (type && scored != (strcmp(type, "Unigram") == 0))
        return kiln_fail(err, KILN_CORRUPT, "%s: %s with the vocabulary of another model", path,
                         type);
    if (!type && !scored && !json_object_get(model, "max_input_chars_per_word"))
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: a model without a type", path);
    return 0;
}

int kiln_model_read(const json_t *model, const char *path, struct kiln_model *ret,
                    struct kiln_error *err)
{
    const json_t *vocab = json_object_get(model, "vocab");
    const size_t count = json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab);
    struct list list = {0};
    *ret = (struct kiln_model){.unk_id = -1};
    int rc = read_type(model, path, ret, err);
    if (!rc && (count == 0 || count > KILN_PIECES_MAX))
        rc = kiln_fail(err, KILN_CORRUPT, "%s: a vocabulary of %zu pieces (1 to %d)", path, count,
                       KILN_PIECES_MAX);
    if (!rc && !(list.at = calloc(count, sizeof *list.at)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its vocabulary", path);
    if (!rc)
        rc = (ret->type == KILN_UNIGRAM ? read_scored : read_dictionary)(vocab, path, &list, ret,
                                                                         err);
    if (!rc && !(ret->pieces = kiln_pieces_new(list.at, list.count)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its vocabulary", path);
    free(list.at);
    if (!rc)
        rc = (ret->type == KILN_UNIGRAM ? read_unigram : read_wordpiece)(model, path, ret, err);
    return rc;
}

void kiln_model_release(struct kiln_model *m)
{
    kiln_pieces_free(m->pieces);
    free(m->scores);
    *m = (struct kiln_model){0};
}
