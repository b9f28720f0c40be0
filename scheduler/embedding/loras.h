/* loras.h - the vectors of the LoRAs of a snapshot.
 *
 * Of each LoRA the mean of its examples and description, and each of its negative texts; keywords
 * only where it has neither, since words are compared before (scheduler/router), and a description
 * is nearer to a prompt that describes.  The first few of each list, so that fifty do not win.
 * Triggers do not count: they are often words that mean nothing.  A LoRA whose texts the last
 * snapshot had keeps its vectors, so a change of the registry embeds only what is new.
 */
#ifndef KILN_EMBEDDING_LORAS_H
#define KILN_EMBEDDING_LORAS_H

#include "scheduler/embedding/model.h"

#define KILN_EMBEDDING_POSITIVE 8 /* examples, or keywords, that count */
#define KILN_EMBEDDING_NEGATIVE 8

struct kiln_embedding_loras; /* what the last snapshot had; at most as large as a registry */

struct kiln_embedding_loras *kiln_embedding_loras_new(void);        /* NULL: no memory */
void kiln_embedding_loras_free(struct kiln_embedding_loras *known); /* accepts NULL */

/* Gives the router its vectors.  known may be NULL.  stop is asked between LoRAs: true ends it with
 * KILN_CANCELLED; NULL never does. */
int kiln_embedding_loras(const struct kiln_embedding_model *model, struct kiln_router *router,
                         struct kiln_embedding_loras *known, bool (*stop)(void *arg), void *arg,
                         struct kiln_error *err) KILN_MUST_CHECK;

#endif
