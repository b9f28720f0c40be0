/* html.h - texts of people inside pages and addresses.
 *
 * Every text that a person, a file or a server has written goes through one of these; only literals
 * of the source are written with kiln_text_puts.
 */
#ifndef KILN_GALLERY_HTML_H
#define KILN_GALLERY_HTML_H

#include "schemas/text/text.h"

/* As content: & < > " ' are escaped, and what is invisible and steers the screen (controls, turned
 * directions) is shown by its name, "U+202E", in a box of its own. */
void kiln_html(struct kiln_text *out, const char *text);
/* As the value of an attribute in double quotes; the text stays exact, but controls that HTML does
 * not know become U+FFFD. */
void kiln_html_attr(struct kiln_text *out, const char *text);
/* The same, cut between characters to max bytes, with an ellipsis where it was cut. */
void kiln_html_attr_cut(struct kiln_text *out, const char *text, size_t max);
void kiln_html_cut(struct kiln_text *out, const char *text, size_t max); /* as content */
/* A value in the query of an address, percent encoded; fits inside an attribute as it is. */
void kiln_url(struct kiln_text *out, const char *text);
/* <time> with the moment for machines and for people. */
void kiln_html_time(struct kiln_text *out, int64_t ms);
/* "1,234" */
void kiln_html_count(struct kiln_text *out, uint64_t count);
/* A word between single quotes as a shell takes it. */
void kiln_shell(struct kiln_text *out, const char *text);

#endif
