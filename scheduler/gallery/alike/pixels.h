/* pixels.h - the fingerprint of a picture file: PDQ and mean colour. */
#ifndef KILN_GALLERY_PIXELS_H
#define KILN_GALLERY_PIXELS_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "storage/ledger/gallery/fingerprints.h"

#define KILN_PIXELS_MAX (4096u * 4096u) /* of a file that is looked at */

/* Sets hash, quality and colour of *ret.  file: a WebP, as Kiln stores pictures.  The colour is the
 * mean of the stored (sRGB) values, which is what a browser shows of a picture scaled to a pixel.
 * The errors of kiln_webp_decode: a file that is damaged or too large, or KILN_NO_MEMORY. */
int kiln_fingerprint_of(const void *file, size_t size, struct kiln_fingerprint *ret,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif
