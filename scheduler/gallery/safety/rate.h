/* rate.h - the rule about prompts, applied to the pictures of the ledger.
 *
 * New pictures come through the follower (storage/ledger/gallery/follow.h): a page counts as seen
 * only when its opinions are recorded, so none is lost when a gallery dies.  Pictures that were
 * there before the list are looked at page by page in the background, once; how far that is, is
 * stored.  With another list the opinions of the old one are replaced or taken back; with none they
 * are all taken back.  One thread uses a rater.
 */
#ifndef KILN_GALLERY_RATE_H
#define KILN_GALLERY_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/text/text.h"

struct kiln_rater;

/* Reads the list that the setting gallery_rule names; does not connect.  config must outlive it. */
int kiln_rater_new(const struct kiln_config *config, struct kiln_rater **ret,
                   struct kiln_error *err) KILN_MUST_CHECK;
void kiln_rater_free(struct kiln_rater *rater); /* accepts NULL */

/* Looks at the pictures of these jobs; a kiln_each_written of the follower. */
int kiln_rater_written(void *rater, const uint64_t *jobs, size_t count,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* A page of the pictures that were there before; *ret_more: there are more.  replaced: the ledger
 * is not the one of the last call. */
int kiln_rater_step(struct kiln_rater *rater, bool replaced, bool *ret_more,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Gauges for the page of metrics; from any thread. */
void kiln_rater_gauges(struct kiln_rater *rater, struct kiln_text *text);

#endif
