/* unigram.c - the pieces with the largest sum of log-probabilities (Kudo, "Subword
 * Regularization", ACL 2018), found by dynamic programming over the bytes of the word.
 *
 * A character that no piece of its own covers may be unknown, at the smallest score less 10.
 * Neighbouring unknown characters become one token.
 */
#include <stdlib.h>

#include "pipeline/embed/tokens/characters.h"
#include "pipeline/embed/tokens/models.h"

/* The best way to the text up to a place. */
struct path_end {
    double score;
    int32_t id;
    uint32_t begin; /* of the last piece */
    bool reached;
};

#define SHORT_WORD 128 /* bytes of a word that needs no allocation */

static void arrive(struct path_end *end, double score, int32_t id, size_t begin)
{
    if (end->reached && score <= end->score)
        return;
    *end = (struct path_end){score, id, (uint32_t)begin, true};
}

/* False: a character needs an unknown token and there is none. */
static bool find_paths(const struct kiln_model *m, const char *word, size_t len,
                       struct path_end *ends)
{
    for (size_t at = 0; at < len;) {
        uint32_t code;
        const size_t n = kiln_char_next(word + at, &code);
        struct kiln_piece_walk walk = kiln_pieces_start(m->pieces);
        bool single = false;
        for (size_t i = at; i < len && kiln_pieces_step(m->pieces, &walk, (uint8_t)word[i]); i++) {
            const int32_t id = kiln_pieces_here(m->pieces, &walk);
            if (id < 0)
                continue;
            arrive(&ends[i + 1], ends[at].score + m->scores[id], id, at);
            single = single || i + 1 == at + n;
        }
        if (!single && m->unk_id < 0)
            return false;
        if (!single)
            arrive(&ends[at + n], ends[at].score + m->unk_score, m->unk_id, at);
        at += n;
    }
    return true;
}

/* Appends the ids of the best path, which is read from its end. */
static void add_path(const struct kiln_model *m, const char *word, size_t len,
                     const struct path_end *ends, struct kiln_ids *ids)
{
    const size_t before = ids->count;
    for (size_t end = len; end > 0;) {
        size_t begin = ends[end].begin;
        int32_t id = ends[end].id;
        if (id == m->unk_id) {
            while (begin > 0 && ends[begin].id == m->unk_id)
                begin = ends[begin].begin;
            const int32_t whole = kiln_pieces_find(m->pieces, word + begin, end - begin);
            id = whole >= 0 ? whole : id;
        }
        kiln_ids_add(ids, id);
        end = begin;
    }
    for (size_t a = before, b = ids->count; a + 1 < b; a++) {
        const int32_t swap = ids->at[a];
        ids->at[a] = ids->at[--b];
        ids->at[b] = swap;
    }
}

int kiln_unigram_encode(const struct kiln_model *m, const char *word, size_t len,
                        struct kiln_ids *ids, struct kiln_error *err)
{
    struct path_end few[SHORT_WORD + 1] = {0};
    struct path_end *ends = len <= SHORT_WORD ? few : calloc(len + 1, sizeof *ends);
    if (!ends)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to tokenize %zu bytes", len);
    int rc = 0;
    if (find_paths(m, word, len, ends))
        add_path(m, word, len, ends, ids);
    else
        rc = kiln_fail(err, KILN_UNSUPPORTED, "the tokenizer has no token for unknown words");
    if (ends != few)
        free(ends);
    return rc;
}
