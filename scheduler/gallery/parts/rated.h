/* rated.h - what the pages say about a level of safety, and who gave it.
 *
 * A rule has looked at words, a classifier is often wrong, and nobody may have looked at all: the
 * words say which it was, and never that a picture is safe.
 */
#ifndef KILN_GALLERY_RATED_H
#define KILN_GALLERY_RATED_H

#include "scheduler/gallery/parts/app.h"

/* "unsure, by a word of the prompt (rule:1)", "hidden by a classifier (vit, 0.93): explicit",
 * "clear, by a person", "not checked"; escaped.  source may be NULL. */
void kiln_gallery_rated(struct kiln_text *out, const struct kiln_gallery_app *app, int level,
                        const char *source, double score);

/* The buttons by which a person decides, in a form that posts to /verdict.  level: the one that
 * counts.  list and after: where the review goes on (pages/review.c), or NULL: back to the picture.
 */
void kiln_gallery_verdict_form(struct kiln_text *out, uint64_t job, int level, const char *list,
                               const char *after);

#endif
