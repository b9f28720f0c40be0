/* tokenizer.c - builds a tokenizer from its files, and runs a text through its steps.
 * Added tokens ("<|im_end|>") are cut out of the text first, the longest if several begin at one
 * place.  The text between them is normalised, split and merged piece by piece, so that no word
 * spans an added token.  Added tokens with "normalized": true are cut out after normalisation.  So
 * a prompt that contains "<|im_end|>" closes the user's turn, as in the reference.
 *
 * Vocabulary files write bytes as printable characters: the bytes 0x21-0x7e, 0xa1-0xac and
 * 0xae-0xff as the character of that number, the other 68, in order, as U+0100 and following.
 */
#include "pipeline/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/text/bpe.h"
#include "pipeline/text/nfc.h"
#include "pipeline/text/pretokenizer.h"
#include "pipeline/text/tokenizer_files.h"
#include "schemas/limits.h"
#include "schemas/text/text.h"
#include "schemas/text/utf8.h"

#define TURN_OPEN "<|im_start|>"
#define TURN_CLOSE "<|im_end|>"
/* The text as one turn of the user, followed by the start of the answer. */
#define BEFORE TURN_OPEN "user\n"
#define AFTER TURN_CLOSE "\n" TURN_OPEN "assistant\n"
#define ADDED_BYTES_MAX 256

struct added_token {
    uint8_t *content;
    size_t len;
    int32_t id;
    bool normalized;
};

struct kiln_tokenizer {
    struct kiln_bpe *bpe;
    struct kiln_pretokenizer *split;
    bool nfc, has_turns; /* has_turns: the tokens of the chat template are there */
    int32_t max_id;
    struct added_token *added;
    size_t added_count;
    bool added_start[256]; /* bytes that some added token begins with */
};

/* --- building --------------------------------------------------------------------------------- */

/* *ret is the value of an id; false if it is none. */
static bool id_value(const json_t *json, int32_t *ret)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0 ||
        json_integer_value(json) >= KILN_VOCAB_MAX)
        return false;
    *ret = (int32_t)json_integer_value(json);
    return true;
}

#define TOKEN_BYTES_MAX 4096

static int add_merge(struct kiln_tokenizer *t, const struct kiln_tokenizer_files *f, size_t rank,
                     struct kiln_error *err)
{
    const json_t *merge = json_array_get(f->merges, rank); /* "A B" or ["A", "B"] */
    const char *left = json_string_value(json_array_get(merge, 0)),
               *both = json_string_value(merge);
    const char *right = json_string_value(json_array_get(merge, 1));
    char halves[TOKEN_BYTES_MAX], joined[TOKEN_BYTES_MAX];
    int32_t left_id, right_id, merged;
    int n = -1;
    if (both)
        n = snprintf(halves, sizeof halves, "%s", both);
    else if (left && right && json_array_size(merge) == 2)
        n = snprintf(halves, sizeof halves, "%s %s", left, right);
    char *space = n > 0 && n < (int)sizeof halves ? strchr(halves, ' ') : NULL;
    if (!space || space == halves || !space[1] || strchr(space + 1, ' '))
        return kiln_fail(err, KILN_CORRUPT, "%s: merge %zu is not two strings", f->path, rank);
    *space = '\0';
    snprintf(joined, sizeof joined, "%s%s", halves, space + 1);
    if (!id_value(json_object_get(f->vocab, halves), &left_id) ||
        !id_value(json_object_get(f->vocab, space + 1), &right_id) ||
        !id_value(json_object_get(f->vocab, joined), &merged))
        return kiln_fail(err, KILN_CORRUPT,
                         "%s: merge %zu, \"%.64s\" and \"%.64s\", is not in the vocabulary",
                         f->path, rank, halves, space + 1);
    kiln_bpe_add(t->bpe, left_id, right_id, (int32_t)rank, merged);
    return 0;
}

/* Checks the ids, and makes the table of merges. */
static int build_merges(struct kiln_tokenizer *t, const struct kiln_tokenizer_files *f,
                        struct kiln_error *err)
{
    int32_t byte_ids[256], id;
    unsigned next = 0x100;
    const char *key;
    json_t *value;
    json_object_foreach(f->vocab, key, value)
    {
        if (!id_value(value, &id))
            return kiln_fail(err, KILN_CORRUPT,
                             "%s: the id of \"%.64s\" is not a whole number from 0 to %d", f->path,
                             key, KILN_VOCAB_MAX - 1);
        t->max_id = id > t->max_id ? id : t->max_id;
    }
    for (unsigned b = 0; b < 256; b++) {
        char text[5] = {0};
        bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        kiln_utf8_encode(printable ? b : next++, text);
        if (!id_value(json_object_get(f->vocab, text), &byte_ids[b]))
            return kiln_fail(err, KILN_UNSUPPORTED,
                             "%s: byte 0x%02x (\"%s\") has no token of its own", f->path, b, text);
    }
    t->bpe = kiln_bpe_new(byte_ids, json_array_size(f->merges));
    int rc = t->bpe ? 0 : kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its merges", f->path);
    for (size_t i = 0; i < json_array_size(f->merges) && !rc; i++)
        rc = add_merge(t, f, i, err);
    return rc;
}

