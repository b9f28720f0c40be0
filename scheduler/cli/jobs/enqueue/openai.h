/* openai.h - a line of an OpenAI batch file as a job line.
 *
 *     {"custom_id": "a1", "method": "POST", "url": "/v1/images/generations",
 *      "body": {"prompt": "a red star", "n": 2, "size": "1024x1024"}}
 *
 * The body is a job line whose count is called n: every key of a job line may be in it.  What else
 * OpenAI's body has ("quality", "background", its styles and so on) is passed over, and told where
 * it asks for what Kiln does not do; a value that OpenAI does not know either is refused.  A
 * "model" of OpenAI's is passed over as well, since no fleet has it: the request is rendered by the
 * fleet's own model.  The result goes through the one validator.
 */
#ifndef KILN_ENQUEUE_OPENAI_H
#define KILN_ENQUEUE_OPENAI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/text/text.h"

#define KILN_OPENAI_URL "/v1/images/generations"

/* Whether this line is such a request: it has the key "url", and "body" or "method", which no job
 * line has. */
bool kiln_openai_is(const char *text, size_t len);

#define KILN_OPENAI_MODEL_MAX 64
struct kiln_openai_passed {
    char model[KILN_OPENAI_MODEL_MAX]; /* "" for none */
    uint32_t others;                   /* bits, for kiln_openai_others */
};
/* Appends the job line.  ret: what was passed over and asks for what Kiln does not do.
 * KILN_BAD_INPUT names the key and what is allowed. */
int kiln_openai_line(const char *text, size_t len, struct kiln_text *out,
                     struct kiln_openai_passed *ret, struct kiln_error *err) KILN_MUST_CHECK;
#define KILN_OPENAI_OTHERS_TEXT_MAX 384
/* The bits in words, "quality hd, style vivid"; "" for none. */
void kiln_openai_others(uint32_t others, char ret[KILN_OPENAI_OTHERS_TEXT_MAX]);

#endif
