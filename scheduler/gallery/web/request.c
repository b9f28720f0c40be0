/* request.c - see request.h. */
#include "scheduler/gallery/web/request.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "scheduler/gallery/web/attempts.h"
#include "scheduler/gallery/web/conditions.h"
#include "scheduler/gallery/web/reply.h"
#include "scheduler/gallery/web/spool.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"

#define FORM_TYPE "application/x-www-form-urlencoded"

struct kiln_web_request *kiln_web_request_new(const char *uri)
{
    struct kiln_web_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->visit.reply.fd = -1;
    request->target_code =
        kiln_web_target_parse(uri, strlen(uri), &request->target, &request->target_error);
    request->visit.path = request->target.path ? request->target.path : "";
    request->visit.args = &request->target.args;
    request->visit.form = &request->form.args;
    request->visit.wants_json = strncmp(uri, "/v1/", 4) == 0;
    return request;
}

void kiln_web_request_free(struct kiln_web_request *request)
{
    kiln_web_reply_release(&request->visit.reply);
    kiln_web_target_release(&request->target);
    kiln_web_target_release(&request->form);
    kiln_text_release(&request->body);
    kiln_web_spool_free(request->visit.spool);
    free(request);
}

static const char *header(const struct kiln_web_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* The address as digits, without a zone and with an IPv4 address in IPv6 as IPv4. */
static void write_address(const struct sockaddr *address, char *out, size_t size)
{
    char text[INET6_ADDRSTRLEN + 32] = "";
    socklen_t len =
        address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    (void)getnameinfo(address, len, text, sizeof text, NULL, 0, NI_NUMERICHOST);
    text[strcspn(text, "%")] = '\0';
    const char *from = strncmp(text, "::ffff:", 7) == 0 && strchr(text, '.') ? text + 7 : text;
    snprintf(out, size, "%.60s", from);
}

void kiln_web_request_begin(struct kiln_web_request *request, struct MHD_Connection *connection,
                            const char *method)
{
    const union MHD_ConnectionInfo *info;
    request->connection = connection;
    request->started_ms = kiln_clock_ms();
    request->fd = -1;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info)
        request->fd = info->connect_fd;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info)
        request->place = info->socket_context;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info)
        write_address(info->client_addr, request->peer, sizeof request->peer);
    snprintf(request->client, sizeof request->client, "%s", request->peer);
    request->visit.client = request->client;
    request->is_head = strcmp(method, "HEAD") == 0;
    request->visit.method = strcmp(method, "GET") == 0 || request->is_head ? KILN_WEB_GET
                            : strcmp(method, "POST") == 0                  ? KILN_WEB_POST
                                                                           : 0;
    request->visit.now_ms = kiln_wall_ms();
    request->takes_gzip = kiln_web_takes_gzip(header(request, MHD_HTTP_HEADER_ACCEPT_ENCODING));
}

/* The numeric address of our side of the connection. */
static void local_address(const struct kiln_web_request *request, char *out, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_in6 six;
    } at;
    socklen_t len = sizeof at;
    out[0] = '\0';
    if (request->fd >= 0 && getsockname(request->fd, &at.any, &len) == 0)
        write_address(&at.any, out, size);
}

/* Behind our proxy: the last address of X-Forwarded-For, the only one that the proxy itself has
 * written; those before it are the client's own words. */
static void read_client(struct kiln_web_request *request)
{
    const char *list = header(request, "X-Forwarded-For");
    const char *last = list ? strrchr(list, ',') : NULL;
    unsigned char bytes[16];
    char text[64];
    last = last ? last + 1 : list;
    if (!last)
        return;
    last += strspn(last, " \t");
    snprintf(text, sizeof text, "%.*s", (int)strcspn(last, " \t"), last);
    if (inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1)
        snprintf(request->client, sizeof request->client, "%s", text);
}

