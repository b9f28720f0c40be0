/* model.c - see model.h. */
#include "scheduler/embedding/model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/embed/embedder.h"
#include "schemas/digest.h"
#include "storage/formats/user_file.h"

#define WEIGHTS_MAX 65536 /* bytes of their file */

struct kiln_embedding_model {
    struct kiln_embedder *embedder;
    struct kiln_meaning_weights weights;
    char id[KILN_MEANING_ID_SIZE];
};

/* The first 32 bits of a hash of whatever makes the vectors and weighs them. */
static void make_id(struct kiln_embedding_model *model)
{
    const struct kiln_meaning_weights *w = &model->weights;
    char text[KILN_EMBED_RECIPE_SIZE + 160], hex[65];
    uint8_t hash[KILN_SHA256_SIZE];
    const int len =
        snprintf(text, sizeof text, "%s %d %d %d %d %d",
                 kiln_embedder_info(model->embedder)->recipe, w->bias, w->b, w->c, w->m, w->x);
    kiln_sha256(text, (size_t)len, hash);
    kiln_hex(hash, 4, hex);
    snprintf(model->id, sizeof model->id, "%.8s", hex);
}

int kiln_embedding_model_of(struct kiln_embedder *embedder, struct kiln_embedding_model **ret,
                            struct kiln_error *err)
{
    struct kiln_embedding_model *model = calloc(1, sizeof *model);
    if (!model) {
        kiln_embedder_close(embedder);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an embedder");
    }
    model->embedder = embedder;
    make_id(model);
    *ret = model;
    return 0;
}

static int read_weights(struct kiln_embedding_model *model, const char *dir, struct kiln_error *err)
{
    char path[PATH_MAX], *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "%.*s/%s", PATH_MAX - 32, dir, KILN_EMBEDDING_WEIGHTS);
    int rc = kiln_user_file_read(path, WEIGHTS_MAX, &text, &len, err);
    rc = rc ? rc
            : kiln_embedding_weights_read(text, len, path,
                                          kiln_embedder_info(model->embedder)->recipe,
                                          &model->weights, err);
    free(text);
    return rc;
}

const char *kiln_embedding_dir(const struct kiln_config *config)
{
    const char *dir = kiln_config_text(config, KILN_KEY_ROUTER_EMBEDDER);
    return dir[0] && strcmp(dir, "none") != 0 ? dir : NULL;
}

int kiln_embedding_model_open(const char *dir, struct kiln_embedding_model **ret,
                              struct kiln_error *err)
{
    struct kiln_embedder *embedder = NULL;
    struct kiln_embedding_model *model = NULL;
    struct kiln_error why;
    int rc = kiln_embedder_open(dir, NULL, &embedder, &why);
    if (rc)
        return kiln_fail(err, rc == KILN_NO_MEMORY ? rc : KILN_CONFIG, "router_embedder %s: %s",
                         dir, why.text);
    rc = kiln_embedding_model_of(embedder, &model, err);
    if (rc)
        return rc;
    rc = read_weights(model, dir, &why);
    if (rc) {
        kiln_embedding_model_close(model);
        return kiln_fail(err, rc == KILN_NO_MEMORY ? rc : KILN_CONFIG,
                         "router_embedder %s has no weights that fit: %s; `kiln bench routing "
                         "--embedder %s --fit %s/" KILN_EMBEDDING_WEIGHTS "` makes them",
                         dir, why.text, dir, dir);
    }
    make_id(model);
    *ret = model;
    return 0;
}

void kiln_embedding_model_close(struct kiln_embedding_model *model)
{
    if (!model)
        return;
    kiln_embedder_close(model->embedder);
    free(model);
}

const char *kiln_embedding_model_id(const struct kiln_embedding_model *model)
{
    return model->id;
}

const char *kiln_embedding_model_recipe(const struct kiln_embedding_model *model)
{
    return kiln_embedder_info(model->embedder)->recipe;
}

size_t kiln_embedding_model_dims(const struct kiln_embedding_model *model)
{
    return kiln_embedder_info(model->embedder)->dims;
}

const struct kiln_meaning_weights *
kiln_embedding_model_weights(const struct kiln_embedding_model *model)
{
    return &model->weights;
}

int kiln_embedding_model_floats(const struct kiln_embedding_model *model, bool prompts,
                                const char *const *texts, size_t count, float *rows,
                                struct kiln_error *err)
{
    const size_t dims = kiln_embedding_model_dims(model);
    struct kiln_embed_text pass[KILN_EMBEDDING_TOGETHER];
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i += KILN_EMBEDDING_TOGETHER) {
        const size_t n = count - i < KILN_EMBEDDING_TOGETHER ? count - i : KILN_EMBEDDING_TOGETHER;
        for (size_t t = 0; t < n; t++)
            pass[t] = (struct kiln_embed_text){texts[i + t], strlen(texts[i + t])};
        rc = kiln_embedder_embed(model->embedder, prompts ? KILN_EMBED_QUERY : KILN_EMBED_PASSAGE,
                                 pass, n, rows + i * dims, err);
    }
    return rc;
}

int kiln_embedding_model_rows(const struct kiln_embedding_model *model, bool prompts,
                              const char *const *texts, size_t count, int8_t *rows,
                              struct kiln_error *err)
{
    const size_t dims = kiln_embedding_model_dims(model);
    float *values = malloc((count + 1) * dims * sizeof *values);
    int rc = values ? kiln_embedding_model_floats(model, prompts, texts, count, values, err)
                    : kiln_fail(err, KILN_NO_MEMORY, "no memory for vectors");
    for (size_t i = 0; i < count && !rc; i++)
        kiln_meaning_round(values + i * dims, dims, rows + i * dims);
    free(values);
    return rc;
}

int kiln_embedding_model_request(const struct kiln_embedding_model *model,
                                 struct kiln_router_reader *reader,
                                 struct kiln_router_request *request,
                                 struct kiln_embedding_vectors *vectors, struct kiln_error *err)
{
    const char *texts[KILN_MEANING_SEGMENTS];
    const size_t dims = kiln_embedding_model_dims(model);
    size_t count;
    int rc = kiln_router_segments(reader, request, texts, &count, err);
    if (!rc && !vectors->rows && !(vectors->rows = malloc(KILN_MEANING_SEGMENTS * dims)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for vectors");
    rc = rc ? rc : kiln_embedding_model_rows(model, true, texts, count, vectors->rows, err);
    for (size_t i = 0; i < count && !rc; i++)
        vectors->at[i] = vectors->rows + i * dims;
    request->vectors = vectors->at;
    request->vector_count = count;
    return rc;
}

void kiln_embedding_vectors_release(struct kiln_embedding_vectors *vectors)
{
    free(vectors->rows);
    *vectors = (struct kiln_embedding_vectors){0};
}
