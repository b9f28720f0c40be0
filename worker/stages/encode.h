/* encode.h - compresses a rendered picture into the files that are stored.
 *
 * The engine delivers the pixels of every size (schemas/job/sizes.h); no size is larger than the
 * rendered picture.  A picture whose longest side is exactly 512 has a `512` with the bytes of
 * `full`, so that a reader finds it under that name.  A latent-cache job has no pictures; latents
 * "none" has no latent file.
 *
 * Pure: equal input gives equal bytes and equal keys, so a repeated job overwrites its objects with
 * themselves.
 */
#ifndef KILN_ENCODE_H
#define KILN_ENCODE_H

#include "worker/state/picture.h"

struct kiln_encode_options {
    const char *model_name, *model_hash;
    float webp_quality;
    int webp_method;
    int64_t now_ms; /* for a job without a time of creation */
};

/* Fills the objects of picture from picture->output (which stays).  On failure it has none. */
int kiln_encode_picture(struct kiln_picture *picture, const struct kiln_encode_options *options,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif
