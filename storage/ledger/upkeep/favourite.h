/* favourite.h - pictures that are kept whatever their age (`kiln gc --older-than`).
 *
 * The mark belongs to the picture, not to a person.  It stays until it is removed, or the batch is.
 */
#ifndef KILN_LEDGER_FAVOURITE_H
#define KILN_LEDGER_FAVOURITE_H

#include "storage/ledger/read/read.h"

/* Makes the pictures of these jobs, or with count 0 of the batch, favourites, or no longer.
 * *ret_changed: pictures whose mark changed; *ret_pictures: jobs that have a picture. */
int kiln_ledger_mark(struct kiln_ledger *ledger, const char *pool, const uint64_t *ids,
                     size_t count, const char *batch, bool favourite, uint64_t *ret_changed,
                     uint64_t *ret_pictures, struct kiln_error *err) KILN_MUST_CHECK;

struct kiln_favourite_row {
    uint64_t job;
    const char *batch, *key; /* key: of the picture in full size */
    int64_t at_ms;
};
typedef int kiln_each_favourite(void *arg, const struct kiln_favourite_row *row,
                                struct kiln_error *err);
/* In order of the jobs; batch NULL: all of the pool. */
int kiln_ledger_favourites(struct kiln_ledger *ledger, const char *pool, const char *batch,
                           kiln_each_favourite *each, void *arg,
                           struct kiln_error *err) KILN_MUST_CHECK;

#endif
