/* static_table.c - the mean of one vector a token, whatever the order of the tokens.
 *
 * model2vec (tensor "embeddings"): unknown tokens are dropped, the text is cut to max_length
 * tokens, and before that to so many times the median length of a token in characters.  "mapping"
 * gives the row of a token and "weights" its weight.  sentence-transformers (tensor
 * "embedding.weight"): unknown tokens count and nothing is cut.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/directory.h"
#include "pipeline/embed/kind.h"
#include "pipeline/embed/table.h"
#include "pipeline/embed/tokens/subwords.h"

struct static_table {
    struct kiln_embedder base;
    struct kiln_st *st;
    struct kiln_table *table;
    struct kiln_subwords *subwords;
    float *weights;   /* [tokens], or NULL: 1 each */
    int64_t *mapping; /* [tokens], or NULL: the row has the token's id */
    bool keeps_unknown;
    size_t tokens_max; /* 0: no limit */
};

static void close_static(struct kiln_embedder *e)
{
    struct static_table *s = (struct static_table *)e;
    kiln_table_free(s->table);
    kiln_subwords_free(s->subwords);
    kiln_st_close(s->st);
    free(s->weights);
    free(s->mapping);
    free(s);
}

/* --- embedding -------------------------------------------------------------------------------- */

/* Bytes of the first so many characters. */
static size_t cut_characters(const char *text, size_t len, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        count += ((uint8_t)text[i] & 0xc0u) != 0x80u;
        if (count > most)
            return i;
    }
    return len;
}

static int add_text(const struct static_table *s, const char *text, size_t len, float *row,
                    struct kiln_error *err)
{
    const struct kiln_subwords_info *info = kiln_subwords_info(s->subwords);
    struct kiln_ids ids = {0};
    size_t counted = 0;
    if (s->tokens_max > 0)
        len = cut_characters(text, len, s->tokens_max * info->median_length);
    int rc = kiln_subwords_encode(s->subwords, text, len, false, SIZE_MAX, &ids, err);
    for (size_t i = 0; i < ids.count && !rc; i++) {
        const int32_t id = ids.at[i];
        if (id == info->unk_id && !s->keeps_unknown)
            continue;
        if (s->tokens_max > 0 && counted == s->tokens_max)
            break;
        counted++;
        rc = kiln_table_add(s->table, s->mapping ? (size_t)s->mapping[id] : (size_t)id,
                            s->weights ? s->weights[id] : 1, row, err);
    }
    if (kiln_subwords_known(s->subwords, ids.at, ids.count) == 0) /* no evidence */
        memset(row, 0, s->base.info.dims * sizeof *row);
    free(ids.at);
    return rc;
}

/* The sum has the direction of the mean, which is all that is left after normalising. */
static int embed_static(const struct kiln_embedder *e, enum kiln_embed_use use,
                        const struct kiln_embed_text *texts, size_t n, float *rows,
                        struct kiln_error *err)
{
    const struct static_table *s = (const struct static_table *)e;
    const char *prefix = use == KILN_EMBED_QUERY ? e->info.query_prefix : e->info.passage_prefix;
    const size_t prefix_len = strlen(prefix);
    memset(rows, 0, n * e->info.dims * sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        float *row = rows + i * e->info.dims;
        int rc;
        if (prefix_len == 0) {
            rc = add_text(s, texts[i].at, texts[i].len, row, err);
        } else {
            char *whole = malloc(prefix_len + texts[i].len + 1);
            if (!whole)
                return kiln_fail(err, KILN_NO_MEMORY, "no memory to embed a text");
            memcpy(whole, prefix, prefix_len);
            memcpy(whole + prefix_len, texts[i].at, texts[i].len);
            rc = add_text(s, whole, prefix_len + texts[i].len, row, err);
            free(whole);
        }
        if (rc)
            return rc;
    }
    return 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* "mapping": [tokens] of I32 or I64. */
static int read_mapping(struct static_table *s, size_t *ret_tokens, struct kiln_error *err)
{
    const struct kiln_st_tensor *t = kiln_st_find(s->st, "mapping");
    const size_t rows = kiln_table_rows(s->table);
    *ret_tokens = rows;
    if (!t)
        return 0;
    if (t->ndim != 1 || (t->dtype != KILN_ST_I32 && t->dtype != KILN_ST_I64))
        return kiln_fail(err, KILN_UNSUPPORTED, "\"mapping\" is not a list of whole numbers");
    const size_t count = (size_t)t->shape[0];
    if (!(s->mapping = malloc((count + 1) * sizeof *s->mapping)))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for \"mapping\"");
    int rc = kiln_table_bytes(s->st, t, 0, t->size, s->mapping, err);
    if (rc)
        return rc;
    for (size_t i = count; i-- > 0 && t->dtype == KILN_ST_I32;) {
        int32_t narrow; /* widened in place, from the end */
        memcpy(&narrow, (const char *)s->mapping + i * sizeof narrow, sizeof narrow);
        s->mapping[i] = narrow;
    }
    for (size_t i = 0; i < count; i++) {
        if (s->mapping[i] < 0 || (uint64_t)s->mapping[i] >= rows)
            return kiln_fail(err, KILN_CORRUPT, "\"mapping\" names row %lld of %zu",
                             (long long)s->mapping[i], rows);
    }
    *ret_tokens = count;
    return 0;
}

static int read_tensors(struct static_table *s, struct kiln_error *err)
{
    const bool own = kiln_st_find(s->st, "embeddings") != NULL;
    const struct kiln_st_tensor *weights = own ? kiln_st_find(s->st, "weights") : NULL;
    size_t tokens;
    int rc = kiln_table_open(s->st, own ? "embeddings" : "embedding.weight", 0, KILN_EMBED_DIMS_MAX,
                             &s->table, err);
    if (rc)
        return rc;
    s->keeps_unknown = !own;
    tokens = kiln_table_rows(s->table);
    rc = own ? read_mapping(s, &tokens, err) : 0;
    if (!rc && weights)
        rc = kiln_table_values(s->st, weights, tokens, &s->weights, err);
    const int32_t max_id = kiln_subwords_info(s->subwords)->max_id;
    if (!rc && (size_t)max_id >= tokens)
        rc = kiln_fail(err, KILN_CORRUPT, "the tokenizer has ids up to %d, the table %zu tokens",
                       max_id, tokens);
    return rc;
}

int kiln_static_open(const struct kiln_embed_layout *layout, struct kiln_embedder **ret,
                     struct kiln_error *err)
{
    static const struct kiln_embed_kind kind = {embed_static, close_static, NULL};
    struct static_table *s = calloc(1, sizeof *s);
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", layout->tensors);
    s->base.kind = &kind;
    s->base.info.kind = "static";
    int rc = kiln_subwords_open(layout->tokenizer, &s->subwords, err);
    rc = rc ? rc : kiln_st_open(layout->tensors, &s->st, err);
    if (!rc && read_tensors(s, err) != 0)
        rc = kiln_fail_in(err, "%s", layout->tensors);
    if (rc) {
        close_static(&s->base);
        return rc;
    }
    s->tokens_max = s->keeps_unknown ? 0 : layout->tokens_max;
    s->base.info.dims = kiln_table_width(s->table);
    s->base.info.tokens_max = s->tokens_max > 0 ? s->tokens_max : KILN_EMBED_TEXT_MAX;
    *ret = &s->base;
    return 0;
}
