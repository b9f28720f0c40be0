/* template.h - choices in a prompt: "a {red|blue} {car|{old|new} boat}" is six prompts.
 *
 * A template stands for every combination of its choices, the last choice changing fastest, as
 * nested loops would.  Choices nest; an alternative may be empty.  \{ \} \| \\ stand for the
 * characters themselves.  Braces without a | in them are no choice and stay as they are, so a
 * prompt that is itself JSON needs no escapes.  A text without any brace is taken literally,
 * backslashes too.
 *
 * Combinations are made one at a time from their number; nothing is ever listed in memory.
 */
#ifndef KILN_TEMPLATE_H
#define KILN_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/text/text.h"

#define KILN_TEMPLATE_DEPTH 16

/* Whether text has anything that makes it a template. */
bool kiln_template_is(const char *text, size_t len);

/* How many combinations; KILN_BAD_INPUT for braces that do not match or more than max. */
int kiln_template_count(const char *text, size_t len, uint64_t max, uint64_t *ret_count,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* Appends combination number 0 <= which < count of a template that kiln_template_count took. */
void kiln_template_render(const char *text, size_t len, uint64_t which, struct kiln_text *out);

#endif
