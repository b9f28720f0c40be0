/* captions.c - see captions.h. */
#include "pipeline/embed/captions/captions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/captions/noun_phrase.h"
#include "pipeline/embed/kind.h"
#include "pipeline/embed/recipe.h"
#include "schemas/text/text.h"

#define QUERIES_MAX 8

struct captions {
    struct kiln_embedder base;
    struct kiln_caption_encoder encoder;
    struct kiln_caption_fit fit;
    struct kiln_caption_head head;
    /* One text at a time has the encoder and the features, and a query has the next turn: a plain
     * mutex can starve it behind a thread that embeds many prompts.  After QUERIES_MAX of them in a
     * row a passage has one. */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t turn_ended;
    bool in_use;
    unsigned queries, passages; /* that wait */
    unsigned in_row;            /* queries that had their turn since the last passage */
    float *features;            /* [KILN_CAPTION_TOKENS_MAX][width] */
};

static void begin_turn(struct captions *c, enum kiln_embed_use use)
{
    const bool query = use == KILN_EMBED_QUERY;
    unsigned *mine = query ? &c->queries : &c->passages;
    const unsigned *others = query ? &c->passages : &c->queries;
    pthread_mutex_lock(&c->lock);
    ++*mine;
    while (c->in_use || (*others > 0 && query == (c->in_row >= QUERIES_MAX)))
        pthread_cond_wait(&c->turn_ended, &c->lock);
    --*mine;
    c->in_row = query ? c->in_row + 1 : 0;
    c->in_use = true;
    pthread_mutex_unlock(&c->lock);
}

static void end_turn(struct captions *c)
{
    pthread_mutex_lock(&c->lock);
    c->in_use = false;
    pthread_cond_broadcast(&c->turn_ended);
    pthread_mutex_unlock(&c->lock);
}

static void close_captions(struct kiln_embedder *e)
{
    struct captions *c = (struct captions *)e;
    c->encoder.close(c->encoder.arg);
    kiln_caption_fit_release(&c->fit);
    kiln_caption_head_release(&c->head);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->turn_ended);
    free(c->features);
    free(c);
}

int kiln_caption_encode(const struct kiln_caption_encoder *encoder, enum kiln_embed_use use,
                        const char *text, size_t len, float *features, size_t *ret_count,
                        enum kiln_head_use *ret_use, struct kiln_error *err)
{
    char phrase[KILN_NOUN_PHRASE_MAX];
    const size_t changed = use == KILN_EMBED_QUERY ? kiln_noun_phrase(text, len, phrase) : 0;
    *ret_use = changed ? KILN_HEAD_VAGUE : (enum kiln_head_use)use;
    return encoder->encode(encoder->arg, changed ? phrase : text, changed ? changed : len, features,
                           ret_count, err);
}

/* The mean of the features after the fit; zeros for a text without tokens.  Up to features_max of
 * them, mapped by the head, go to `features`. */
static int embed_one(struct captions *c, enum kiln_embed_use use,
                     const struct kiln_embed_text *text, float *row, float *features,
                     size_t features_max, size_t *ret_count, struct kiln_error *err)
{
    const size_t width = c->fit.dims;
    enum kiln_head_use head_use;
    size_t count = 0;
    memset(row, 0, width * sizeof *row);
    begin_turn(c, use);
    int rc = kiln_caption_encode(&c->encoder, use, text->at, text->len, c->features, &count,
                                 &head_use, err);
    for (size_t t = 0; t < count && rc == 0; t++)
        for (size_t i = 0; i < width; i++)
            row[i] += c->features[t * width + i] / (float)count;
    *ret_count = rc ? 0 : count < features_max ? count : features_max;
    kiln_caption_head_apply(&c->head, head_use, c->features, *ret_count, features);
    end_turn(c);
    if (rc == 0 && count > 0)
        kiln_caption_fit_apply(&c->fit, row);
    return rc;
}

static int embed_captions(const struct kiln_embedder *e, enum kiln_embed_use use,
                          const struct kiln_embed_text *texts, size_t n, float *rows,
                          struct kiln_error *err)
{
    struct captions *c = (struct captions *)e;
    float none[1];
    size_t count;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = embed_one(c, use, &texts[i], rows + i * c->fit.dims, none, 0, &count, err);
    return rc;
}