/* The right that the request shows: by a token, which may be a guess, or by a session. */
static unsigned read_right(struct kiln_web_request *request, const struct kiln_web_access *access,
                           struct kiln_error *err)
{
    struct kiln_web_visit *visit = &request->visit;
    const char *authorization = header(request, MHD_HTTP_HEADER_AUTHORIZATION);
    enum kiln_web_right by_session = kiln_web_session_right(
        access, MHD_lookup_connection_value(request->connection, MHD_COOKIE_KIND, KILN_WEB_COOKIE),
        visit->now_ms / 1000);
    const bool guesses =
        authorization && strncasecmp(authorization, "Bearer ", 7) == 0 &&
        (access->tokens[KILN_WEB_READER][0] || access->tokens[KILN_WEB_PRODUCER][0]);
    int64_t now_ms = kiln_clock_ms();
    if (guesses && !kiln_web_attempt_allowed(access->attempts, request->client, now_ms,
                                             &visit->reply.retry_after_s)) {
        kiln_fail(err, KILN_FULL, "too many wrong tokens from this address; wait %u s",
                  visit->reply.retry_after_s);
        return MHD_HTTP_TOO_MANY_REQUESTS;
    }
    enum kiln_web_right by_token =
        guesses ? kiln_web_bearer_right(access, authorization) : KILN_WEB_NOBODY;
    if (guesses)
        kiln_web_attempt_note(access->attempts, request->client, by_token != KILN_WEB_NOBODY,
                              now_ms);
    request->bearer = by_token != KILN_WEB_NOBODY;
    visit->by_cookie = by_session != KILN_WEB_NOBODY;
    visit->right = by_token > by_session ? by_token : by_session;
    return 0;
}

unsigned kiln_web_request_read(struct kiln_web_request *request,
                               const struct kiln_web_access *access, struct kiln_error *err)
{
    struct kiln_web_visit *visit = &request->visit;
    const char *host = header(request, MHD_HTTP_HEADER_HOST);
    char local[64];
    bool proxied = access->proxy[0] && strcmp(request->peer, access->proxy) == 0;
    if (request->target_code) {
        *err = request->target_error;
        return request->target_code == KILN_FULL ? MHD_HTTP_URI_TOO_LONG : MHD_HTTP_BAD_REQUEST;
    }
    if (proxied && header(request, "X-Forwarded-Host"))
        host = header(request, "X-Forwarded-Host");
    if (proxied && header(request, "X-Forwarded-Proto"))
        visit->secure = strcmp(header(request, "X-Forwarded-Proto"), "https") == 0;
    if (proxied)
        read_client(request);
    local_address(request, local, sizeof local);
    if (!kiln_web_host_allowed(access, host, local)) {
        kiln_fail(err, KILN_DENIED,
                  "this gallery does not answer under that name; add it to gallery_hosts");
        return MHD_HTTP_MISDIRECTED_REQUEST;
    }
    visit->host = host;
    visit->last_event_id = header(request, "Last-Event-ID");
    unsigned status = read_right(request, access, err);
    if (status)
        return status;
    if (visit->right != KILN_WEB_NOBODY)
        visit->signed_in = true;
    else if (!access->tokens[KILN_WEB_READER][0])
        visit->signed_in = access->proxy[0] == '\0' || proxied;
    if (!visit->signed_in && !access->tokens[KILN_WEB_READER][0]) {
        kiln_fail(err, KILN_DENIED, "this gallery is reached through its proxy only");
        return MHD_HTTP_FORBIDDEN;
    }
    return 0;
}

/* --- the body of a POST ----------------------------------------------------------------------- */

static bool post_is(const struct kiln_web_request *request, enum kiln_web_post what)
{
    const struct kiln_web_route *route = request->visit.route;
    return (route->methods & what) != 0;
}

static unsigned long body_limit(const struct kiln_web_request *request)
{
    return post_is(request, KILN_WEB_LONG) ? (unsigned long)KILN_WEB_SPOOL_MAX : KILN_WEB_FORM_MAX;
}

static unsigned refuse_length(const struct kiln_web_request *request, struct kiln_error *err)
{
    kiln_fail(err, KILN_FULL, "%s has at most %lu bytes",
              post_is(request, KILN_WEB_LONG) ? "a body" : "a form", body_limit(request));
    return MHD_HTTP_CONTENT_TOO_LARGE;
}

unsigned kiln_web_request_check_post(struct kiln_web_request *request, struct kiln_error *err)
{
    const char *type = header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    const char *length = header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!kiln_web_origin_allowed(header(request, "Sec-Fetch-Site"),
                                 header(request, MHD_HTTP_HEADER_ORIGIN), request->visit.host,
                                 request->bearer)) {
        kiln_fail(err, KILN_DENIED, "this was not sent by a page of this gallery");
        return MHD_HTTP_FORBIDDEN;
    }
    request->visit.body_type = type ? type : "";
    if (!post_is(request, KILN_WEB_LONG) && !post_is(request, KILN_WEB_NO_BODY) &&
        strncasecmp(request->visit.body_type, FORM_TYPE, strlen(FORM_TYPE)) != 0) {
        kiln_fail(err, KILN_BAD_INPUT, "a form is sent as " FORM_TYPE);
        return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    }
    if (length && (strlen(length) > 9 || strtoul(length, NULL, 10) > body_limit(request)))
        return refuse_length(request, err);
    if (post_is(request, KILN_WEB_LONG) && kiln_web_spool_new(&request->visit.spool, err))
        return kiln_web_status(err->code);
    return 0;
}

