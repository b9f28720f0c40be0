/* openai.h - a line of an OpenAI batch file as a job line.
 *
 *     {"custom_id": "a1", "method": "POST", "url": "/v1/images/generations",
 *      "body": {"prompt": "a red star", "n": 2, "size": "1024x1024"}}
 *
 * The body is a job line whose count is called n: every key of a job line may be in it.  Of what
 * else OpenAI's body has, "user", "response_format" and "moderation" say nothing about a picture
 * and are passed over, as is a "model" of OpenAI's, since no fleet has it: the request is rendered
 * by the fleet's own model.  "quality", "background" and "output_format" are taken where they ask
 * for what Kiln does anyway, and refused otherwise.  The result goes through the one validator.
 */
#ifndef KILN_ENQUEUE_OPENAI_H
#define KILN_ENQUEUE_OPENAI_H

#include <stdbool.h>
#include <stddef.h>

#include "schemas/error.h"
#include "schemas/text/text.h"

#define KILN_OPENAI_URL "/v1/images/generations"

/* Whether this line is such a request: it has the keys "body" and "url", which no job line has. */
bool kiln_openai_is(const char *text, size_t len);
#define KILN_OPENAI_MODEL_MAX 64
/* Appends the job line.  ret_model: the model that was passed over, "" for none.  KILN_BAD_INPUT
 * names the key and what is allowed. */
int kiln_openai_line(const char *text, size_t len, struct kiln_text *out,
                     char ret_model[KILN_OPENAI_MODEL_MAX], struct kiln_error *err) KILN_MUST_CHECK;

#endif
