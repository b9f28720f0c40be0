/* tokenizer_steps.h - the steps that tokenizer.json describes, compared with those that Kiln runs.
 * Private to tokenizer_files.c.
 */
#ifndef KILN_TOKENIZER_STEPS_H
#define KILN_TOKENIZER_STEPS_H

#include "pipeline/text/tokenizer_files.h"

/* Fills all of f but path and roots from the object of a tokenizer.json.  KILN_UNSUPPORTED, with
 * the name of the step or option, for whatever would give other ids than Kiln's. */
int kiln_tokenizer_steps_read(struct kiln_tokenizer_files *f, const json_t *root,
                              struct kiln_error *err) KILN_MUST_CHECK;

/* The options of tokenizer_config.json (NULL: there is none) that change ids.  Those of the
 * library that wrote the file take precedence over tokenizer.json. */
int kiln_tokenizer_options_check(const char *dir, const json_t *config,
                                 struct kiln_error *err) KILN_MUST_CHECK;

#endif
