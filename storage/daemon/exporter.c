/* exporter.c - libmicrohttpd in front of the metrics.
 *
 * A page is built whole in memory before a byte of it is sent: what collects it holds its locks
 * for microseconds, however slow the reader is.
 */
#include "storage/daemon/exporter.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/daemon/health.h"
#include "storage/daemon/listen.h"
#include "storage/daemon/process_stats.h"

#define CONNECTIONS_MAX 16
#define CONNECTION_BYTES ((size_t)16384)
#define IDLE_S 10
#define BACKLOG 16

struct kiln_exporter {
    struct kiln_exporter_page page;
    struct MHD_Daemon *daemon;
    uint16_t port;
};

/* --- pages ------------------------------------------------------------------------------------ */

static void write_own(const struct kiln_exporter *exporter, struct kiln_text *text)
{
    const struct kiln_exporter_page *page = &exporter->page;
    char why[256];
    const char *labels[] = {"program", page->name, "version", KILN_VERSION, NULL};
    kiln_metric_family(text, "kiln_build_info", "gauge", "Always 1; what runs here.");
    kiln_metric_sample(text, "kiln_build_info", labels, 1);
    kiln_metric_single(text, "kiln_healthy", "gauge", "1 if /healthz says ok.",
                       kiln_health_check(why, sizeof why));
    kiln_metric_single(text, "kiln_ready", "gauge", "1 if /readyz says ok.",
                       kiln_health_ready(why, sizeof why));
    kiln_metric_family(text, "kiln_poll_age_seconds", "gauge",
                       "Since the server last answered a poll.");
    for (int peer = 0; peer < KILN_PEER_COUNT; peer++) {
        const char *of[] = {"server", kiln_peer_name((enum kiln_peer)peer), NULL};
        double age_s = kiln_health_age_s((enum kiln_peer)peer);
        if (age_s >= 0)
            kiln_metric_sample(text, "kiln_poll_age_seconds", of, age_s);
    }
}

/* The whole page, malloc'd; NULL when memory is short. */
static char *write_metrics(const struct kiln_exporter *exporter)
{
    struct kiln_text text = {0};
    write_own(exporter, &text);
    kiln_process_stats(&text);
    kiln_metrics_write(&text, exporter->page.program);
    if (exporter->page.collect)
        exporter->page.collect(exporter->page.arg, &text);
    return kiln_text_take(&text);
}

static char *write_line(const char *line)
{
    struct kiln_text text = {0};
    kiln_text_printf(&text, "%s\n", line);
    return kiln_text_take(&text);
}

/* The body of a path and its status. */
static char *answer_path(const struct kiln_exporter *exporter, const char *path, unsigned *status)
{
    char why[256];
    *status = MHD_HTTP_OK;
    if (strcmp(path, "/metrics") == 0)
        return write_metrics(exporter);
    if (strcmp(path, "/livez") == 0)
        return write_line("ok");
    if (strcmp(path, "/readyz") == 0) {
        *status = kiln_health_ready(why, sizeof why) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
        return write_line(why);
    }
    if (strcmp(path, "/healthz") == 0) {
        *status = kiln_health_check(why, sizeof why) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
        return write_line(why);
    }
    *status = MHD_HTTP_NOT_FOUND;
    return write_line("there are /metrics, /healthz, /readyz and /livez");
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, char *body,
                             const char *type)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(body);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* The second call of a request has its whole header; a body is neither wanted nor read. */
static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    static int begun;
    unsigned status = MHD_HTTP_METHOD_NOT_ALLOWED;
    (void)version, (void)upload;
    if (!*state) {
        *state = &begun;
        return MHD_YES;
    }
    *upload_size = 0;
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    char *body = reads ? answer_path(arg, path, &status) : write_line("only GET and HEAD");
    bool metrics = reads && strcmp(path, "/metrics") == 0;
    return body ? reply(connection, status, body,
                        metrics ? "text/plain; version=0.0.4; charset=utf-8"
                                : "text/plain; charset=utf-8")
                : MHD_NO;
}

/* The library's own words go nowhere: it prints about every reader that hangs up. */
static void ignore_words(void *arg, const char *format, va_list args)
{
    (void)arg, (void)format, (void)args;
}

int kiln_exporter_start(const struct kiln_config *config, enum kiln_key port_key,
                        const struct kiln_exporter_page *page, struct kiln_exporter **ret,
                        struct kiln_error *err)
{
    const char *where = kiln_config_text(config, KILN_KEY_METRICS_ADDRESS);
    uint16_t wanted = (uint16_t)kiln_config_int(config, port_key);
    int fd = -1;
    *ret = NULL;
    if (wanted == 0)
        return 0;
    if (wanted <= UINT16_MAX - page->port_add)
        wanted = (uint16_t)(wanted + page->port_add);
    struct kiln_exporter *exporter = calloc(1, sizeof *exporter);
    if (!exporter)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the page of metrics");
    exporter->page = *page;
    kiln_metrics_pool(page->pool);
    const struct kiln_listen listen = {
        .address = where,
        .address_setting = kiln_keys[KILN_KEY_METRICS_ADDRESS].name,
        .port_setting = kiln_keys[port_key].name,
        .port = wanted,
        .ports = KILN_EXPORTER_PORTS,
        .backlog = BACKLOG,
    };
    int rc = kiln_listen(&listen, &exporter->port, &fd, err);
    if (rc == 0) {
        exporter->daemon = MHD_start_daemon(
            MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | MHD_USE_ERROR_LOG, 0, NULL, NULL,
            answer, exporter, MHD_OPTION_EXTERNAL_LOGGER, ignore_words, NULL,
            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
            (unsigned)IDLE_S, MHD_OPTION_END);
        if (!exporter->daemon) {
            close(fd);
            rc = kiln_fail(err, KILN_INTERNAL, "the HTTP server of %s does not start", where);
        }
    }
    if (rc) {
        free(exporter);
        return rc;
    }
    *ret = exporter;
    return 0;
}

void kiln_exporter_stop(struct kiln_exporter *exporter)
{
    if (!exporter)
        return;
    MHD_stop_daemon(exporter->daemon); /* closes the socket too */
    free(exporter);
}

uint16_t kiln_exporter_port(const struct kiln_exporter *exporter)
{
    return exporter->port;
}
