/* related.h - pictures that are alike, by the four relations of scheduler/gallery/alike, on the
 * page of a picture and under /v1/alike. */
#ifndef KILN_GALLERY_RELATED_H
#define KILN_GALLERY_RELATED_H

#include "scheduler/gallery/parts/app.h"

/* A section for each relation that has pictures.  variants: how many pictures have its prompt, as
 * kiln_gallery_picture counts them. */
int kiln_gallery_add_related(struct kiln_web_visit *visit, uint64_t job, const char *prompt_hash,
                             uint32_t variants, struct kiln_error *err) KILN_MUST_CHECK;

#endif
