/* follow.h - a thread that keeps the indexes in step with the ledger while a gallery runs, and
 * applies the rule about prompts.
 */
#ifndef KILN_GALLERY_FOLLOW_THREAD_H
#define KILN_GALLERY_FOLLOW_THREAD_H

#include "scheduler/gallery/parts/app.h"
#include "scheduler/gallery/safety/rate.h"
#include "schemas/error.h"
#include "schemas/text/text.h"

struct kiln_gallery_follow;

/* All must outlive it; the app's keeper, alike and files are told of every change.  A ledger that
 * is away is waited for. */
int kiln_gallery_follow_start(const struct kiln_gallery_app *app, struct kiln_rater *rater,
                              struct kiln_gallery_follow **ret,
                              struct kiln_error *err) KILN_MUST_CHECK;
/* Accepts NULL.  False: the thread waits for a ledger that hangs, and lives on until the process
 * ends; nothing that it uses may be freed.  The index is right whenever that happens. */
bool kiln_gallery_follow_stop(struct kiln_gallery_follow *follow) KILN_MUST_CHECK;
/* Gauges for the page of metrics. */
void kiln_gallery_follow_gauges(struct kiln_gallery_follow *follow, struct kiln_text *text);

#endif
