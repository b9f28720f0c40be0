/* recipe.h - the id of what an embedder does: equal ids give equal vectors. */
#ifndef KILN_EMBED_RECIPE_H
#define KILN_EMBED_RECIPE_H

#include "pipeline/embed/directory.h"

/* The bytes of the weights and of tokenizer.json, and the settings that change vectors. */
int kiln_recipe_of_layout(const struct kiln_embed_layout *layout, size_t dims,
                          char ret[KILN_EMBED_RECIPE_SIZE], struct kiln_error *err) KILN_MUST_CHECK;

/* SHA-256 of a regular file. */
int kiln_recipe_hash_file(const char *path, uint8_t ret[32],
                          struct kiln_error *err) KILN_MUST_CHECK;

/* KIND-DIMS-HASH, of a text that says everything that matters. */
void kiln_recipe_of_text(const char *kind, size_t dims, const char *text, size_t len,
                         char ret[KILN_EMBED_RECIPE_SIZE]);

#endif
