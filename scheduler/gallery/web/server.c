/* server.c - see server.h.
 *
 * The raw request line is read in read_target, before libmicrohttpd decodes it.  A request lives
 * from there to note_end.  While it is suspended only its worker touches it.
 */
#include "scheduler/gallery/web/server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/gallery/web/conditions.h"
#include "scheduler/gallery/web/connections.h"
#include "scheduler/gallery/web/reply.h"
#include "scheduler/gallery/web/request.h"
#include "scheduler/gallery/web/streams.h"
#include "scheduler/gallery/web/work.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/telemetry/metrics.h"
#include "storage/daemon/listen.h"

#define POOL_THREADS 2
#define CONNECTION_BYTES ((size_t)16384)
#define IDLE_S 20
#define BACKLOG 256
#define SEND_LOOK_NS 5000000L

struct kiln_web_server {
    const struct kiln_web_access *access;
    const struct kiln_web_site *site;
    struct kiln_web_connections *connections;
    struct kiln_web_work *work, *sending; /* pages, and whatever enqueues jobs */
    struct kiln_web_streams *streams;
    struct MHD_Daemon *daemon;
    atomic_uint unfinished; /* requests between their header and the last byte of their answer */
    atomic_bool ending;
    char policy[KILN_WEB_POLICY_MAX];
    uint16_t port;
};

/* --- the two ways of answering ---------------------------------------------------------------- */

static void fail(struct kiln_web_server *server, struct kiln_web_request *request,
                 const struct kiln_error *err)
{
    struct kiln_web_reply *reply = &request->visit.reply;
    const char *allow = reply->allow;
    const unsigned retry_after_s = reply->retry_after_s;
    const bool own_words = reply->own_words;
    const unsigned status = request->status ? request->status : reply->status;
    kiln_web_reply_release(reply);
    *reply = (struct kiln_web_reply){.fd = -1,
                                     .status = status ? status : kiln_web_status(err->code),
                                     .allow = allow,
                                     .retry_after_s = retry_after_s,
                                     .own_words = own_words};
    if (reply->status == MHD_HTTP_SERVICE_UNAVAILABLE)
        reply->retry_after_s = 2;
    if (reply->status >= 500)
        kiln_log(KILN_LOG_WARNING, "request_failed", kiln_f("path", "%s", request->visit.path),
                 kiln_f("error", "%s", err->text));
    server->site->fail(&request->visit, err);
    kiln_web_reply_finish(reply, request->takes_gzip);
}

/* Runs one handler; KILN_WEB_LATER is passed on. */
static int handle(struct kiln_web_server *server, struct kiln_web_request *request,
                  kiln_web_handler *handler)
{
    struct kiln_error err = {0};
    int rc = handler(&request->visit, &err);
    if (rc == KILN_WEB_LATER)
        return rc;
    if (rc == 0 && request->visit.reply.body.failed)
        rc = kiln_fail(&err, KILN_NO_MEMORY, "no memory for the page");
    if (rc)
        fail(server, request, &err);
    else
        kiln_web_reply_finish(&request->visit.reply, request->takes_gzip);
    return 0;
}

