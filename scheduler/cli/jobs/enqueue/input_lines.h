/* input_lines.h - the lines of a file, a pipe, standard input or a text, with their numbers.
 *
 * Reads blocks and returns each line within its block; a line longer than KILN_LINE_MAX is skipped
 * without ever being in memory.  A UTF-8 byte order mark is dropped, "\r\n" ends a line as
 * "\n" does, and the last line needs no end.
 */
#ifndef KILN_INPUT_LINES_H
#define KILN_INPUT_LINES_H

#include <stdint.h>

#include "schemas/error.h"

struct kiln_lines;

/* path "-" is standard input.  spool: the input is read twice; what cannot be is copied to an
 * unnamed temporary file first, KILN_SPOOL_MAX bytes at most. */
#define KILN_SPOOL_MAX (1024L * 1024 * 1024)
int kiln_lines_open(const char *path, bool spool, struct kiln_lines **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* The same for a text in memory; it may be read twice. */
int kiln_lines_open_text(const char *name, const char *text, size_t len, struct kiln_lines **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* The same for an open file, which stays the caller's; read from its beginning. */
int kiln_lines_open_fd(const char *name, int fd, struct kiln_lines **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
void kiln_lines_close(struct kiln_lines *lines); /* accepts NULL */
/* What to call the input in messages: its path, or "<stdin>". */
const char *kiln_lines_name(const struct kiln_lines *lines);

/* The next line; *ret_text NULL at the end.  Borrowed until the next call.  KILN_BAD_INPUT: this
 * line is too long; the next call continues after it. */
int kiln_lines_next(struct kiln_lines *lines, const char **ret_text, size_t *ret_len,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Of the line returned last, from 1. */
uint64_t kiln_lines_number(const struct kiln_lines *lines);
/* The first bytes of the input, for guessing its format; waits for the first block. */
int kiln_lines_peek(struct kiln_lines *lines, const char **ret_text, size_t *ret_len,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Back to the first line of a spooled input. */
int kiln_lines_rewind(struct kiln_lines *lines, struct kiln_error *err) KILN_MUST_CHECK;

#endif
