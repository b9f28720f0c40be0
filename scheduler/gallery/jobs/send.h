/* send.h - jobs from a request into the queue: what POST /v1/batches and the form of a picture
 * share.  The lines go through scheduler/cli/jobs/enqueue, as those of `kiln enqueue` do.
 */
#ifndef KILN_GALLERY_SEND_H
#define KILN_GALLERY_SEND_H

#include "scheduler/cli/jobs/enqueue/enqueue.h"
#include "scheduler/gallery/parts/app.h"

/* The routes that need this. */
kiln_web_handler kiln_gallery_api_enqueue; /* enqueue.c: POST /v1/batches */
kiln_web_handler kiln_gallery_api_cancel;  /* cancel.c: POST /v1/batches/NAME/cancel */
kiln_web_handler kiln_gallery_again;       /* again.c: POST /again */

/* The form "make again with ..." of a picture, for whoever may enqueue; nothing for others. */
void kiln_gallery_again_form(const struct kiln_web_visit *visit, const struct kiln_job *job,
                             struct kiln_text *out);

/* The command line that the code of kiln expects: it says nothing, and its sessions are named after
 * the gallery. */
struct kiln_cli kiln_gallery_cli(const struct kiln_web_visit *visit);

/* Sends what the request names, which never is a file of this machine.  0: Redis has all jobs that
 * were good, and result->receipted says whether the scheduler has them too.  An error says what it
 * means for the jobs; some may have been sent (result->sent).  Release the result in any case. */
int kiln_gallery_send(struct kiln_web_visit *visit, struct kiln_enqueue_request *request,
                      struct kiln_enqueue_result *result, struct kiln_error *err) KILN_MUST_CHECK;

#endif
