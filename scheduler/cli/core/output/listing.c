/* listing.c - see listing.h. */
#include "scheduler/cli/core/output/listing.h"

#include <stdio.h>

int kiln_listing_put(struct kiln_listing *listing, struct kiln_error *err)
{
    if (listing->line.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a line of the listing");
    fwrite(listing->line.at, 1, listing->line.len, stdout);
    kiln_text_clear(&listing->line);
    listing->rows++;
    bool enough = listing->left > 0 && --listing->left == 0;
    return enough || !kiln_stdout_ok() ? kiln_fail(err, KILN_CANCELLED, "end of the listing") : 0;
}

int kiln_listing_end(struct kiln_listing *listing, int rc, const struct kiln_error *err)
{
    kiln_text_release(&listing->line);
    if (rc == 0 && listing->rows == 0 && listing->none)
        kiln_say(listing->cli, "%s", listing->none);
    return rc && rc != KILN_CANCELLED ? kiln_report(listing->cli, err) : 0;
}
