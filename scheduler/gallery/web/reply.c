/* reply.c - see reply.h.
 *
 * A 304 is made with the size of the whole body: libmicrohttpd would write Content-Length: 0 for an
 * empty one, which a cache may store.  It sends no body with that status, nor with a HEAD.
 */
#include "scheduler/gallery/web/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "scheduler/gallery/web/conditions.h"
#include "scheduler/gallery/web/streams.h"
#include "schemas/digest.h"

#define ZIP_BYTES_MIN 512 /* below that, the headers weigh more */
#define ZIP_LEVEL 5
#define TAG_BYTES 12
#define COPY_MAX 65536 /* bytes of a file */

void kiln_web_policy(const char *image_origin, char ret[KILN_WEB_POLICY_MAX])
{
    snprintf(ret, KILN_WEB_POLICY_MAX,
             "default-src 'none'; img-src 'self'%s%s; style-src 'self'; script-src 'self'; "
             "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; "
             "frame-ancestors 'none'",
             image_origin ? " " : "", image_origin ? image_origin : "");
}

/* --- compression ------------------------------------------------------------------------------ */

static bool is_text(const char *type)
{
    return type && (strncmp(type, "text/", 5) == 0 || strstr(type, "json") || strstr(type, "xml") ||
                    strstr(type, "javascript"));
}

/* Replaces the body by its gzip; false leaves it. */
static bool zip(struct kiln_text *body)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, ZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    size_t room = deflateBound(&stream, body->len);
    char *out = malloc(room);
    stream.next_in = (unsigned char *)body->at;
    stream.avail_in = (unsigned)body->len;
    stream.next_out = (unsigned char *)out;
    stream.avail_out = (unsigned)room;
    bool good = out && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    size_t len = stream.total_out;
    deflateEnd(&stream);
    if (!good || len >= body->len) {
        free(out);
        return false;
    }
    free(body->at);
    *body = (struct kiln_text){.at = out, .len = len, .size = room};
    return true;
}

void kiln_web_reply_finish(struct kiln_web_reply *reply, bool takes_gzip)
{
    if (reply->fd >= 0 || reply->stream || !is_text(reply->type) || reply->body.failed)
        return;
    if (!reply->etag[0] && (reply->status == 0 || reply->status == MHD_HTTP_OK)) {
        uint8_t digest[KILN_SHA256_SIZE];
        char hex[2 * TAG_BYTES + 1];
        kiln_sha256(reply->body.at ? reply->body.at : "", reply->body.len, digest);
        kiln_hex(digest, TAG_BYTES, hex);
        snprintf(reply->etag, sizeof reply->etag, "\"%s\"", hex);
    }
    reply->zipped = takes_gzip && reply->body.len >= ZIP_BYTES_MIN && zip(&reply->body);
    size_t len = strlen(reply->etag);
    if (reply->zipped && len > 1 && len + 2 < sizeof reply->etag)
        memcpy(reply->etag + len - 1, "z\"", 3); /* other bytes, so another tag */
}

/* --- sending ---------------------------------------------------------------------------------- */

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static void add(struct MHD_Response *response, const char *name, const char *value)
{
    if (value && value[0])
        (void)MHD_add_response_header(response, name, value);
}

/* A small file is copied: with its header that is one packet, and less work than sendfile. */
static struct MHD_Response *make_whole(struct kiln_web_reply *reply)
{
    const size_t size = (size_t)reply->fd_size;
    char *copy = size > 0 && size <= COPY_MAX ? malloc(size) : NULL;
    const bool whole = copy && pread(reply->fd, copy, size, 0) == (ssize_t)size;
    struct MHD_Response *response =
        whole ? MHD_create_response_from_buffer(size, copy, MHD_RESPMEM_MUST_FREE)
              : MHD_create_response_from_fd_at_offset64(reply->fd_size, reply->fd, 0);
    if (whole && response)
        close(reply->fd);
    else
        free(copy);
    return response;
}

