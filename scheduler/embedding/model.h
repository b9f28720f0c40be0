/* model.h - the router's embedder: a text encoder (pipeline/embed) with its fitted weights.
 *
 * Raw cosines carry no threshold, so an embedder needs weights that were fitted for it.  They are
 * beside its files, in KILN_EMBEDDING_WEIGHTS, and `kiln bench routing --embedder DIR --fit FILE`
 * writes them:
 *
 *     {"embedder": "bert-384-...", "router": 4,
 *      "weights": {"bias": -9100, "b": 300, "c": 11000, "m": 9000, "x": -400}}
 *
 * The id is a hash of both: a route is the function of line, registry version, router and this id.
 */
#ifndef KILN_EMBEDDING_MODEL_H
#define KILN_EMBEDDING_MODEL_H

#include "scheduler/router/meaning.h"
#include "schemas/config/config.h"
#include "schemas/error.h"

#define KILN_EMBEDDING_WEIGHTS "kiln_router.json"
#define KILN_EMBEDDING_TOGETHER 32 /* texts of one pass */

struct kiln_embedder; /* pipeline/embed/embedder.h */
struct kiln_embedding_model;

/* The directory of the setting router_embedder; NULL: none. */
const char *kiln_embedding_dir(const struct kiln_config *config);

/* KILN_CONFIG with the reason, the directory and what to do: no such model, no weights, weights of
 * another model or router. */
int kiln_embedding_model_open(const char *dir, struct kiln_embedding_model **ret,
                              struct kiln_error *err) KILN_MUST_CHECK;
/* An embedder without weights, to fit and measure; owns it from now on, also after a failure. */
int kiln_embedding_model_of(struct kiln_embedder *embedder, struct kiln_embedding_model **ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
void kiln_embedding_model_close(struct kiln_embedding_model *model); /* accepts NULL */

const char *kiln_embedding_model_id(const struct kiln_embedding_model *model);
const char *kiln_embedding_model_recipe(const struct kiln_embedding_model *model);
size_t kiln_embedding_model_dims(const struct kiln_embedding_model *model);
const struct kiln_meaning_weights *
kiln_embedding_model_weights(const struct kiln_embedding_model *model);

/* rows: [count][dims], of prompts (queries) or of LoRAs' texts.  Any number of threads. */
int kiln_embedding_model_rows(const struct kiln_embedding_model *model, bool prompts,
                              const char *const *texts, size_t count, int8_t *rows,
                              struct kiln_error *err) KILN_MUST_CHECK;

/* The same before they are rounded, each of length 1 or zero. */
int kiln_embedding_model_floats(const struct kiln_embedding_model *model, bool prompts,
                                const char *const *texts, size_t count, float *rows,
                                struct kiln_error *err) KILN_MUST_CHECK;

/* Vectors of one prompt's segments, computed here and now: for a single prompt, or a bench. */
struct kiln_embedding_vectors {
    int8_t *rows;
    const int8_t *at[KILN_MEANING_SEGMENTS];
};
int kiln_embedding_model_request(const struct kiln_embedding_model *model,
                                 struct kiln_router_reader *reader,
                                 struct kiln_router_request *request,
                                 struct kiln_embedding_vectors *vectors,
                                 struct kiln_error *err) KILN_MUST_CHECK;
void kiln_embedding_vectors_release(struct kiln_embedding_vectors *vectors);

/* weights.c: the file of the weights as text; recipe: of the embedder they are for. */
int kiln_embedding_weights_read(const char *text, size_t len, const char *where, const char *recipe,
                                struct kiln_meaning_weights *ret,
                                struct kiln_error *err) KILN_MUST_CHECK;
int kiln_embedding_weights_write(const char *path, const char *recipe,
                                 const struct kiln_meaning_weights *weights,
                                 struct kiln_error *err) KILN_MUST_CHECK;
/* KILN_CONFIG unless evidence counts for a LoRA, what is negative against it, and nothing is not
 * enough. */
int kiln_embedding_weights_check(const struct kiln_meaning_weights *weights, const char *where,
                                 struct kiln_error *err) KILN_MUST_CHECK;

#endif
