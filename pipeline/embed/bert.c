/* bert.c - the embedder over an encoder of the BERT class: text to ids, encoder, pooling.
 *
 * A pass takes texts of up to PASS_TOKENS tokens together, so that the weights, which do not fit a
 * cache, are read once for all of them.
 */
#include "pipeline/embed/bert.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/kind.h"
#include "pipeline/embed/tokens/subwords.h"

#define PASS_TOKENS 512

struct bert {
    struct kiln_embedder base;
    struct kiln_bert_weights weights;
    struct kiln_subwords *subwords;
    enum kiln_embed_pooling pooling;
    char prefix[2][KILN_EMBED_PREFIX_MAX]; /* by use */
    size_t prefix_known[2];                /* known tokens of the prefix itself */
};

static void close_bert(struct kiln_embedder *e)
{
    struct bert *b = (struct bert *)e;
    kiln_bert_release(&b->weights);
    kiln_subwords_free(b->subwords);
    free(b);
}

/* --- embedding -------------------------------------------------------------------------------- */

/* Appends the ids of prefix and text; *ret_known: whether the text has a token that is known. */
static int tokenize(const struct bert *b, enum kiln_embed_use use,
                    const struct kiln_embed_text *text, struct kiln_ids *ids, bool *ret_known,
                    struct kiln_error *err)
{
    const struct kiln_subwords_info *info = kiln_subwords_info(b->subwords);
    const size_t prefix_len = strlen(b->prefix[use]), begin = ids->count;
    char *whole = malloc(prefix_len + text->len + 1);
    if (!whole)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to embed a text");
    memcpy(whole, b->prefix[use], prefix_len);
    memcpy(whole + prefix_len, text->at, text->len);
    int rc = kiln_subwords_encode(b->subwords, whole, prefix_len + text->len, true,
                                  b->base.info.tokens_max - info->special_count, ids, err);
    free(whole);
    if (!rc)
        *ret_known = kiln_subwords_known(b->subwords, ids->at + begin, ids->count - begin) >
                     b->prefix_known[use] + info->special_count;
    return rc;
}

static void pool(const struct bert *b, const float *states, size_t count, float *row)
{
    const size_t width = b->weights.width;
    const size_t rows = b->pooling == KILN_EMBED_CLS ? 1 : count;
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < width; c++)
            row[c] += states[i * width + c] / (float)rows;
}

/* The texts of a pass, before and after the encoder. */
struct pass {
    struct kiln_ids ids;
    size_t counts[PASS_TOKENS], places[PASS_TOKENS]; /* tokens; which row */
    size_t texts;
};

static int run_pass(const struct bert *b, struct pass *p, float *rows, struct kiln_error *err)
{
    const size_t width = b->weights.width;
    if (p->texts == 0)
        return 0;
    float *states = malloc(p->ids.count * width * sizeof *states);
    if (!states)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to embed %zu tokens", p->ids.count);
    const struct kiln_bert_batch batch = {p->ids.at, p->counts, p->texts, p->ids.count};
    int rc = kiln_bert_run(&b->weights, &batch, states, err);
    for (size_t i = 0, at = 0; i < p->texts && !rc; at += p->counts[i++])
        pool(b, states + at * width, p->counts[i], rows + p->places[i] * width);
    free(states);
    p->ids.count = 0;
    p->texts = 0;
    return rc;
}

static int embed_bert(const struct kiln_embedder *e, enum kiln_embed_use use,
                      const struct kiln_embed_text *texts, size_t n, float *rows,
                      struct kiln_error *err)
{
    const struct bert *b = (const struct bert *)e;
    struct pass *p = calloc(1, sizeof *p);
    int rc = p ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory to embed %zu texts", n);
    memset(rows, 0, n * b->weights.width * sizeof *rows);
    for (size_t i = 0; i < n && !rc; i++) {
        const size_t before = p->ids.count;
        bool known = false;
        rc = tokenize(b, use, &texts[i], &p->ids, &known, err);
        if (rc)
            break;
        if (!known) { /* no evidence: its row stays zero */
            p->ids.count = before;
            continue;
        }
        p->places[p->texts] = i;
        p->counts[p->texts++] = p->ids.count - before;
        if (p->ids.count >= PASS_TOKENS || p->texts == PASS_TOKENS)
            rc = run_pass(b, p, rows, err);
    }
    rc = rc ? rc : run_pass(b, p, rows, err);
    if (p)
        free(p->ids.at);
    free(p);
    return rc;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int check_tokenizer(struct bert *b, const struct kiln_embed_layout *layout,
                           struct kiln_error *err)
{
    const struct kiln_subwords_info *info = kiln_subwords_info(b->subwords);
    if ((size_t)info->max_id >= kiln_table_rows(b->weights.words))
        return kiln_fail(err, KILN_CORRUPT, "%s: ids up to %d, but %s has %zu word embeddings",
                         layout->tokenizer, info->max_id, layout->tensors,
                         kiln_table_rows(b->weights.words));
    if (layout->tokens_max <= info->special_count)
        return kiln_fail(err, KILN_CORRUPT, "%s: %zu special tokens around texts of %zu tokens",
                         layout->tokenizer, info->special_count, layout->tokens_max);
    if (layout->lowercase >= 0 && info->lowercase >= 0 && layout->lowercase != info->lowercase)
        return kiln_fail(err, KILN_CORRUPT,
                         "%s: lower case is %s here and %s by do_lower_case of "
                         "tokenizer_config.json",
                         layout->tokenizer, info->lowercase ? "on" : "off",
                         layout->lowercase ? "on" : "off");
    return 0;
}

static int set_prefixes(struct bert *b, const struct kiln_embed_layout *layout,
                        struct kiln_error *err)
{
    memcpy(b->prefix[KILN_EMBED_QUERY], layout->query_prefix, KILN_EMBED_PREFIX_MAX);
    memcpy(b->prefix[KILN_EMBED_PASSAGE], layout->passage_prefix, KILN_EMBED_PREFIX_MAX);
    for (int use = 0; use < 2; use++) {
        struct kiln_ids ids = {0};
        int rc = kiln_subwords_encode(b->subwords, b->prefix[use], strlen(b->prefix[use]), false,
                                      SIZE_MAX, &ids, err);
        b->prefix_known[use] = kiln_subwords_known(b->subwords, ids.at, ids.count);
        free(ids.at);
        if (rc)
            return rc;
    }
    return 0;
}

int kiln_bert_open(const struct kiln_embed_layout *layout, struct kiln_embedder **ret,
                   struct kiln_error *err)
{
    static const struct kiln_embed_kind kind = {embed_bert, close_bert, NULL};
    struct bert *b = calloc(1, sizeof *b);
    if (!b)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", layout->tensors);
    b->base.kind = &kind;
    b->base.info.kind = "bert";
    b->pooling = layout->pooling;
    int rc = kiln_subwords_open(layout->tokenizer, &b->subwords, err);
    if (!rc && kiln_bert_load(layout, &b->weights, err) != 0)
        rc = kiln_fail_in(err, "%s", layout->tensors);
    rc = rc ? rc : check_tokenizer(b, layout, err);
    rc = rc ? rc : set_prefixes(b, layout, err);
    if (rc) {
        close_bert(&b->base);
        return rc;
    }
    b->base.info.dims = layout->width;
    b->base.info.tokens_max = layout->tokens_max;
    *ret = &b->base;
    return 0;
}