/* In a worker. */
static void answer_later(void *arg, struct kiln_web_item *item,
                         const struct kiln_web_sessions *sessions, const struct kiln_error *refused)
{
    struct kiln_web_server *server = arg;
    struct kiln_web_request *request = (struct kiln_web_request *)item;
    const struct kiln_web_route *route = request->visit.route;
    char byte;
    /* Nobody notices that the client of a suspended request has gone: ask the socket. */
    bool gone = recv(request->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    if (refused || gone) {
        struct kiln_error err = {.code = KILN_CANCELLED, .text = "the client has gone"};
        fail(server, request, refused ? refused : &err);
    } else {
        request->visit.session = sessions->reader;
        request->visit.writer = sessions->writer;
        request->visit.config = kiln_web_work_config(server->work);
        request->visit.streams = server->streams;
        (void)handle(server, request, route->slow);
    }
    request->ready = true;
    MHD_resume_connection(request->connection);
}

static enum MHD_Result send_reply(struct kiln_web_server *server, struct kiln_web_request *request)
{
    uint64_t bytes = 0;
    if (request->visit.reply.stream)
        kiln_web_stream_watch(request->visit.reply.stream, server->connections, request->place);
    request->visit.reply.closes = atomic_load(&server->ending);
    enum MHD_Result result = kiln_web_reply_send(request->connection, &request->visit.reply,
                                                 server->policy, &request->status, &bytes);
    request->bytes = bytes;
    kiln_web_connection_expect(server->connections, request->place,
                               KILN_WEB_READ_MS + (int64_t)(bytes / KILN_WEB_READ_BYTES_MS));
    return result;
}

static enum MHD_Result send_failure(struct kiln_web_server *server,
                                    struct kiln_web_request *request, unsigned status,
                                    const struct kiln_error *err)
{
    request->status = status;
    fail(server, request, err);
    return send_reply(server, request);
}

/* --- a request -------------------------------------------------------------------------------- */

static const struct kiln_web_route *find_route(const struct kiln_web_site *site, const char *path)
{
    for (const struct kiln_web_route *route = site->routes; route->path; route++) {
        size_t len = strlen(route->path);
        bool below = len > 1 && route->path[len - 1] == '/';
        if (below ? strncmp(path, route->path, len) == 0 && path[len]
                  : strcmp(path, route->path) == 0)
            return route;
    }
    return NULL;
}

/* Whether this visitor may enqueue. */
static unsigned check_producer(const struct kiln_web_server *server,
                               const struct kiln_web_visit *visit, struct kiln_error *err)
{
    if (!server->access->tokens[KILN_WEB_PRODUCER][0]) {
        kiln_fail(err, KILN_DENIED,
                  "this gallery takes no jobs; `kiln gallery serve "
                  "--allow-enqueue` does");
        return MHD_HTTP_FORBIDDEN;
    }
    if (visit->right == KILN_WEB_PRODUCER)
        return 0;
    kiln_fail(err, KILN_DENIED, "this needs the token of a producer (gallery_producer_token_file)");
    return visit->right == KILN_WEB_NOBODY ? MHD_HTTP_UNAUTHORIZED : MHD_HTTP_FORBIDDEN;
}

/* All that is decided from the header; 0, or the status of a refusal. */
static unsigned admit(struct kiln_web_server *server, struct kiln_web_request *request,
                      struct kiln_error *err)
{
    struct kiln_web_visit *visit = &request->visit;
    unsigned status = kiln_web_request_read(request, server->access, err);
    if (status)
        return status;
    const struct kiln_web_route *route = find_route(server->site, visit->path);
    if (!route) {
        (void)kiln_web_not_found(visit, err);
        return visit->signed_in ? MHD_HTTP_NOT_FOUND : MHD_HTTP_UNAUTHORIZED;
    }
    visit->route = route;
    if (!(route->methods & visit->method)) {
        visit->reply.allow = !(route->methods & KILN_WEB_GET)   ? "POST"
                             : (route->methods & KILN_WEB_POST) ? "GET, HEAD, POST"
                                                                : "GET, HEAD";
        kiln_fail(err, KILN_UNSUPPORTED, "this address takes %s only", visit->reply.allow);
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    if (!visit->signed_in && !route->open) {
        kiln_fail(err, KILN_DENIED, "sign in to see this gallery");
        return MHD_HTTP_UNAUTHORIZED;
    }
    if (visit->method != KILN_WEB_POST)
        return 0;
    status = route->methods & KILN_WEB_JOBS ? check_producer(server, visit, err) : 0;
    return status ? status : kiln_web_request_check_post(request, err);
}

/* The whole request is here. */
static enum MHD_Result dispatch(struct kiln_web_server *server, struct kiln_web_request *request)
{
    const struct kiln_web_route *route = request->visit.route;
    struct kiln_error err = {0};
    kiln_web_connection_expect(server->connections, request->place, KILN_WEB_ANSWER_MS);
    if (request->visit.method == KILN_WEB_POST) {
        unsigned status = kiln_web_request_read_body(request, &err);
        if (status)
            return send_failure(server, request, status, &err);
    }
    if (route->quick && handle(server, request, route->quick) != KILN_WEB_LATER)
        return send_reply(server, request);
    bool sends = request->visit.method == KILN_WEB_POST && route->methods & KILN_WEB_JOBS;
    struct kiln_web_work *work = sends ? server->sending : server->work;
    if (!kiln_web_work_reserve(work)) {
        kiln_fail(&err, KILN_FULL, "too many requests are waiting for the ledger");
        return send_failure(server, request, MHD_HTTP_SERVICE_UNAVAILABLE, &err);
    }
    request->item.writes = request->visit.method == KILN_WEB_POST;
    MHD_suspend_connection(request->connection);
    kiln_web_work_push(work, &request->item);
    return MHD_YES;
}

/* A body has longer the more of it has come; one that nobody will read has no longer. */
static void expect_rest(struct kiln_web_server *server, struct kiln_web_request *request)
{
    int64_t limit_ms = KILN_WEB_BODY_MS + (int64_t)(request->body_bytes / KILN_WEB_BODY_BYTES_MS);
    if (request->body_error.code == 0)
        kiln_web_connection_expect(server->connections, request->place,
                                   request->started_ms + limit_ms - kiln_clock_ms());
}

/* Called with the header, then with pieces of a body, then with nothing more to come, and once more
 * after a resume. */
static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct kiln_web_server *server = arg;
    struct kiln_web_request *request = *state;
    (void)path, (void)version;
    if (!request)
        return MHD_NO; /* no memory for it */
    if (!request->begun) {
        struct kiln_error err = {0};
        request->begun = true;
        atomic_fetch_add(&server->unfinished, 1);
        kiln_web_request_begin(request, connection, method);
        kiln_web_connection_expect(server->connections, request->place, KILN_WEB_BODY_MS);
        request->visit.app = server->site->app;
        unsigned status = admit(server, request, &err);
        return status ? send_failure(server, request, status, &err) : MHD_YES;
    }
    if (*upload_size > 0) {
        kiln_web_request_take(request, upload, *upload_size);
        expect_rest(server, request);
        *upload_size = 0;
        return MHD_YES;
    }
    return request->ready ? send_reply(server, request) : dispatch(server, request);
}

/* --- what libmicrohttpd tells us -------------------------------------------------------------- */

static void *read_target(void *arg, const char *uri, struct MHD_Connection *connection)
{
    (void)arg, (void)connection;
    return kiln_web_request_new(uri);
}

static void note_end(void *arg, struct MHD_Connection *connection, void **state,
                     enum MHD_RequestTerminationCode how)
{
    struct kiln_web_server *server = arg;
    struct kiln_web_request *request = *state;
    (void)connection;
    if (!request)
        return;
    kiln_web_connection_expect(server->connections, request->place, KILN_WEB_HEADER_MS);
    if (request->begun) {
        kiln_web_request_note(request, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
        atomic_fetch_sub(&server->unfinished, 1);
    }
    kiln_web_request_free(request);
    *state = NULL;
}

static void note_connection(void *arg, struct MHD_Connection *connection, void **place,
                            enum MHD_ConnectionNotificationCode what)
{
    struct kiln_web_server *server = arg;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED)
        kiln_web_connection_remove(server->connections, *place);
    *place = what == MHD_CONNECTION_NOTIFY_STARTED && info
                 ? kiln_web_connection_add(server->connections, info->connect_fd)
                 : NULL;
}

/* The library's own words go nowhere: it prints about every reader that hangs up. */
static void ignore_words(void *arg, const char *format, va_list args)
{
    (void)arg, (void)format, (void)args;
}

/* --- beginning and end ------------------------------------------------------------------------ */

static int start_daemon(struct kiln_web_server *server, int fd, struct kiln_error *err)
{
    bool proxied = server->access->proxy[0] != '\0';
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        answer, server, MHD_OPTION_EXTERNAL_LOGGER, ignore_words, NULL, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)POOL_THREADS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)KILN_WEB_CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        proxied ? 0U : (unsigned)KILN_WEB_CONNECTIONS_PER_ADDRESS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, read_target,
        server, MHD_OPTION_NOTIFY_COMPLETED, note_end, server, MHD_OPTION_NOTIFY_CONNECTION,
        note_connection, server, MHD_OPTION_END);
    return server->daemon ? 0
                          : kiln_fail(err, KILN_INTERNAL,
                                      "the HTTP server of the gallery does not "
                                      "start");
}

static int listen_at(const struct kiln_config *config, bool exact, struct kiln_web_server *server,
                     int *ret_fd, struct kiln_error *err)
{
    const char *address = kiln_config_text(config, KILN_KEY_GALLERY_ADDRESS);
    struct kiln_listen wanted = {
        .address = address,
        .address_setting = "gallery_address",
        .port_setting = "gallery_port",
        .port = (uint16_t)kiln_config_int(config, KILN_KEY_GALLERY_PORT),
        .ports = exact ? 1 : KILN_WEB_PORTS,
        .backlog = BACKLOG,
    };
    if (!kiln_address_is_loopback(address) && !server->access->tokens[KILN_WEB_READER][0] &&
        !server->access->proxy[0])
        return kiln_fail(err, KILN_CONFIG,
                         "gallery_address %s can be reached from other machines: set "
                         "gallery_token_file, or gallery_proxy for a proxy that signs people in",
                         address);
    int rc = kiln_listen(&wanted, &server->port, ret_fd, err);
    if (rc != KILN_EXISTS || exact)
        return rc;
    wanted.port = 0; /* many galleries on this machine: any port */
    return kiln_listen(&wanted, &server->port, ret_fd, err);
}

int kiln_web_server_start(const struct kiln_config *config, bool exact,
                          const struct kiln_web_access *access, const struct kiln_web_site *site,
                          struct kiln_web_server **ret, struct kiln_error *err)
{
    static const struct kiln_web_work_limits pages = {KILN_WEB_WORKERS, KILN_WEB_QUEUE_MAX,
                                                      KILN_WEB_PATIENCE_MS};
    static const struct kiln_web_work_limits senders = {KILN_WEB_SENDERS, KILN_WEB_SENDING_MAX,
                                                        KILN_WEB_SENDING_MS};
    struct kiln_web_server *server = calloc(1, sizeof *server);
    int fd = -1;
    if (!server)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the server");
    server->access = access;
    server->site = site;
    kiln_web_policy(site->image_origin, server->policy);
    int rc = listen_at(config, exact, server, &fd, err);
    rc = rc ? rc : kiln_web_connections_new(&server->connections, err);
    rc = rc ? rc : kiln_web_work_new(config, &pages, answer_later, server, &server->work, err);
    rc = rc ? rc : kiln_web_work_new(config, &senders, answer_later, server, &server->sending, err);
    rc = rc ? rc : kiln_web_streams_new(config, &server->streams, err);
    rc = rc ? rc : start_daemon(server, fd, err);
    if (rc) {
        if (fd >= 0)
            close(fd);
        kiln_web_server_stop(server);
        return rc;
    }
    *ret = server;
    return 0;
}

