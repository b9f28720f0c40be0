/* template.h - the special tokens that a tokenizer puts around a text, such as [CLS] and [SEP].
 * Private to this folder.
 */
#ifndef KILN_EMBED_TEMPLATE_H
#define KILN_EMBED_TEMPLATE_H

#include <jansson.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_TEMPLATE_MAX 8 /* tokens on one side */

struct kiln_template {
    int32_t before[KILN_TEMPLATE_MAX], behind[KILN_TEMPLATE_MAX];
    size_t before_count, behind_count;
};

/* processor: post_processor of a tokenizer.json; NULL or null puts nothing around a text. */
int kiln_template_read(const json_t *processor, const char *path, struct kiln_template *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
int32_t kiln_template_max_id(const struct kiln_template *t); /* -1: none */

#endif
