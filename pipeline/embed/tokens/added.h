/* added.h - added tokens: texts such as "[SEP]" that are cut out of a text before anything else,
 * the longest if several begin at one place.
 *
 * Those with "normalized": true are cut out of the normalised text, by their normalised content.
 */
#ifndef KILN_EMBED_ADDED_H
#define KILN_EMBED_ADDED_H

#include <jansson.h>

#include "pipeline/embed/tokens/pieces.h"
#include "pipeline/embed/tokens/steps.h"

#define KILN_ADDED_TOKENS_MAX 65536

struct kiln_added;

/* list: the array added_tokens of a tokenizer.json (or NULL); path names it in errors. */
int kiln_added_read(const json_t *list, const struct kiln_steps *steps, const char *path,
                    struct kiln_added **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_added_free(struct kiln_added *a);            /* accepts NULL */
int32_t kiln_added_max_id(const struct kiln_added *a); /* -1 if there is none */

/* Where the next added token stands at or after `from`, and how far its white space reaches. */
struct kiln_added_match {
    size_t begin, end;
    int32_t id;
};
/* normalised: which of the two kinds; earlier: white space before it is taken from there on.
 * False: no more. */
bool kiln_added_next(const struct kiln_added *a, bool normalised, const char *text, size_t len,
                     size_t from, struct kiln_added_match *ret);

#endif