/* The file, or the part of it that was asked for. */
static struct MHD_Response *make_file(struct MHD_Connection *connection,
                                      struct kiln_web_reply *reply, uint64_t *ret_bytes)
{
    uint64_t first = 0, last = 0;
    char text[80];
    struct MHD_Response *response;
    enum kiln_web_range range = kiln_web_range_read(header_of(connection, MHD_HTTP_HEADER_RANGE),
                                                    header_of(connection, MHD_HTTP_HEADER_IF_RANGE),
                                                    reply->etag, reply->fd_size, &first, &last);
    if (range == KILN_WEB_RANGE_BEYOND) {
        reply->status = MHD_HTTP_RANGE_NOT_SATISFIABLE;
        *ret_bytes = 0;
        response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
        snprintf(text, sizeof text, "bytes */%" PRIu64, reply->fd_size);
    } else if (range == KILN_WEB_RANGE_PART) {
        reply->status = MHD_HTTP_PARTIAL_CONTENT;
        *ret_bytes = last - first + 1;
        response = MHD_create_response_from_fd_at_offset64(*ret_bytes, reply->fd, first);
        snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, last,
                 reply->fd_size);
    } else {
        *ret_bytes = reply->fd_size;
        response = make_whole(reply);
    }
    if (response && range != KILN_WEB_RANGE_BEYOND)
        reply->fd = -1; /* the response has it, or a copy */
    if (response && range != KILN_WEB_RANGE_NONE)
        add(response, MHD_HTTP_HEADER_CONTENT_RANGE, text);
    if (response)
        add(response, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
    return response;
}

static struct MHD_Response *make_body(struct kiln_web_reply *reply, uint64_t *ret_bytes)
{
    size_t len = reply->body.len;
    char *bytes = reply->body.at;
    struct MHD_Response *response =
        bytes ? MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_FREE)
              : MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    if (response)
        reply->body = (struct kiln_text){0};
    *ret_bytes = len;
    return response;
}

static void add_headers(struct MHD_Response *response, const struct kiln_web_reply *reply,
                        const char *policy)
{
    char text[256];
    add(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
    add(response, MHD_HTTP_HEADER_CACHE_CONTROL, reply->cache ? reply->cache : "private, no-cache");
    add(response, MHD_HTTP_HEADER_ETAG, reply->etag);
    add(response, MHD_HTTP_HEADER_LOCATION, reply->location);
    add(response, MHD_HTTP_HEADER_SET_COOKIE, reply->cookie);
    add(response, MHD_HTTP_HEADER_ALLOW, reply->allow);
    add(response, MHD_HTTP_HEADER_CONNECTION, reply->closes ? "close" : NULL);
    if (is_text(reply->type))
        add(response, MHD_HTTP_HEADER_VARY, "Cookie, Accept-Encoding");
    if (reply->zipped)
        add(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    if (reply->retry_after_s) {
        snprintf(text, sizeof text, "%u", reply->retry_after_s);
        add(response, MHD_HTTP_HEADER_RETRY_AFTER, text);
    }
    if (reply->file_name[0]) {
        snprintf(text, sizeof text, "attachment; filename=\"%s\"", reply->file_name);
        add(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, text);
    }
    add(response, "Content-Security-Policy", policy);
    add(response, "X-Content-Type-Options", "nosniff");
    /* Other sites learn nothing, and the forms of our own pages keep their Origin, which with
     * no-referrer would be "null". */
    add(response, "Referrer-Policy", "same-origin");
    add(response, "Cross-Origin-Resource-Policy", "same-origin");
    add(response, "Cross-Origin-Opener-Policy", "same-origin");
}

enum MHD_Result kiln_web_reply_send(struct MHD_Connection *connection, struct kiln_web_reply *reply,
                                    const char *policy, unsigned *ret_status, uint64_t *ret_bytes)
{
    reply->status = reply->status ? reply->status : MHD_HTTP_OK;
    const char *none_match = header_of(connection, MHD_HTTP_HEADER_IF_NONE_MATCH);
    bool same = reply->status == MHD_HTTP_OK && reply->etag[0] && none_match &&
                kiln_web_none_match(none_match, reply->etag);
    struct MHD_Response *response = NULL;
    *ret_bytes = 0;
    if (reply->stream) {
        response = kiln_web_stream_response(reply->stream, connection);
        reply->stream = NULL; /* the response frees it */
    } else if (reply->fd >= 0 && same) {
        response = MHD_create_response_from_fd_at_offset64(reply->fd_size, reply->fd, 0);
        if (response)
            reply->fd = -1;
    } else if (reply->fd >= 0) {
        response = make_file(connection, reply, ret_bytes);
    } else {
        response = make_body(reply, ret_bytes);
    }
    if (!response) {
        kiln_web_reply_release(reply);
        return MHD_NO;
    }
    if (same) {
        reply->status = MHD_HTTP_NOT_MODIFIED;
        *ret_bytes = 0;
    }
    add_headers(response, reply, policy);
    *ret_status = reply->status;
    enum MHD_Result result = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response);
    kiln_web_reply_release(reply);
    return result;
}

void kiln_web_reply_release(struct kiln_web_reply *reply)
{
    if (reply->fd >= 0)
        close(reply->fd);
    reply->fd = -1;
    kiln_web_stream_drop(reply->stream);
    reply->stream = NULL;
    kiln_text_release(&reply->body);
    free(reply->location);
    reply->location = NULL;
}
