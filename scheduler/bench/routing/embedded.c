/* embedded.c - a router with the vectors of an embedder, for the measurements. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/embed/captions/library.h"
#include "scheduler/bench/routing/routing.h"
#include "scheduler/embedding/loras.h"

#define EMBED_MS 600000 /* for the texts of one prompt: a bench waits */

int kiln_routing_reader_open(const struct kiln_routing_under_test *of,
                             struct kiln_routing_reader *ret, struct kiln_error *err)
{
    *ret = (struct kiln_routing_reader){.of = of, .reader = kiln_router_reader_new(of->router)};
    if (of->embedder)
        ret->rows = malloc(KILN_MEANING_SEGMENTS * kiln_embedding_model_dims(of->embedder));
    return ret->reader && (ret->rows || !of->embedder)
               ? 0
               : kiln_fail(err, KILN_NO_MEMORY, "no memory for routes");
}

void kiln_routing_reader_release(struct kiln_routing_reader *reader)
{
    kiln_router_reader_free(reader->reader);
    free(reader->rows);
}

int kiln_routing_request(struct kiln_routing_reader *reader, const char *prompt,
                         struct kiln_router_request *ret, struct kiln_error *err)
{
    const struct kiln_routing_under_test *of = reader->of;
    const char *texts[KILN_MEANING_SEGMENTS];
    *ret = (struct kiln_router_request){.prompt = prompt, .pool = of->pool};
    if (!of->embedder)
        return 0;
    int rc = kiln_router_segments(reader->reader, ret, texts, &ret->vector_count, err);
    rc = rc ? rc : kiln_desk_prepare(of->desk, texts, ret->vector_count, EMBED_MS, err);
    for (size_t i = 0; i < ret->vector_count && !rc; i++) {
        int8_t *row = reader->rows + i * kiln_embedding_model_dims(of->embedder);
        reader->vectors[i] = row;
        if (!kiln_desk_find(of->desk, texts[i], row))
            rc = kiln_fail(err, KILN_INTERNAL, "a text has no vector");
    }
    ret->vectors = reader->vectors;
    return rc;
}

/* The text encoder of the model, as the gallery opens it: with the fit and the head beside it. */
static int open_builtin(const char *model, struct kiln_embedder **ret, struct kiln_error *err)
{
    struct kiln_caption_encoder encoder;
    char fit[PATH_MAX], head[PATH_MAX];
    snprintf(fit, sizeof fit, "%.*s/%s", PATH_MAX - 64, model, KILN_CAPTION_FIT_NAME);
    snprintf(head, sizeof head, "%.*s/%s", PATH_MAX - 64, model, KILN_CAPTION_HEAD_NAME);
    if (!model[0] || access(fit, R_OK) != 0)
        return kiln_fail(err, KILN_NOT_FOUND, "the model '%s' has no %s", model,
                         KILN_CAPTION_FIT_NAME);
    int rc = kiln_caption_library_open(NULL, model, 1, &encoder, err);
    return rc ? rc
              : kiln_captions_open(&encoder, fit, access(head, F_OK) == 0 ? head : NULL, ret, err);
}

int kiln_routing_embedder(const char *name, const char *model, struct kiln_embedding_model **ret,
                          struct kiln_error *err)
{
    struct kiln_embedder *embedder = NULL;
    int rc = strcmp(name, "builtin") == 0 ? open_builtin(model, &embedder, err)
                                          : kiln_embedder_open(name, NULL, &embedder, err);
    return rc ? rc : kiln_embedding_model_of(embedder, ret, err);
}
