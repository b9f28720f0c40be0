/* fit.h - listings that fit the terminal: names are shortened in the middle, lines are cut or
 * wrapped at its width (kiln_cli.columns).  Where stdout is no terminal nothing is shortened, so a
 * script sees whole names.
 */
#ifndef KILN_CLI_FIT_H
#define KILN_CLI_FIT_H

#include <stdio.h>

#include "scheduler/cli/core/cli.h"
#include "schemas/text/text.h"

/* Columns of the terminal that a file is, 80 if it does not say; 0 if it is none. */
int kiln_terminal_columns(int fd);
/* Columns of a help text: the terminal's, else those of the variable COLUMNS, else 80. */
int kiln_help_columns(void);
/* Appends a name, made safe, in a cell of this width: padded, and on a terminal (of so many
 * columns; 0: none) a longer one as "begin…end", since names of hosts and batches often differ at
 * their end only. */
void kiln_text_cell(struct kiln_text *line, int columns, const char *name, int width);

/* How a line that is too wide goes on: it ends in "…", or in further lines behind `hang` blanks. */
#define KILN_CUT (-1)
/* Appends text, whose lines end in \n and are safe already but for colours of kiln, fitted to
 * columns; 0: as it is. */
void kiln_text_fit(struct kiln_text *out, const char *text, int columns, int hang);
/* The same of a formatted text on stdout, made safe first; a newline is added. */
void kiln_print_fit(const struct kiln_cli *cli, int hang, const char *fmt, ...) KILN_PRINTF(3, 4);
/* A part of a help text: lines of at most kiln_help_columns, which go on behind hang blanks. */
void kiln_help_print(FILE *out, int hang, const char *fmt, ...) KILN_PRINTF(3, 4);

#endif
