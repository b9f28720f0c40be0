/* fingerprints.h - what was computed from the pixels of pictures: table gallery_picture.
 *
 * A picture's row is written once, from a stored file, by whichever gallery follows the ledger; a
 * picture without a row has not been looked at, or its file cannot be read.  The follower removes
 * rows whose picture has gone or has another file (follow.h), so a row that is there is right.
 */
#ifndef KILN_GALLERY_FINGERPRINTS_H
#define KILN_GALLERY_FINGERPRINTS_H

#include "storage/ledger/gallery/gallery.h"

#define KILN_FINGERPRINT_HASH_BYTES 32
#define KILN_FINGERPRINTS_MAX 1000 /* pictures in one call */

struct kiln_fingerprint {
    uint64_t job;
    int64_t file; /* which full picture it is of; 0: the job has none */
    uint8_t hash[KILN_FINGERPRINT_HASH_BYTES]; /* PDQ */
    uint32_t quality;                          /* of PDQ, 0 .. 100 */
    uint32_t colour;                           /* mean, 0xRRGGBB */
};

/* A picture, and its fingerprint as far as it has been made.  Lent to the callback. */
struct kiln_fingerprint_row {
    struct kiln_fingerprint print; /* of one that is not made: job and file */
    bool made;
    const char *pool;
    const char *key; /* of the smallest stored file, if it is not made; NULL: none */
};
typedef int kiln_each_fingerprint(void *arg, const struct kiln_fingerprint_row *row,
                                  struct kiln_error *err);

/* Up to `count` pictures of jobs below `below`, the newest first, of all pools. */
int kiln_gallery_fingerprints_below(struct kiln_ledger *session, uint64_t below, uint32_t count,
                                    kiln_each_fingerprint *each, void *arg,
                                    struct kiln_error *err) KILN_MUST_CHECK;
/* Those of these jobs that there are. */
int kiln_gallery_fingerprints_of(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                                 kiln_each_fingerprint *each, void *arg,
                                 struct kiln_error *err) KILN_MUST_CHECK;
/* Writes those whose picture is still there, has that file, and has none yet.  Needs a session that
 * writes. */
int kiln_gallery_fingerprints_put(struct kiln_ledger *session,
                                  const struct kiln_fingerprint *prints, size_t count,
                                  struct kiln_error *err) KILN_MUST_CHECK;

/* Up to `most` other pictures of the filter's pool that are the same as that of `job`, the newest
 * first: an equal file, or the same prompt, seed, size, model, LoRA set and settings, and no other
 * picture to start from.  Those that the filter hides are among them.  ret_jobs: [most]. */
int kiln_gallery_same(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                      uint64_t job, uint32_t most, uint64_t *ret_jobs, uint32_t *ret_count,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
