/* reply.h - from a filled reply to bytes: compression, tags, parts of files, and the headers that
 * every answer has. */
#ifndef KILN_GALLERY_REPLY_H
#define KILN_GALLERY_REPLY_H

#include <microhttpd.h>

#include "scheduler/gallery/web/visit.h"

#define KILN_WEB_POLICY_MAX 512
/* The Content-Security-Policy of every answer; image_origin may be NULL. */
void kiln_web_policy(const char *image_origin, char ret[KILN_WEB_POLICY_MAX]);

/* Makes the body ready: its tag, and gzip if the client takes it.  In whichever thread has made the
 * reply, since compressing costs more than sending. */
void kiln_web_reply_finish(struct kiln_web_reply *reply, bool takes_gzip);

/* Queues the answer and frees what the reply has; *ret_bytes is the size of its body. */
enum MHD_Result kiln_web_reply_send(struct MHD_Connection *connection, struct kiln_web_reply *reply,
                                    const char *policy, unsigned *ret_status, uint64_t *ret_bytes);
void kiln_web_reply_release(struct kiln_web_reply *reply);

#endif
