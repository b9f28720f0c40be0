/* captions.c - see captions.h. */
#include "pipeline/embed/captions/captions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/captions/token_rows.h"
#include "pipeline/embed/kind.h"
#include "pipeline/embed/recipe.h"
#include "schemas/text/text.h"
#include "schemas/text/utf8.h"

struct captions {
    struct kiln_embedder base;
    struct kiln_caption_encoder encoder;
    struct kiln_caption_fit fit;
    pthread_mutex_t lock; /* over the encoder and the features */
    float *features;      /* [KILN_CAPTION_TOKENS_MAX][width] */
};

static void close_captions(struct kiln_embedder *e)
{
    struct captions *c = (struct captions *)e;
    c->encoder.close(c->encoder.arg);
    kiln_caption_fit_release(&c->fit);
    pthread_mutex_destroy(&c->lock);
    free(c->features);
    free(c);
}

/* Adds the mean of the features to a row of zeros. */
static void add_mean(const float *features, size_t count, size_t width, float *row)
{
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < width; i++)
            row[i] += features[t * width + i] / (float)count;
}

int kiln_captions_pool(const struct kiln_caption_encoder *encoder, const char *text, size_t len,
                       float *row, bool *ret_any, struct kiln_error *err)
{
    size_t count = 0;
    float *features = malloc(KILN_CAPTION_TOKENS_MAX * encoder->width * sizeof *features);
    if (!features)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for features of a caption");
    int rc = encoder->encode(encoder->arg, text, len, features, &count, err);
    if (!rc) {
        memset(row, 0, encoder->width * sizeof *row);
        add_mean(features, count, encoder->width, row);
        *ret_any = count > 0;
    }
    free(features);
    return rc;
}

static int embed_captions(const struct kiln_embedder *e, enum kiln_embed_use use,
                          const struct kiln_embed_text *texts, size_t n, float *rows,
                          struct kiln_error *err)
{
    struct captions *c = (struct captions *)e;
    const size_t width = c->fit.dims;
    int rc = 0;
    (void)use;
    memset(rows, 0, n * width * sizeof *rows);
    for (size_t i = 0; i < n && !rc; i++) {
        size_t count = 0;
        pthread_mutex_lock(&c->lock); /* between texts others have their turn */
        rc = c->encoder.encode(c->encoder.arg, texts[i].at, texts[i].len, c->features, &count, err);
        if (rc == 0 && count > 0)
            add_mean(c->features, count, width, rows + i * width);
        pthread_mutex_unlock(&c->lock);
        if (rc == 0 && count > 0)
            kiln_caption_fit_apply(&c->fit, rows + i * width);
    }
    return rc;
}

int kiln_captions_tokens(const struct kiln_embedder *e, const char *text, size_t len,
                         float *features, size_t *ret_count, struct kiln_error *err)
{
    struct captions *c = (struct captions *)e;
    const size_t width = c->fit.dims;
    size_t count = 0, at;
    if (len > KILN_EMBED_TEXT_MAX || !kiln_utf8_valid(text, len, &at))
        return kiln_fail(err, KILN_BAD_INPUT, "a text is not UTF-8 or longer than %d bytes",
                         KILN_EMBED_TEXT_MAX);
    pthread_mutex_lock(&c->lock);
    int rc = c->encoder.encode(c->encoder.arg, text, len, c->features, &count, err);
    if (!rc) {
        *ret_count = count < KILN_TOKEN_ROWS_MAX ? count : KILN_TOKEN_ROWS_MAX;
        memcpy(features, c->features, *ret_count * width * sizeof *features);
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* Names the model and every value of the fit. */
static int set_recipe(struct captions *c, struct kiln_error *err)
{
    const struct kiln_caption_fit *fit = &c->fit;
    struct kiln_text text = {0};
    kiln_text_printf(&text, "captions 1\nmodel %s\ndirections %zu\n", fit->model, fit->directions);
    kiln_text_add(&text, (const char *)fit->mean, fit->dims * sizeof *fit->mean);
    kiln_text_add(&text, (const char *)fit->removed,
                  fit->directions * fit->dims * sizeof *fit->removed);
    int rc = text.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory to name a recipe") : 0;
    if (!rc)
        kiln_recipe_of_text("captions", fit->dims, text.at, text.len, c->base.info.recipe);
    kiln_text_release(&text);
    return rc;
}

int kiln_captions_open(const struct kiln_caption_encoder *encoder, const char *fit,
                       struct kiln_embedder **ret, struct kiln_error *err)
{
    static const struct kiln_embed_kind kind = {embed_captions, close_captions};
    struct captions *c = calloc(1, sizeof *c);
    if (!c) {
        encoder->close(encoder->arg);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an embedder");
    }
    c->base.kind = &kind;
    c->base.info.kind = "captions";
    c->encoder = *encoder;
    pthread_mutex_init(&c->lock, NULL);
    int rc = kiln_caption_fit_read(fit, &c->fit, err);
    if (!rc && (c->fit.dims != encoder->width || strcmp(c->fit.model, encoder->model) != 0))
        rc = kiln_fail(err, KILN_CORRUPT,
                       "%s was made for model %s with %zu values a token, not for %s with %zu", fit,
                       c->fit.model, c->fit.dims, encoder->model, encoder->width);
    if (!rc && !(c->features = malloc(KILN_CAPTION_TOKENS_MAX * c->fit.dims * sizeof(float))))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for features of a caption");
    rc = rc ? rc : set_recipe(c, err);
    if (rc) {
        close_captions(&c->base);
        return rc;
    }
    c->base.info.dims = c->fit.dims;
    c->base.info.tokens_max = KILN_CAPTION_TOKENS_MAX;
    *ret = &c->base;
    return 0;
}
