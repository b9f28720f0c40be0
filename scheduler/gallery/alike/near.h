/* near.h - hashes of the pool's pictures in memory, and which of them are near one.
 *
 * A look-up compares with every hash, 32 bytes each.  Pictures too flat for their hash to mean much
 * are not kept.  At 1,000,000 pictures: 32 MB of hashes, 8 MB of job numbers, and a table by job of
 * 20 MB.
 *
 * One thread changes it while others look up: every call takes a lock.
 */
#ifndef KILN_GALLERY_NEAR_H
#define KILN_GALLERY_NEAR_H

#include "schemas/error.h"
#include "storage/ledger/gallery/fingerprints.h"

struct kiln_near;

#define KILN_NEAR_MOST (1u << 22) /* pictures; those that come later are not kept */

int kiln_near_new(struct kiln_near **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_near_free(struct kiln_near *near); /* accepts NULL */

/* Whether a hash of this quality says what a picture looks like. */
bool kiln_near_tells(const struct kiln_fingerprint *print);

/* Adds or replaces a picture's hash, or removes it if it does not tell.  KILN_NO_MEMORY. */
int kiln_near_put(struct kiln_near *near, const struct kiln_fingerprint *print,
                  struct kiln_error *err) KILN_MUST_CHECK;
void kiln_near_remove(struct kiln_near *near, uint64_t job);
uint32_t kiln_near_count(struct kiln_near *near);

struct kiln_near_hit {
    uint64_t job;
    int distance; /* bits that differ, at most KILN_PDQ_NEAR */
};
/* Pictures whose hash is near that of print, but for that of the same job, the nearest and of those
 * the newest first; returns how many, at most `most`. */
uint32_t kiln_near_find(struct kiln_near *near, const struct kiln_fingerprint *print,
                        struct kiln_near_hit *ret, uint32_t most);

#endif
