/* documents.h - rows of gallery_text and gallery_day, made of the pictures of the ledger. */
#ifndef KILN_GALLERY_DOCUMENTS_H
#define KILN_GALLERY_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_ledger;

#define KILN_DOCUMENTS_MAX 2000 /* in one call */

/* Makes the rows of these jobs what their pictures are now: written, or removed if there is no
 * picture.  One transaction; may be repeated.  ret_gone[count]: which have none. */
int kiln_documents_write(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                         bool *ret_gone, struct kiln_error *err) KILN_MUST_CHECK;

/* Counts the words of up to rows_max pictures of jobs behind *cursor, up to `to`, into
 * gallery_word; *cursor is then the last of them, and *ret_rows how many were counted. */
int kiln_documents_count_words(struct kiln_ledger *session, uint64_t *cursor, uint64_t to,
                               uint32_t rows_max, uint32_t *ret_rows,
                               struct kiln_error *err) KILN_MUST_CHECK;

#endif
