/* recipe.h - how to make a picture again: its job line and its command, from the ledger's row. */
#ifndef KILN_GALLERY_RECIPE_H
#define KILN_GALLERY_RECIPE_H

#include "schemas/text/text.h"
#include "storage/ledger/read/read.h"

/* Appends the job line.  False, and nothing is appended: the validator of this release refuses the
 * line, so it would not run. */
bool kiln_gallery_job_line(const struct kiln_job *job, struct kiln_text *out);
/* Appends `kiln render ...`, for a POSIX shell.  False, and nothing is appended: the picture began
 * from another one, which the command does not have. */
bool kiln_gallery_command(const struct kiln_job_row *row, struct kiln_text *out);

#endif