void kiln_web_request_take(struct kiln_web_request *request, const char *bytes, size_t len)
{
    request->body_bytes += len;
    if (request->visit.method != KILN_WEB_POST || request->body_error.code)
        return; /* of a GET, or the rest of a bad one: read over */
    if (request->visit.spool) {
        if (kiln_web_spool_add(request->visit.spool, bytes, len, &request->body_error))
            return;
    } else if (request->body_bytes > KILN_WEB_FORM_MAX) {
        (void)refuse_length(request, &request->body_error);
    } else {
        kiln_text_add(&request->body, bytes, len);
    }
}

unsigned kiln_web_request_read_body(struct kiln_web_request *request, struct kiln_error *err)
{
    if (request->body_error.code) {
        *err = request->body_error;
        return err->code == KILN_IO ? MHD_HTTP_INTERNAL_SERVER_ERROR : MHD_HTTP_CONTENT_TOO_LARGE;
    }
    if (post_is(request, KILN_WEB_LONG) || post_is(request, KILN_WEB_NO_BODY))
        return 0;
    const char *text = request->body.at ? request->body.at : "";
    return kiln_web_form_parse(text, request->body.len, &request->form, err) ? MHD_HTTP_BAD_REQUEST
                                                                             : 0;
}

void kiln_web_request_note(const struct kiln_web_request *request, bool completed)
{
    const struct kiln_web_route *route = request->visit.route;
    uint32_t kind = route ? route->metric : KILN_WEB_KIND_OTHER;
    int64_t took_ms = kiln_clock_ms() - request->started_ms;
    kiln_metric_observe(KILN_METRIC_GALLERY_SECONDS, kind, (double)took_ms / 1e3);
    kiln_metric_add(KILN_METRIC_GALLERY_ANSWERS, request->status / 100, 1);
    kiln_metric_add(KILN_METRIC_GALLERY_BYTES, 0, request->is_head ? 0 : request->bytes);
    bool file = kind == KILN_WEB_KIND_FILE && request->status < 400;
    kiln_log(file ? KILN_LOG_DEBUG : KILN_LOG_INFO, "request",
             kiln_f("method", "%s",
                    request->is_head                         ? "HEAD"
                    : request->visit.method == KILN_WEB_GET  ? "GET"
                    : request->visit.method == KILN_WEB_POST ? "POST"
                                                             : "other"),
             kiln_f("path", "%.200s", request->visit.path), kiln_f("status", "%u", request->status),
             kiln_f("bytes", "%llu", (unsigned long long)request->bytes),
             kiln_f("ms", "%lld", (long long)took_ms), kiln_f("peer", "%s", request->client),
             kiln_f("whole", "%s", completed ? "yes" : "no"));
}

unsigned kiln_web_status(int code)
{
    switch (code) {
    case KILN_BAD_INPUT:
        return MHD_HTTP_BAD_REQUEST;
    case KILN_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case KILN_DENIED:
        return MHD_HTTP_FORBIDDEN;
    case KILN_FULL:
    case KILN_UNAVAILABLE:
    case KILN_TIMEOUT:
    case KILN_CANCELLED:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

/* --- visit.h ---------------------------------------------------------------------------------- */

int kiln_web_redirect(struct kiln_web_visit *visit, const char *location, struct kiln_error *err)
{
    visit->reply.status = MHD_HTTP_SEE_OTHER;
    visit->reply.cache = "no-store";
    visit->reply.location = strdup(location);
    return visit->reply.location ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for an address");
}

int kiln_web_not_found(const struct kiln_web_visit *visit, struct kiln_error *err)
{
    (void)visit;
    return kiln_fail(err, KILN_NOT_FOUND, "there is no page at this address");
}

const char *kiln_web_rest(const struct kiln_web_visit *visit)
{
    const struct kiln_web_route *route = visit->route;
    return visit->path + strlen(route->path);
}
