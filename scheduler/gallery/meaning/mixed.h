/* mixed.h - a search by words and by meaning at once, in pages of one list that stays as it is.
 *
 * Up to KILN_MIXED_WORDS pictures that have the words, newest first, and up to KILN_MIXED_MEANING
 * whose prompts mean the same, as far as they stand out from the background, are fused by rank.  A
 * fused list of more than a page is kept for a minute, so that its pages fit together although
 * pictures arrive; then it is made again.  If more pictures have the words, its last page goes on
 * to them with a cursor of kiln_gallery_list, newest first; a few of those may have come before by
 * their meaning.  Not for words that say exactly what is wanted (kiln_query_is_exact).
 */
#ifndef KILN_GALLERY_MIXED_H
#define KILN_GALLERY_MIXED_H

#include "scheduler/gallery/meaning/meaning.h"
#include "schemas/config/config.h"

#define KILN_MIXED_WORDS 150 /* with 100, fewer of the first ten are right (README.md) */
#define KILN_MIXED_MEANING 200
#define KILN_MIXED_KEPT_MS 60000
#define KILN_MIXED_CURSOR 'm' /* with which its cursors begin, and no other list's do */

struct kiln_mixed;

/* A cursor: the list's id, hexadecimal digits, and where its page begins: "m<id>-<offset>".  Read
 * only if it is of this list and as it was written. */
void kiln_mixed_cursor_write(char out[KILN_GALLERY_CURSOR_MAX], const char *id, uint32_t offset);
bool kiln_mixed_cursor_read(const char *cursor, const char *id, uint32_t *ret_offset);

/* Both must outlive it. */
int kiln_mixed_new(const struct kiln_config *config, struct kiln_meaning *meaning,
                   struct kiln_mixed **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_mixed_free(struct kiln_mixed *mixed); /* accepts NULL */

/* Prompts that have no vector yet: words alone find their pictures.  Any thread. */
uint32_t kiln_mixed_waiting(struct kiln_mixed *mixed);
/* As kiln_gallery_list, for a query with words; the order of the query is not looked at.  Any
 * thread, with a session of its own.  KILN_BAD_INPUT: a cursor of another query, or words with
 * nothing to search for. */
int kiln_mixed_list(struct kiln_mixed *mixed, struct kiln_ledger *session,
                    const struct kiln_gallery_query *query, kiln_each_tile *each, void *arg,
                    struct kiln_gallery_page *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Of the same list, as far as words and meaning find pictures (above), the newest rows_max, the
 * newest first; without a cursor. */
int kiln_mixed_newest(struct kiln_mixed *mixed, struct kiln_ledger *session,
                      const struct kiln_gallery_query *query, kiln_each_tile *each, void *arg,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Up to `count` (KILN_MIXED_MEANING at most) pictures of other prompts that mean what this one's
 * does, as far as they stand out.  Likewise any thread. */
int kiln_mixed_similar(struct kiln_mixed *mixed, struct kiln_ledger *session,
                       const struct kiln_gallery_filter *filter, uint64_t job, uint32_t count,
                       kiln_each_tile *each, void *arg, struct kiln_error *err) KILN_MUST_CHECK;

#endif
