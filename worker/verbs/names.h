/* names.h - what `kiln render` calls by name, as a job line does: a size, a style, LoRAs. */
#ifndef KILN_VERB_NAMES_H
#define KILN_VERB_NAMES_H

#include <limits.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/error.h"
#include "schemas/limits.h"

struct kiln_verb_names {
    const char *model;        /* the model's directory */
    const char *size, *style; /* NULL: not given */
    const char *styles;       /* a file of more styles, or NULL */
    const char *lora_dir;     /* NULL or "": MODEL/loras */
    char paths[KILN_LORAS_MAX][PATH_MAX];
    char *prompt, *negative; /* with the words of the style; malloc'd, or NULL */
};

/* Fills width and height from the size. */
int kiln_verb_names_size(const struct kiln_verb_names *names, int32_t *ret_width,
                         int32_t *ret_height, struct kiln_error *err) KILN_MUST_CHECK;
/* Puts the words of the style around the texts of the item, which then borrows them from names. */
int kiln_verb_names_style(struct kiln_verb_names *names, DiffusionZItem *item,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* Replaces the names of LoRAs by their files, which are borrowed from names; a path that exists
 * stays.  KILN_NOT_FOUND: it is neither. */
int kiln_verb_names_loras(struct kiln_verb_names *names, DiffusionZLora *loras, int count,
                          struct kiln_error *err) KILN_MUST_CHECK;
void kiln_verb_names_release(struct kiln_verb_names *names);

#endif