static int add_token(struct kiln_tokenizer *t, const struct kiln_tokenizer_files *f,
                     const json_t *token, struct kiln_error *err)
{
    static const char *const options[] = {"single_word", "lstrip", "rstrip"};
    const json_t *content = json_object_get(token, "content");
    size_t len = json_string_length(content);
    struct added_token a = {.len = len};
    if (!json_is_string(content) || len == 0 || len > ADDED_BYTES_MAX ||
        !id_value(json_object_get(token, "id"), &a.id))
        return kiln_fail(err, KILN_CORRUPT, "%s: added token %zu has no id or no content", f->path,
                         t->added_count);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (json_is_true(json_object_get(token, options[i])))
            return kiln_fail(err, KILN_UNSUPPORTED,
                             "%s: \"%s\" of added token \"%.64s\" is not supported", f->path,
                             options[i], json_string_value(content));
    a.normalized = json_is_true(json_object_get(token, "normalized"));
    const uint8_t *bytes = (const uint8_t *)json_string_value(content);
    int rc = 0;
    if (a.normalized && t->nfc)
        rc = kiln_nfc(bytes, len, &a.content, &a.len, err);
    else if (!(a.content = (uint8_t *)strndup((const char *)bytes, len)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its added tokens", f->path);
    if (rc)
        return rc;
    t->added[t->added_count++] = a;
    t->added_start[a.content[0]] = true;
    t->max_id = a.id > t->max_id ? a.id : t->max_id;
    return 0;
}

static bool has_token(const struct kiln_tokenizer *t, const char *content)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].len == strlen(content) &&
            memcmp(t->added[i].content, content, t->added[i].len) == 0)
            return true;
    return false;
}

static int build(struct kiln_tokenizer *t, const struct kiln_tokenizer_files *f,
                 struct kiln_error *err)
{
    t->nfc = f->nfc;
    int rc = build_merges(t, f, err);
    if (rc)
        return rc;
    t->added = calloc(json_array_size(f->added) + 1, sizeof *t->added);
    if (!t->added)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its added tokens", f->path);
    for (size_t i = 0; i < json_array_size(f->added) && !rc; i++)
        rc = add_token(t, f, json_array_get(f->added, i), err);
    t->has_turns = !rc && has_token(t, TURN_OPEN) && has_token(t, TURN_CLOSE);
    if (!rc && kiln_pretokenizer_new(f->pattern, &t->split, err) != 0)
        rc = kiln_fail_in(err, "%s", f->path);
    return rc;
}

