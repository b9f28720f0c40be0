/* html.h - text for an element or a quoted attribute of HTML. */
#ifndef KILN_HTML_H
#define KILN_HTML_H

#include <stddef.h>

/* The entity of one of the five characters that mean something to HTML, NULL for another one. */
const char *kiln_html_entity(char c);

#define KILN_HTML_PIECE 8 /* bytes */

/* Writes the next character of a NUL-terminated text into out, without a NUL, and moves *text
 * behind it: the five characters that mean something to HTML as entities; what is invisible and
 * steers a terminal or the direction of text, but line ends and tabs, as a JSON escape.  Returns
 * the bytes written, 0 at the end of the text. */
size_t kiln_html_next(const char **text, char out[KILN_HTML_PIECE]);

#endif
