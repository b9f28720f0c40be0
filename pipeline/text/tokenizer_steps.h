/* tokenizer_steps.h - checks the steps of a tokenizer.json against those that Kiln runs.
 * Private to tokenizer_files.c.
 */
#ifndef KILN_TOKENIZER_STEPS_H
#define KILN_TOKENIZER_STEPS_H

#include "pipeline/text/tokenizer_files.h"

/* Fills f, but for path and roots, from a tokenizer.json.  KILN_UNSUPPORTED, with the name of the
 * step or option, for anything that would give other ids. */
int kiln_tokenizer_steps_read(struct kiln_tokenizer_files *f, const json_t *root,
                              struct kiln_error *err) KILN_MUST_CHECK;

/* The options of tokenizer_config.json (NULL: there is none) that change ids.  Those of the
 * library that wrote the file take precedence over tokenizer.json. */
int kiln_tokenizer_options_check(const char *dir, const json_t *config,
                                 struct kiln_error *err) KILN_MUST_CHECK;

#endif
