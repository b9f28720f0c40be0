/* wordpiece.c - the longest piece that fits, again and again. */
#include "pipeline/embed/tokens/models.h"

static size_t characters(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((uint8_t)text[i] & 0xc0u) != 0x80u;
    return count;
}

/* The id of the longest piece at the start of text, or -1; pieces are valid UTF-8, so it ends
 * between two characters. */
static int32_t longest(const struct kiln_model *m, struct kiln_piece_walk walk, const char *text,
                       size_t len, size_t *ret_len)
{
    int32_t found = -1;
    for (size_t i = 0; i < len && kiln_pieces_step(m->pieces, &walk, (uint8_t)text[i]); i++) {
        const int32_t id = kiln_pieces_here(m->pieces, &walk);
        if (id >= 0) {
            found = id;
            *ret_len = i + 1;
        }
    }
    return found;
}

int kiln_wordpiece_encode(const struct kiln_model *m, const char *word, size_t len,
                          struct kiln_ids *ids, struct kiln_error *err)
{
    const size_t before = ids->count;
    bool known = characters(word, len) <= m->word_max;
    for (size_t at = 0, n = 0; at < len && known; at += n) {
        int32_t id = -1;
        if (at == 0)
            id = longest(m, kiln_pieces_start(m->pieces), word, len, &n);
        else if (m->has_inner)
            id = longest(m, m->inner, word + at, len - at, &n);
        known = id >= 0;
        if (known)
            kiln_ids_add(ids, id);
    }
    if (known)
        return 0;
    ids->count = before;
    if (m->unk_id < 0)
        return kiln_fail(err, KILN_UNSUPPORTED, "the tokenizer has no token for unknown words");
    kiln_ids_add(ids, m->unk_id);
    return 0;
}
