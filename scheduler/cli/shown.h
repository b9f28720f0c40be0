/* shown.h - texts of people on a terminal: what they typed must not move the cursor, colour the
 * screen or begin a line of its own.
 *
 * Control characters (C0, DEL, C1) appear as \n, \t or \u001b, as JSON would write them; everything
 * else stays as it is, backslashes too.
 */
#ifndef KILN_CLI_SHOWN_H
#define KILN_CLI_SHOWN_H

#include "schemas/text.h"

void kiln_text_shown(struct kiln_text *out, const char *text);
void kiln_print_shown(const char *text); /* on stdout */

#endif
