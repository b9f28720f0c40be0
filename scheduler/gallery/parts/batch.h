/* batch.h - how far a batch is, in words and numbers: for pages and for /v1. */
#ifndef KILN_GALLERY_BATCH_H
#define KILN_GALLERY_BATCH_H

#include "schemas/text/text.h"
#include "storage/ledger/read/batch.h"

/* Its jobs in every state, those whose rows gc has removed too. */
uint64_t kiln_gallery_batch_all(const struct kiln_batch_row *batch);
/* "coming in", "waiting", "rendering" or "ended". */
const char *kiln_gallery_batch_state(const struct kiln_batch_row *batch);

/* The bar alone. */
void kiln_gallery_batch_bar(struct kiln_text *out, const struct kiln_batch_row *batch);
/* A paragraph above the pictures of a batch; script.js keeps its numbers in step. */
void kiln_gallery_batch_progress(struct kiln_text *out, const struct kiln_batch_row *batch);

#endif
