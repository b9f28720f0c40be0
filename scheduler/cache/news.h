/* news.h - whether a stored latent has come that a prompt may begin from.
 *
 * A table of marks (schemas/reuse/look.h) holds the turn at which the last donor came under each;
 * turns count donors.  To ask about a waiting job takes three places of the table, however many jobs
 * wait and however many of them have the same prompt.  Marks may share a place: then a job is
 * looked at once for nothing.
 *
 * Many prompts may share a subject, and a job can begin only from those that say all that it says.
 * So a donor is noted under its subject with each thing that it says, some 15 places, and a job
 * waits for one thing that it says: donors without that are no news to it.
 *
 * 8 MB.  One thread at a time adds or narrows; any thread may ask meanwhile.
 */
#ifndef KILN_DONOR_NEWS_H
#define KILN_DONOR_NEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/reuse/look.h"

struct kiln_donor_news;

struct kiln_donor_news *kiln_donor_news_new(void);       /* NULL: no memory */
void kiln_donor_news_free(struct kiln_donor_news *news); /* accepts NULL */
uint64_t kiln_donor_news_turn(const struct kiln_donor_news *news);
/* A donor with these marks came, or is worth less than it was.  said: of its prompt
 * (schemas/reuse/block.h). */
void kiln_donor_news_add(struct kiln_donor_news *news, const struct kiln_reuse_marks *marks,
                         uint64_t said);
/* For a job that says this: makes of the mark of the subject one of those prompts that say one of
 * these things too, the one that has been without news the longest. */
void kiln_donor_news_narrow(const struct kiln_donor_news *news, uint64_t said,
                            struct kiln_reuse_marks *marks);
/* Anything may be different: every earlier look is outdated. */
void kiln_donor_news_all(struct kiln_donor_news *news);
/* Whether looking again may find something else. */
bool kiln_donor_news_since(const struct kiln_donor_news *news, const struct kiln_reuse_look *look);
/* Whether a donor ever came under one of the marks; false is certain. */
bool kiln_donor_news_ever(const struct kiln_donor_news *news, const struct kiln_reuse_marks *marks);

#endif