static int embed_tokens(const struct kiln_embedder *e, enum kiln_embed_use use,
                        const struct kiln_embed_text *text, float *row, float *features,
                        size_t features_max, size_t *ret_count, struct kiln_error *err)
{
    return embed_one((struct captions *)e, use, text, row, features, features_max, ret_count, err);
}

/* Names the model, every value of the fit and of the head that decides on what is stored, and the
 * form of stored tokens.  How queries are mapped and weighed is not part of it. */
static int set_recipe(struct captions *c, struct kiln_error *err)
{
    const struct kiln_caption_fit *fit = &c->fit;
    const struct kiln_caption_head *head = &c->head;
    struct kiln_text text = {0};
    kiln_text_printf(&text, "captions 2\nmodel %s\ndirections %zu\ntokens %zu %d\n", fit->model,
                     fit->directions, head->row, head->weight != NULL);
    kiln_text_add(&text, (const char *)fit->mean, fit->dims * sizeof *fit->mean);
    kiln_text_add(&text, (const char *)fit->removed,
                  fit->directions * fit->dims * sizeof *fit->removed);
    if (head->weight) {
        const int use = KILN_HEAD_STORED;
        kiln_text_add(&text, (const char *)head->map, head->row * head->dims * sizeof *head->map);
        kiln_text_add(&text, (const char *)(head->weight + (size_t)use * head->dims),
                      head->dims * sizeof *head->weight);
        kiln_text_add(&text, (const char *)&head->shift[use], sizeof head->shift[use]);
    }
    int rc = text.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory to name a recipe") : 0;
    if (!rc)
        kiln_recipe_of_text("captions", fit->dims, text.at, text.len, c->base.info.recipe);
    kiln_text_release(&text);
    return rc;
}

/* Whether a file was made for this model. */
static int check_made_for(const struct kiln_caption_encoder *encoder, const char *path,
                          const char *model, size_t dims, struct kiln_error *err)
{
    if (dims == encoder->width && strcmp(model, encoder->model) == 0)
        return 0;
    return kiln_fail(err, KILN_CORRUPT,
                     "%s was made for model %s with %zu values a token, not for %s with %zu", path,
                     model, dims, encoder->model, encoder->width);
}

static int read_files(struct captions *c, const char *fit, const char *head, struct kiln_error *err)
{
    int rc = kiln_caption_fit_read(fit, &c->fit, err);
    rc = rc ? rc : check_made_for(&c->encoder, fit, c->fit.model, c->fit.dims, err);
    c->head = kiln_caption_head_none(c->fit.dims);
    if (rc || !head)
        return rc;
    rc = kiln_caption_head_read(head, &c->head, err);
    return rc ? rc : check_made_for(&c->encoder, head, c->head.model, c->head.dims, err);
}

int kiln_captions_open(const struct kiln_caption_encoder *encoder, const char *fit,
                       const char *head, struct kiln_embedder **ret, struct kiln_error *err)
{
    static const struct kiln_embed_kind kind = {embed_captions, close_captions, embed_tokens};
    struct captions *c = calloc(1, sizeof *c);
    if (!c) {
        encoder->close(encoder->arg);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an embedder");
    }
    c->base.kind = &kind;
    c->base.info.kind = "captions";
    c->encoder = *encoder;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->turn_ended, NULL);
    int rc = read_files(c, fit, head, err);
    if (!rc && !(c->features = malloc(KILN_CAPTION_TOKENS_MAX * c->fit.dims * sizeof(float))))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for features of a caption");
    rc = rc ? rc : set_recipe(c, err);
    if (rc) {
        close_captions(&c->base);
        return rc;
    }
    c->base.info.dims = c->fit.dims;
    c->base.info.token_dims = c->head.row;
    c->base.info.learned = c->head.weight != NULL;
    c->base.info.tokens_max = KILN_CAPTION_TOKENS_MAX;
    *ret = &c->base;
    return 0;
}
