/* listing.h - a listing that streams: a line a row, JSON or text, until its reader has gone. */
#ifndef KILN_CLI_LISTING_H
#define KILN_CLI_LISTING_H

#include "scheduler/cli/core/cli.h"
#include "schemas/text/text.h"

struct kiln_listing {
    const struct kiln_cli *cli;
    struct kiln_text line; /* of the row at hand */
    uint64_t rows;
    long left;        /* how many more; 0: any number */
    const char *none; /* said on stderr where there are no rows, or NULL */
};

/* Writes the line (the caller has ended it) and clears it.  0; KILN_CANCELLED after the last row
 * that anybody wants, which is no error to report; KILN_NO_MEMORY. */
int kiln_listing_put(struct kiln_listing *listing, struct kiln_error *err) KILN_MUST_CHECK;
/* Releases it; rc is what the walk over the rows returned.  The exit status of the verb. */
int kiln_listing_end(struct kiln_listing *listing, int rc, const struct kiln_error *err);

#endif
