/* text_safe.h - texts of people on a terminal: what they typed must not move the cursor, colour the
 * screen or begin a line of its own.
 *
 * Characters that control the terminal (schemas/text/utf8.h: controls, those that turn the
 * direction) appear as \n, \t or \u001b, as JSON would write them, and a byte that is no UTF-8 as
 * ?, since some terminals take it for C1; everything else stays as it is, backslashes too.  So what
 * was shown once can pass again.
 */
#ifndef KILN_CLI_TEXT_SAFE_H
#define KILN_CLI_TEXT_SAFE_H

#include <stdarg.h>

#include "schemas/text/text.h"

void kiln_text_safe(struct kiln_text *out, const char *text);
/* The same of a text that is formatted as printf does. */
void kiln_text_safe_format(struct kiln_text *out, const char *fmt, va_list args);
void kiln_print_safe(const char *text); /* on stdout */
/* A whole line on stdout, whose parts others have written: names of workers and hosts among them.
 */
void kiln_print_line(const char *fmt, ...) KILN_PRINTF(1, 2);
/* Cut between characters to what size holds; returns out. */
const char *kiln_safe_line(const char *text, char *out, size_t size);
/* The same for a table: cut to so many columns and filled up with blanks. */
const char *kiln_safe_cell(const char *text, int columns, char *out, size_t size);
int kiln_safe_columns(const char *text); /* the width of the whole text */

#endif
