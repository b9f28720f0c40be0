/* answers.h - answers.jsonl of `kiln export --format openai`: the answer file of an OpenAI batch.
 *
 *     {"id": "batch_req_17", "custom_id": "a1", "error": null, "response": {"status_code": 200,
 *      "request_id": "req_17", "body": {"created": 1795273505, "size": "1024x1024",
 *      "output_format": "webp", "data": [{"url": "full/000000-a1.webp"}]}}}
 *
 * A line for each request (a custom_id of a batch) whose jobs have all ended, in the order of the
 * requests; 17 is its first job, urls are paths below the directory.  Where a picture failed,
 * status_code is 400 (the request was at fault) or 500, and the body has "error" beside the
 * pictures that there are; where a job was cancelled, "response" is null.  A job without a
 * custom_id answers as "job-17".
 */
#ifndef KILN_CLI_ANSWERS_H
#define KILN_CLI_ANSWERS_H

#include <stdio.h>

#include "storage/ledger/read/read.h"

struct kiln_answers;

struct kiln_answers *kiln_answers_new(void); /* NULL: no memory */
/* Adds a job.  path: of its picture below the directory, borrowed; NULL: it has none. */
int kiln_answers_add(struct kiln_answers *answers, const struct kiln_job_row *row, const char *path,
                     struct kiln_error *err) KILN_MUST_CHECK;
int kiln_answers_write(const struct kiln_answers *answers, FILE *file,
                       struct kiln_error *err) KILN_MUST_CHECK;
void kiln_answers_free(struct kiln_answers *answers); /* accepts NULL */

#endif
