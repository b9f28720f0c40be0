/* added.c - see added.h. */
#include "pipeline/embed/tokens/added.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/tokens/characters.h"

#define CONTENT_MAX 256 /* bytes of an added token */

struct token {
    int32_t id;
    bool left, right; /* takes the white space before and behind it */
};

/* Tokens of one kind; their places in tokens are the ids of the pieces. */
struct kind {
    struct kiln_pieces *pieces;
    bool begins[256]; /* bytes that one begins with */
    bool any;
};

struct kiln_added {
    struct token *tokens;
    size_t count;
    struct kind kinds[2]; /* by `normalised` */
    int32_t max_id;
};

/* --- reading ---------------------------------------------------------------------------------- */

/* Pieces under construction; their texts are owned until the kind is built. */
struct building {
    struct kiln_piece *pieces[2];
    size_t counts[2];
};

static int read_token(struct kiln_added *a, struct building *b, const json_t *json,
                      const struct kiln_steps *steps, const char *path, struct kiln_error *err)
{
    const json_t *content = json_object_get(json, "content"), *id = json_object_get(json, "id");
    const size_t len = json_string_length(content);
    const int kind = json_is_true(json_object_get(json, "normalized"));
    if (!json_is_string(content) || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= KILN_PIECES_MAX || len > CONTENT_MAX)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s: added token %zu has no id, or no content of at most %d bytes", path,
                         a->count, CONTENT_MAX);
    if (json_is_true(json_object_get(json, "single_word")))
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "%s: single_word of added token \"%.64s\" is not supported", path,
                         json_string_value(content));
    struct kiln_text text = {0};
    int rc = 0;
    if (kind)
        rc = kiln_steps_normalise(steps, json_string_value(content), len, &text, err);
    else
        kiln_text_add(&text, json_string_value(content), len);
    if (!rc && text.failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory for its added tokens", path);
    if (rc || text.len == 0) { /* an empty token matches nothing */
        kiln_text_release(&text);
        return rc;
    }
    const size_t length = text.len;
    struct token *token = &a->tokens[a->count];
    *token = (struct token){(int32_t)json_integer_value(id),
                            json_is_true(json_object_get(json, "lstrip")),
                            json_is_true(json_object_get(json, "rstrip"))};
    a->max_id = token->id > a->max_id ? token->id : a->max_id;
    a->kinds[kind].begins[(uint8_t)text.at[0]] = true;
    b->pieces[kind][b->counts[kind]++] =
        (struct kiln_piece){kiln_text_take(&text), length, (int32_t)a->count++};
    return 0;
}

int kiln_added_read(const json_t *list, const struct kiln_steps *steps, const char *path,
                    struct kiln_added **ret, struct kiln_error *err)
{
    const size_t count = json_array_size(list);
    struct building b = {0};
    if (count > KILN_ADDED_TOKENS_MAX || (list && !json_is_null(list) && !json_is_array(list)))
        return kiln_fail(err, KILN_CORRUPT, "%s: the added tokens are not a list of at most %d",
                         path, KILN_ADDED_TOKENS_MAX);
    struct kiln_added *a = calloc(1, sizeof *a);
    if (a)
        a->tokens = calloc(count + 1, sizeof *a->tokens);
    for (int kind = 0; kind < 2; kind++)
        b.pieces[kind] = calloc(count + 1, sizeof *b.pieces[kind]);
    int rc = a && a->tokens && b.pieces[0] && b.pieces[1] ? 0 : KILN_NO_MEMORY;
    if (!rc)
        a->max_id = -1;
    for (size_t i = 0; i < count && !rc; i++)
        rc = read_token(a, &b, json_array_get(list, i), steps, path, err);
    for (int kind = 0; kind < 2; kind++) {
        if (!rc && !(a->kinds[kind].pieces = kiln_pieces_new(b.pieces[kind], b.counts[kind])))
            rc = KILN_NO_MEMORY;
        if (!rc)
            a->kinds[kind].any = b.counts[kind] > 0;
        for (size_t i = 0; b.pieces[kind] && i < b.counts[kind]; i++)
            free((char *)b.pieces[kind][i].at);
        free(b.pieces[kind]);
    }
    if (rc == KILN_NO_MEMORY)
        rc = kiln_fail(err, rc, "%s: no memory for its added tokens", path);
    if (rc)
        kiln_added_free(a);
    else
        *ret = a;
    return rc;
}

void kiln_added_free(struct kiln_added *a)
{
    if (!a)
        return;
    kiln_pieces_free(a->kinds[0].pieces);
    kiln_pieces_free(a->kinds[1].pieces);
    free(a->tokens);
    free(a);
}

int32_t kiln_added_max_id(const struct kiln_added *a)
{
    return a->max_id;
}

/* --- matching --------------------------------------------------------------------------------- */

/* The white space at the end of text begins here. */
static size_t space_before(const char *text, size_t from, size_t end)
{
    while (end > from) {
        size_t at = end - 1;
        uint32_t code;
        while (at > from && ((uint8_t)text[at] & 0xc0u) == 0x80u)
            at--;
        (void)kiln_char_next(text + at, &code);
        if (!kiln_char_space(code))
            break;
        end = at;
    }
    return end;
}

static size_t space_behind(const char *text, size_t at, size_t len)
{
    uint32_t code;
    while (at < len) {
        const size_t n = kiln_char_next(text + at, &code);
        if (!kiln_char_space(code))
            break;
        at += n;
    }
    return at;
}

bool kiln_added_next(const struct kiln_added *a, bool normalised, const char *text, size_t len,
                     size_t from, struct kiln_added_match *ret)
{
    const struct kind *k = &a->kinds[normalised];
    for (size_t at = from; k->any && at < len; at++) {
        if (!k->begins[(uint8_t)text[at]])
            continue;
        struct kiln_piece_walk walk = kiln_pieces_start(k->pieces);
        int32_t found = -1;
        size_t end = at;
        for (size_t i = at; i < len && kiln_pieces_step(k->pieces, &walk, (uint8_t)text[i]); i++) {
            const int32_t here = kiln_pieces_here(k->pieces, &walk);
            end = here >= 0 ? i + 1 : end;
            found = here >= 0 ? here : found;
        }
        if (found < 0)
            continue;
        const struct token *token = &a->tokens[found];
        ret->begin = token->left ? space_before(text, from, at) : at;
        ret->end = token->right ? space_behind(text, end, len) : end;
        ret->id = token->id;
        return true;
    }
    return false;
}
