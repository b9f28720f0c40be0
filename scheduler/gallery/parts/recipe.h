/* recipe.h - how to make a picture again: its command, from the ledger's row.  Its job line is
 * kiln_job_line_again (schemas/job/line.h). */
#ifndef KILN_GALLERY_RECIPE_H
#define KILN_GALLERY_RECIPE_H

#include "schemas/text/text.h"
#include "storage/ledger/read/read.h"

/* Appends `kiln render ...`, for a POSIX shell.  False, and nothing is appended: the picture began
 * from another one, or its line names a model, whose directory only its workers know. */
bool kiln_gallery_command(const struct kiln_job_row *row, struct kiln_text *out);

#endif
