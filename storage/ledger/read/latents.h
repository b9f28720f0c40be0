/* latents.h - where the stored latents of jobs are, for jobs that start from them. */
#ifndef KILN_LEDGER_LATENTS_H
#define KILN_LEDGER_LATENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "schemas/error.h"
#include "schemas/job.h"

struct kiln_ledger;

struct kiln_latent_row {
    uint64_t job;
    bool known;                        /* the pool has a job of this id */
    char key[KILN_OBJECT_KEY_MAX + 1]; /* "": no latent of it is stored; the rest is then 0 */
    char sha256[65];                   /* hex, of the object */
    uint64_t bytes;
    char model[KILN_NAME_MAX + 1]; /* as its job names it */
    char model_hash[65];
    uint32_t width, height; /* of the picture, in pixels */
    uint32_t states;
    double sigma;                     /* of the last state; 0 = finished */
    char lora_set[KILN_LORA_SET_MAX]; /* kiln_lora_set_key of what it was rendered with */
};

/* Whether a run with the weights of this hash can start from the latent: only with those that it
 * was rendered with, since its values may mean another picture to others.  The one rule of intake,
 * `kiln redraw` and workers. */
static inline bool kiln_latent_of_model(const struct kiln_latent_row *row, const char *model_hash)
{
    return strcmp(row->model_hash, model_hash) == 0;
}

/* Fills ret[i] for the job ids[i], which may repeat. */
int kiln_ledger_latents(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                        size_t count, struct kiln_latent_row *ret,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* The newest other finished latents of the pool, at most `most`, that were rendered as the job's:
 * same prompt, model and files, size, steps, LoRAs, guidance and mode; with a LoRA those that the
 * set's own file rendered, as donors (donors.h). */
int kiln_ledger_like_latents(struct kiln_ledger *ledger, const char *pool, uint64_t job,
                             uint32_t most, struct kiln_latent_row *ret, uint32_t *ret_count,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* Fills ret[i] with the prompt of the job ids[i] as it was rendered, malloc'd; NULL if the pool has
 * no such job.  Entries that are not NULL are kept as they are. */
int kiln_ledger_prompts(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                        size_t count, char **ret, struct kiln_error *err) KILN_MUST_CHECK;

/* The hash of the weights that the pool renders a model with, by the name that jobs give it (""
 * is the pool's): that of its newest picture or latent.  "" if none of the newest rows is of it. */
int kiln_ledger_model_hash(struct kiln_ledger *ledger, const char *pool, const char *model,
                           char ret[65], struct kiln_error *err) KILN_MUST_CHECK;

#endif
