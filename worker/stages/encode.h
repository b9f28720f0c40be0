/* encode.h - a drawn picture becomes the files that are stored.  The pixels of every size come from
 * the engine; here they are compressed.
 *
 * The sizes are `full` (as drawn), `512` and `256` (longest side), each only if the picture is at
 * least that large: nothing is ever enlarged.  A picture whose longest side is exactly 512 has a
 * `512` with the bytes of `full`, so that whoever wants "the 512" finds it under that name.
 * A latent-cache job has no pictures; latents "none" has no latent file.
 *
 * Pure: equal input gives equal bytes and equal keys, so a job that is run again overwrites its
 * objects with themselves.
 */
#ifndef KILN_ENCODE_H
#define KILN_ENCODE_H

#include "worker/state/picture.h"

struct kiln_encode_options {
    const char *model_name, *model_hash;
    float webp_quality;
    int webp_method;
    int64_t now_ms; /* files a job that does not say when it was created */
};

/* Fills the objects of picture from picture->drawn (which stays).  On failure it has none. */
int kiln_encode_picture(struct kiln_picture *picture, const struct kiln_encode_options *options,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif
