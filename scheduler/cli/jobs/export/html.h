/* html.h - index.html of an export: one file, no requests beyond the pictures beside it.
 *
 * Opens from file://, light or dark as the reader's system is.  Every text of a user is escaped;
 * the page's script reads it back from the elements and never builds markup from it.
 */
#ifndef KILN_CLI_EXPORT_HTML_H
#define KILN_CLI_EXPORT_HTML_H

#include <stdio.h>

#include "schemas/job/sizes.h"
#include "storage/ledger/read/read.h"

/* Paths of a picture relative to the page; "" where there is none. */
struct kiln_html_files {
    const char *paths[KILN_STORED_SIZES];
};

/* note: a sentence above the pictures, or NULL. */
void kiln_html_begin(FILE *out, const char *batch, const char *note);
void kiln_html_picture(FILE *out, const struct kiln_job_row *row,
                       const struct kiln_html_files *files);
/* A job without a picture: failed, cancelled, not done yet, or its picture cannot be had. */
void kiln_html_missing(FILE *out, const struct kiln_job_row *row, bool damaged);
void kiln_html_end(FILE *out, uint64_t pictures, uint64_t jobs);

#endif