int kiln_tokenizer_open(const char *dir, struct kiln_tokenizer **ret, struct kiln_error *err)
{
    struct kiln_tokenizer_files files;
    struct kiln_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", dir);
    int rc = kiln_tokenizer_files_read(dir, &files, err);
    if (!rc)
        rc = build(t, &files, err);
    kiln_tokenizer_files_release(&files);
    if (rc) {
        kiln_tokenizer_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void kiln_tokenizer_free(struct kiln_tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->added_count; i++)
        free(t->added[i].content);
    free(t->added);
    kiln_bpe_free(t->bpe);
    kiln_pretokenizer_free(t->split);
    free(t);
}

int32_t kiln_tokenizer_max_id(const struct kiln_tokenizer *t)
{
    return t->max_id;
}

/* --- encoding --------------------------------------------------------------------------------- */

struct encoding {
    const struct kiln_tokenizer *t;
    struct kiln_ids ids;
};

/* Further ids would be truncated. */
static bool enough(const struct encoding *e)
{
    return e->ids.count >= KILN_TOKENS_MAX;
}

/* The longest added token of this kind at the beginning of the text, or NULL. */
static const struct added_token *added_at(const struct kiln_tokenizer *t, const uint8_t *text,
                                          size_t len, bool normalized)
{
    const struct added_token *best = NULL;
    if (!t->added_start[text[0]])
        return NULL;
    for (size_t i = 0; i < t->added_count; i++) {
        const struct added_token *a = &t->added[i];
        if (a->normalized == normalized && a->len <= len && (!best || a->len > best->len) &&
            memcmp(a->content, text, a->len) == 0)
            best = a;
    }
    return best;
}

typedef int piece_fn(struct encoding *e, const uint8_t *text, size_t len, struct kiln_error *err);

/* Cuts out the added tokens of this kind, and calls piece for the text between them. */
static int cut_added(struct encoding *e, const uint8_t *text, size_t len, bool normalized,
                     piece_fn *piece, struct kiln_error *err)
{
    size_t done = 0, at = 0;
    int rc = 0;
    while (at < len && !rc && !enough(e)) {
        const struct added_token *a = added_at(e->t, text + at, len - at, normalized);
        if (!a) {
            at++;
            continue;
        }
        if (at > done)
            rc = piece(e, text + done, at - done, err);
        if (!rc)
            rc = kiln_ids_add(&e->ids, a->id, err);
        done = at += a->len;
    }
    return !rc && done < len && !enough(e) ? piece(e, text + done, len - done, err) : rc;
}

/* KILN_FULL ends the split early: enough ids. */
static int encode_word(void *ctx, const uint8_t *word, size_t len, struct kiln_error *err)
{
    struct encoding *e = ctx;
    return enough(e) ? KILN_FULL : kiln_bpe_encode(e->t->bpe, word, len, &e->ids, err);
}

static int encode_words(struct encoding *e, const uint8_t *text, size_t len, struct kiln_error *err)
{
    int rc = kiln_pretokenizer_split(e->t->split, text, len, encode_word, e, err);
    return rc == KILN_FULL ? 0 : rc;
}

static int encode_piece(struct encoding *e, const uint8_t *text, size_t len, struct kiln_error *err)
{
    uint8_t *normal;
    size_t normal_len;
    if (!e->t->nfc)
        return cut_added(e, text, len, true, encode_words, err);
    int rc = kiln_nfc(text, len, &normal, &normal_len, err);
    if (rc)
        return rc;
    rc = cut_added(e, normal, normal_len, true, encode_words, err);
    free(normal);
    return rc;
}

bool kiln_tokenizer_wraps(const struct kiln_tokenizer *t)
{
    return t->has_turns;
}

int kiln_tokenizer_encode(const struct kiln_tokenizer *t, const char *text, size_t len, bool raw,
                          int32_t **ret_ids, size_t *ret_count, struct kiln_error *err)
{
    const char *before = raw ? "" : BEFORE;
    const char *after = raw ? "" : AFTER;
    struct encoding e = {.t = t};
    size_t bad;
    if (len > KILN_TOKENIZE_BYTES_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a text of %zu bytes, at most %d", len,
                         KILN_TOKENIZE_BYTES_MAX);
    if (!kiln_utf8_valid(text, len, &bad))
        return kiln_fail(err, KILN_BAD_INPUT, "not UTF-8 at byte %zu of the text", bad);
    if (!raw && !t->has_turns)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the tokenizer has no tokens " TURN_OPEN " and " TURN_CLOSE);
    struct kiln_text all = {0};
    kiln_text_add(&all, before, strlen(before));
    kiln_text_add(&all, text, len);
    kiln_text_add(&all, after, strlen(after));
    len = all.len;
    char *turn = kiln_text_take(&all);
    e.ids = (struct kiln_ids){.at = malloc(sizeof *e.ids.at), .size = 1};
    int rc = turn && e.ids.at
                 ? cut_added(&e, (const uint8_t *)turn, len, false, encode_piece, err)
                 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt of %zu bytes", len);
    free(turn);
    if (rc) {
        free(e.ids.at);
        return rc;
    }
    *ret_ids = e.ids.at;
    *ret_count = e.ids.count < KILN_TOKENS_MAX ? e.ids.count : KILN_TOKENS_MAX;
    return 0;
}

static int count_ids(const struct kiln_tokenizer *t, const char *text, size_t *ret,
                     struct kiln_error *err)
{
    int32_t *ids;
    int rc = kiln_tokenizer_encode(t, text, strlen(text), true, &ids, ret, err);
    if (rc == 0)
        free(ids);
    return rc;
}

int kiln_tokenizer_turn(const struct kiln_tokenizer *t, size_t *ret_before, size_t *ret_after,
                        struct kiln_error *err)
{
    int rc = count_ids(t, BEFORE, ret_before, err);
    return rc ? rc : count_ids(t, AFTER, ret_after, err);
}