uint16_t kiln_web_server_port(const struct kiln_web_server *server)
{
    return server->port;
}

void kiln_web_server_gauges(struct kiln_web_server *server, struct kiln_text *text)
{
    kiln_metric_single(text, "kiln_gallery_connections", "gauge", "Open connections.",
                       kiln_web_connections_count(server->connections));
    kiln_metric_single(text, "kiln_gallery_connections_cut_total", "counter",
                       "Connections closed because the client was too slow.",
                       (double)kiln_web_connections_cut(server->connections));
    kiln_metric_single(text, "kiln_gallery_waiting", "gauge",
                       "Requests that wait for a session of the ledger.",
                       kiln_web_work_waiting(server->work));
    kiln_metric_single(text, "kiln_gallery_streams", "gauge", "Open streams of events.",
                       kiln_web_streams_count(server->streams));
}

/* MHD_stop_daemon cuts whatever is not sent: waits until all answers are, also the ends of streams.
 */
static void send_rest(struct kiln_web_server *server)
{
    const int64_t until_ms = kiln_clock_ms() + KILN_WEB_END_MS;
    while (atomic_load(&server->unfinished) > 0 && kiln_clock_ms() < until_ms)
        nanosleep(&(struct timespec){.tv_nsec = SEND_LOOK_NS}, NULL);
}

/* Suspended requests must be resumed before the daemon is stopped: first no new connections, then
 * the workers answer what they have and refuse the rest. */
void kiln_web_server_stop(struct kiln_web_server *server)
{
    if (!server)
        return;
    MHD_socket fd = server->daemon ? MHD_quiesce_daemon(server->daemon) : MHD_INVALID_SOCKET;
    atomic_store(&server->ending, true);
    if (server->work)
        kiln_web_work_stop(server->work);
    if (server->sending)
        kiln_web_work_stop(server->sending);
    if (server->streams)
        kiln_web_streams_stop(server->streams);
    send_rest(server);
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
    kiln_web_streams_free(server->streams);
    kiln_web_work_free(server->work);
    kiln_web_work_free(server->sending);
    kiln_web_connections_free(server->connections);
    free(server);
}
