/* input_jobs.h - a job file in any of its formats, as job lines.
 *
 *     jsonl   a JSON object a line; also a request of an OpenAI batch file (openai.h)
 *     text    a prompt a line; blank lines and lines that begin with # are skipped
 *     csv     a header of job keys, then a job a record
 *
 * The format is given, or follows from the name (.jsonl .ndjson .json, .txt, .csv), or from the
 * first byte that is not blank: '{' is jsonl, anything else text.
 */
#ifndef KILN_INPUT_JOBS_H
#define KILN_INPUT_JOBS_H

#include <stdint.h>

#include "schemas/error.h"

enum kiln_format { KILN_FORMAT_AUTO, KILN_FORMAT_JSONL, KILN_FORMAT_TEXT, KILN_FORMAT_CSV };

/* "jsonl", "text", "csv"; -1 for anything else. */
int kiln_format_by_name(const char *name);

struct kiln_input;

/* path "-" is standard input.  again: kiln_input_rewind will be called (see kiln_lines_open). */
int kiln_input_open(const char *path, enum kiln_format format, bool again, struct kiln_input **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* An open file of that format, which stays the caller's; name is what to call it. */
int kiln_input_open_fd(const char *name, int fd, enum kiln_format format, struct kiln_input **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Job lines in memory; name is what to call them. */
int kiln_input_open_text(const char *name, const char *text, size_t len, struct kiln_input **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
void kiln_input_close(struct kiln_input *input); /* accepts NULL */
const char *kiln_input_name(const struct kiln_input *input);

/* The next job line, borrowed until the next call; *ret_text NULL at the end.  *ret_line is where
 * it begins.  KILN_BAD_INPUT refuses only this line; the next call continues after it.  Any other
 * code ends the reading. */
int kiln_input_next(struct kiln_input *input, const char **ret_text, size_t *ret_len,
                    uint64_t *ret_line, struct kiln_error *err) KILN_MUST_CHECK;
#define KILN_PASSED_OVER_MAX 560
/* What requests to OpenAI asked for and was passed over, "dall-e-2, gpt-image-1, quality hd"; ""
 * for nothing.  models: OpenAI's models, too; returns whether there are any. */
bool kiln_input_passed_over(const struct kiln_input *input, bool models,
                            char ret[KILN_PASSED_OVER_MAX]);
int kiln_input_rewind(struct kiln_input *input, struct kiln_error *err) KILN_MUST_CHECK;

#endif
