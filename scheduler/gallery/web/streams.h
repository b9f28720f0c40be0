/* streams.h - answers that stay open: server-sent events.
 *
 * One thread asks each stream's feed for what is new, once a second, and puts it into the stream's
 * buffer; the connection is suspended while that is empty.  So an open stream holds no thread of
 * the server and no worker.  All is bounded: streams, those of one address, bytes that a client has
 * not read, and the time that one stays open; its client then comes back with Last-Event-ID.
 */
#ifndef KILN_GALLERY_STREAMS_H
#define KILN_GALLERY_STREAMS_H

#include <microhttpd.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/text/text.h"

#define KILN_WEB_STREAMS 64
#define KILN_WEB_STREAMS_PER_CLIENT 16
#define KILN_WEB_STREAM_BYTES (256U * 1024) /* not read yet */
#define KILN_WEB_STREAM_S 1800
#define KILN_WEB_STREAM_BEAT_MS 10000 /* a comment, so that a dead client is noticed */

struct kiln_ledger;
struct kiln_web_connection;
struct kiln_web_connections;
struct kiln_web_stream;
struct kiln_web_streams;

/* What a stream has to say. */
struct kiln_web_feed {
    /* Appends what is new.  KILN_UNAVAILABLE and KILN_TIMEOUT: the ledger is away, later; another
     * error ends the stream. */
    int (*step)(void *arg, struct kiln_ledger *session, struct kiln_text *out,
                struct kiln_error *err);
    void (*free)(void *arg);
    void *arg;
};

int kiln_web_streams_new(const struct kiln_config *config, struct kiln_web_streams **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* Ends all streams and the thread; they go when their connections do. */
void kiln_web_streams_stop(struct kiln_web_streams *streams);
void kiln_web_streams_free(struct kiln_web_streams *streams); /* stopped; accepts NULL */
uint32_t kiln_web_streams_count(struct kiln_web_streams *streams);

/* begin: the first text.  Owns the feed from now on, also after an error.  KILN_FULL: too many. */
int kiln_web_stream_new(struct kiln_web_streams *streams, const char *client,
                        const struct kiln_web_feed *feed, const struct kiln_text *begin,
                        struct kiln_web_stream **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Of one that is not sent; accepts NULL. */
void kiln_web_stream_drop(struct kiln_web_stream *stream);
/* The answer, which owns the stream; NULL: no memory, and it is dropped. */
struct MHD_Response *kiln_web_stream_response(struct kiln_web_stream *stream,
                                              struct MHD_Connection *connection);
/* The connection's deadline moves on whenever the client has read. */
void kiln_web_stream_watch(struct kiln_web_stream *stream, struct kiln_web_connections *all,
                           struct kiln_web_connection *place);

#endif
