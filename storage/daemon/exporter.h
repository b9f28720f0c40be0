/* exporter.h - a daemon's page for Prometheus, and its health, over HTTP.
 *
 *     GET /metrics   what metrics.h counted, the process itself, and what `collect` adds
 *     GET /healthz   200 "ok", or 503 and a sentence (health.h)
 *     GET /readyz    the same, and 503 while the program takes no work although all answer
 *     GET /livez     200 as long as the process answers
 *
 * One thread of libmicrohttpd with bounds on connections, memory and time, bound to loopback unless
 * metrics_address says otherwise.  The page has numbers and names of sizes, LoRA sets and
 * workers; never a prompt, an id or a secret.
 */
#ifndef KILN_EXPORTER_H
#define KILN_EXPORTER_H

#include "schemas/config/config.h"
#include "schemas/telemetry/metrics.h"

struct kiln_exporter;

struct kiln_exporter_page {
    enum kiln_metric_of program;
    const char *name; /* "kiln-scheduler"; must outlive the exporter */
    const char *pool; /* copied; the last label of every sample of this process */
    uint16_t port_add; /* to the port of the settings, so that a GPU's worker keeps its port */
    /* Appends metrics of its own; called in the exporter's thread.  May be NULL. */
    void (*collect)(void *arg, struct kiln_text *text);
    void *arg;
};

/* Listens on the port that the setting `port_key` names, or on the next free one of
 * KILN_EXPORTER_PORTS, since daemons of one kind share a host.  Port 0: *ret is
 * NULL. */
#define KILN_EXPORTER_PORTS 32
int kiln_exporter_start(const struct kiln_config *config, enum kiln_key port_key,
                        const struct kiln_exporter_page *page, struct kiln_exporter **ret,
                        struct kiln_error *err) KILN_MUST_CHECK;
/* Ends the thread; collect is then no longer called.  Accepts NULL. */
void kiln_exporter_stop(struct kiln_exporter *exporter);
uint16_t kiln_exporter_port(const struct kiln_exporter *exporter);

#endif
