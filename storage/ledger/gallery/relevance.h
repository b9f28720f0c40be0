/* relevance.h - pages by relevance: blocks of the newest hits, each ranked as a whole. */
#ifndef KILN_GALLERY_RELEVANCE_H
#define KILN_GALLERY_RELEVANCE_H

#include "storage/ledger/gallery/question.h"

/* A page of the block at the place, and the cursor behind it.  Blocks follow each other by age.  A
 * cursor names the newest hit of its block, so a block stays the same while pictures arrive. */
int kiln_gallery_list_relevant(struct kiln_ledger *session,
                               const struct kiln_gallery_question *question,
                               const struct kiln_gallery_place *place, kiln_each_tile *each,
                               void *arg, struct kiln_gallery_page *page,
                               struct kiln_error *err) KILN_MUST_CHECK;

#endif
