/* embedder.c - opens a directory as the kind that it holds, and checks what goes in and out. */
#include "pipeline/embed/embedder.h"

#include <math.h>
#include <string.h>

#include "pipeline/embed/directory.h"
#include "pipeline/embed/kind.h"
#include "pipeline/embed/recipe.h"
#include "schemas/text/utf8.h"

int kiln_embedder_open(const char *dir, const struct kiln_embed_options *options,
                       struct kiln_embedder **ret, struct kiln_error *err)
{
    struct kiln_embed_layout layout;
    struct kiln_embedder *e = NULL;
    char recipe[KILN_EMBED_RECIPE_SIZE];
    int rc = kiln_embed_layout_read(dir, options, &layout, err);
    if (!rc)
        rc = (layout.type == KILN_EMBED_STATIC ? kiln_static_open : kiln_bert_open)(&layout, &e,
                                                                                    err);
    if (!rc)
        rc = kiln_recipe_of_layout(&layout, e->info.dims, recipe, err);
    if (!rc) {
        memcpy(e->info.recipe, recipe, sizeof recipe);
        memcpy(e->info.query_prefix, layout.query_prefix, sizeof e->info.query_prefix);
        memcpy(e->info.passage_prefix, layout.passage_prefix, sizeof e->info.passage_prefix);
        *ret = e;
    } else {
        kiln_embedder_close(e);
    }
    kiln_embed_layout_release(&layout);
    return rc;
}

void kiln_embedder_close(struct kiln_embedder *e)
{
    if (e)
        e->kind->close(e);
}

const struct kiln_embed_info *kiln_embedder_info(const struct kiln_embedder *e)
{
    return &e->info;
}

static int check_texts(const struct kiln_embed_text *texts, size_t n, struct kiln_error *err)
{
    size_t at;
    for (size_t i = 0; i < n; i++) {
        if (texts[i].len > KILN_EMBED_TEXT_MAX)
            return kiln_fail(err, KILN_BAD_INPUT, "text %zu has %zu bytes (at most %d)", i,
                             texts[i].len, KILN_EMBED_TEXT_MAX);
        if (!kiln_utf8_valid(texts[i].at, texts[i].len, &at))
            return kiln_fail(err, KILN_BAD_INPUT, "text %zu is not UTF-8 at byte %zu", i, at);
    }
    return 0;
}

/* To length 1; false if a value is not finite. */
static bool to_unit(float *row, size_t dims)
{
    double sum = 0;
    for (size_t i = 0; i < dims; i++)
        sum += (double)row[i] * row[i];
    if (!isfinite(sum))
        return false;
    const double scale = sum > 0 ? 1.0 / sqrt(sum) : 0;
    for (size_t i = 0; i < dims; i++)
        row[i] = (float)(row[i] * scale);
    return true;
}

static int make_unit(const struct kiln_embedder *e, float *rows, size_t n, struct kiln_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!to_unit(rows + i * e->info.dims, e->info.dims))
            return kiln_fail(
                err, KILN_CORRUPT,
                "the vector of text %zu is not finite: the model's weights are damaged", i);
    return 0;
}

int kiln_embedder_embed(const struct kiln_embedder *e, enum kiln_embed_use use,
                        const struct kiln_embed_text *texts, size_t n, float *rows,
                        struct kiln_error *err)
{
    int rc = check_texts(texts, n, err);
    rc = rc || n == 0 ? rc : e->kind->embed(e, use, texts, n, rows, err);
    return rc ? rc : make_unit(e, rows, n, err);
}

bool kiln_embedder_has_tokens(const struct kiln_embedder *e)
{
    return e->kind->tokens != NULL;
}

int kiln_embedder_embed_tokens(const struct kiln_embedder *e, enum kiln_embed_use use,
                               const struct kiln_embed_text *text, float *row, float *features,
                               size_t features_max, size_t *ret_count, struct kiln_error *err)
{
    *ret_count = 0;
    if (!e->kind->tokens)
        return kiln_embedder_embed(e, use, text, 1, row, err);
    int rc = check_texts(text, 1, err);
    rc = rc ? rc : e->kind->tokens(e, use, text, row, features, features_max, ret_count, err);
    return rc ? rc : make_unit(e, row, 1, err);
}
