/* html.h - index.html of an export: one file, no requests beyond the pictures beside it.
 *
 * It opens from file://, and looks and works as the pages of the gallery do: its style sheet and
 * its script are those of scheduler/gallery/parts.  What the server answers there, `local.js` makes
 * here from data in the page: a JSON object a line, in blocks that never become markup, so that ten
 * thousand pictures cost no more than the few that are looked at.  A list for readers without
 * scripts stands beside the data.
 */
#ifndef KILN_CLI_EXPORT_HTML_H
#define KILN_CLI_EXPORT_HTML_H

#include <stdio.h>

#include "schemas/job/sizes.h"
#include "schemas/text/text.h"
#include "storage/ledger/read/read.h"

/* The files of a picture by size: paths relative to the page, and rows; "" and NULL for none. */
struct kiln_html_files {
    char paths[KILN_STORED_SIZES][256];
    const struct kiln_object_row *rows[KILN_STORED_SIZES];
};

/* A page that is being written; zero-initialise. */
struct kiln_html {
    FILE *file;
    struct kiln_text data, list; /* of pictures that are not in the file yet */
    unsigned held;               /* how many */
    bool failed;                 /* there was no memory for a part */
};

/* Into file, which is borrowed until the end.  note: a sentence above the pictures, or NULL.
 * sheet: the page has a sheet beside it, grid.html. */
void kiln_html_begin(struct kiln_html *page, FILE *file, const char *title, const char *note,
                     bool sheet);
/* A job; one without a picture (failed, not done yet, its picture cannot be had) says why. */
void kiln_html_add(struct kiln_html *page, const struct kiln_job_row *row,
                   const struct kiln_html_files *files, bool damaged);
/* False: no memory, and something is missing.  What could not be written is seen by ferror(file).
 */
bool kiln_html_end(struct kiln_html *page, uint64_t pictures, uint64_t jobs);
void kiln_html_release(struct kiln_html *page);

/* grid.html: a page around a table that crosstab.h has written.  False: no memory. */
bool kiln_html_sheet(FILE *file, const char *title, const struct kiln_text *table);
/* What stands in a cell of that table; index: beside index.html, where the picture opens. */
void kiln_html_cell(struct kiln_text *out, const struct kiln_job *job,
                    const struct kiln_html_files *files, bool index);

#endif
