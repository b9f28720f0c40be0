/* serve.c - see serve.h.
 *
 * The server answers from the moment it listens; a ledger that is away is a sentence on a page, not
 * a reason to end.  The main loop asks the ledger now and then, for health and the supervisor.
 */
#include "scheduler/gallery/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/gallery/follow.h"
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/app.h"
#include "scheduler/gallery/parts/files.h"
#include "scheduler/gallery/parts/layout.h"
#include "scheduler/gallery/web/attempts.h"
#include "scheduler/gallery/web/server.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "storage/daemon/exporter.h"
#include "storage/daemon/hardening.h"
#include "storage/daemon/health.h"
#include "storage/daemon/listen.h"
#include "storage/daemon/notify.h"
#include "storage/daemon/outage.h"
#include "storage/formats/replace.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/priority.h"

#define LOOK_NS 250000000L
#define PROBE_LIMIT_MS 2000
#define SILENCE_S 15 /* of the ledger, until /healthz complains */

struct gallery {
    struct kiln_cli *cli;
    struct kiln_web_access access;
    struct kiln_gallery_app app;
    struct kiln_web_site site;
    struct kiln_web_server *server;
    struct kiln_rater *rater;
    struct kiln_gallery_follow *follow;
    struct kiln_exporter *exporter;
    struct kiln_ledger *ledger; /* of the probe */
    struct kiln_outage outage;
    struct kiln_watchdog watchdog;
    int64_t probe_ms; /* when the ledger is asked next */
};

/* The tokens of readers and, where jobs are taken, of producers. */
static int read_tokens(struct gallery *gallery, struct kiln_error *err)
{
    const struct kiln_config *config = gallery->cli->config;
    const char *reader = kiln_config_text(config, KILN_KEY_GALLERY_TOKEN_FILE);
    const char *producer = kiln_config_text(config, KILN_KEY_GALLERY_PRODUCER_TOKEN_FILE);
    int rc = !reader[0] ? 0
                        : kiln_web_access_token(&gallery->access, KILN_WEB_READER,
                                                "gallery_token_file", reader, err);
    if (rc || strcmp(kiln_config_text(config, KILN_KEY_GALLERY_ENQUEUE), "on") != 0)
        return rc;
    if (!producer[0])
        return kiln_fail(err, KILN_CONFIG,
                         "a gallery that takes jobs needs gallery_producer_token_file: a file of "
                         "mode 600 whose first line is a token (openssl rand -hex 32)");
    return kiln_web_access_token(&gallery->access, KILN_WEB_PRODUCER, "gallery_producer_token_file",
                                 producer, err);
}

static int read_access(struct gallery *gallery, struct kiln_error *err)
{
    const struct kiln_config *config = gallery->cli->config;
    snprintf(gallery->access.proxy, sizeof gallery->access.proxy, "%s",
             kiln_config_text(config, KILN_KEY_GALLERY_PROXY));
    gallery->access.attempts = kiln_web_attempts_new();
    if (!gallery->access.attempts)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the limit of wrong tokens");
    int rc = kiln_web_access_hosts(&gallery->access,
                                   kiln_config_text(config, KILN_KEY_GALLERY_HOSTS), err);
    return rc ? rc : read_tokens(gallery, err);
}

/* Shows what the settings allow. */
void kiln_gallery_levels(const struct kiln_config *config, struct kiln_gallery_app *app)
{
    const char *level = kiln_config_text(config, KILN_KEY_GALLERY_LEVEL);
    for (int i = 0; i < KILN_SAFETY_LEVELS; i++)
        if (strcmp(level, kiln_safety_level_names[i]) == 0)
            app->level_max = i;
    app->show_unchecked = strcmp(kiln_config_text(config, KILN_KEY_GALLERY_UNCHECKED), "show") == 0;
    app->review = strcmp(kiln_config_text(config, KILN_KEY_GALLERY_REVIEW), "on") == 0;
}

static void collect(void *arg, struct kiln_text *text)
{
    struct gallery *gallery = arg;
    kiln_web_server_gauges(gallery->server, text);
    kiln_gallery_follow_gauges(gallery->follow, text);
    kiln_rater_gauges(gallery->rater, text);
    kiln_keeper_gauges(gallery->app.keeper, text);
    kiln_alike_gauges(gallery->app.alike, text);
}

/* A gallery works without its page of metrics, so a failure is only logged. */
static void open_metrics(struct gallery *gallery)
{
    struct kiln_error err;
    const struct kiln_exporter_page page = {.program = KILN_METRIC_OF_GALLERY,
                                            .name = "kiln-gallery",
                                            .pool = kiln_pool(gallery->cli),
                                            .collect = collect,
                                            .arg = gallery};
    if (kiln_exporter_start(gallery->cli->config, KILN_KEY_GALLERY_METRICS_PORT, &page,
                            &gallery->exporter, &err))
        kiln_log(KILN_LOG_WARNING, "metrics_off", kiln_f("error", "%s", err.text));
    else if (gallery->exporter)
        kiln_log(KILN_LOG_INFO, "metrics_on",
                 kiln_f("address", "%s",
                        kiln_config_text(gallery->cli->config, KILN_KEY_METRICS_ADDRESS)),
                 kiln_f("port", "%u", kiln_exporter_port(gallery->exporter)));
}

static int open_all(struct gallery *gallery, bool exact, struct kiln_error *err)
{
    struct kiln_gallery_app *app = &gallery->app;
    app->cli = gallery->cli;
    app->pool = kiln_pool(gallery->cli);
    app->access = &gallery->access;
    kiln_gallery_levels(gallery->cli->config, app);
    int rc = read_access(gallery, err);
    rc = rc ? rc : kiln_gallery_assets_load(app, err);
    rc = rc ? rc : kiln_gallery_files_open(gallery->cli->config, &app->files, err);
    rc = rc ? rc : kiln_keeper_new(gallery->cli->config, &app->keeper, err);
    rc = rc ? rc : kiln_alike_start(gallery->cli->config, &app->alike, err);
    rc = rc ? rc : kiln_rater_new(gallery->cli->config, &gallery->rater, err);
    rc = rc ? rc
            : kiln_ledger_open_reading(gallery->cli->config, "kiln-gallery", PROBE_LIMIT_MS,
                                       &gallery->ledger, err);
    if (rc)
        return rc;
    gallery->site = (struct kiln_web_site){.routes = kiln_gallery_routes,
                                           .fail = kiln_gallery_fail,
                                           .app = app,
                                           .image_origin = kiln_gallery_files_origin(app->files)};
    rc = kiln_web_server_start(gallery->cli->config, exact, &gallery->access, &gallery->site,
                               &gallery->server, err);
    return rc ? rc : kiln_gallery_follow_start(app, gallery->rater, &gallery->follow, err);
}

static void close_all(struct gallery *gallery)
{
    kiln_exporter_stop(gallery->exporter);
    kiln_web_server_stop(gallery->server);
    if (!kiln_gallery_follow_stop(gallery->follow) || !kiln_alike_stop(gallery->app.alike))
        _exit(EX_OK); /* all answers are sent, and nothing else is left to do */
    kiln_keeper_free(gallery->app.keeper);
    kiln_rater_free(gallery->rater);
    kiln_ledger_close(gallery->ledger);
    kiln_gallery_files_close(gallery->app.files);
    kiln_gallery_assets_release(&gallery->app);
    kiln_web_attempts_free(gallery->access.attempts);
}

/* --- while it runs ---------------------------------------------------------------------------- */

static void ask_ledger(struct gallery *gallery)
{
    struct kiln_error err;
    if (kiln_clock_ms() < gallery->probe_ms)
        return;
    int pause_ms = 2000;
    if (kiln_ledger_check(gallery->ledger, &err)) {
        pause_ms = kiln_outage_fail(&gallery->outage, &err);
    } else {
        kiln_outage_over(&gallery->outage);
        kiln_health_heard(KILN_PEER_LEDGER);
        kiln_health_starting(NULL);
    }
    gallery->probe_ms = kiln_clock_ms() + pause_ms;
}

/* On stdout, and into the file for whoever has started this. */
static int say_address(struct gallery *gallery, const char *file, struct kiln_error *err)
{
    const char *address = kiln_config_text(gallery->cli->config, KILN_KEY_GALLERY_ADDRESS);
    bool six = strchr(address, ':') != NULL;
    unsigned port = kiln_web_server_port(gallery->server);
    kiln_log(KILN_LOG_INFO, "gallery_ready", kiln_f("address", "%s", address),
             kiln_f("port", "%u", port), kiln_f("pool", "%s", kiln_pool(gallery->cli)));
    char url[128];
    snprintf(url, sizeof url, "http://%s%s%s:%u/\n", six ? "[" : "", address, six ? "]" : "", port);
    fputs(url, stdout);
    fflush(stdout);
    return file ? kiln_replace(file, url, 0644, err) : 0;
}

static void run(struct gallery *gallery)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    char health[256];
    (void)kiln_notify("READY=1");
    for (;;) {
        ask_ledger(gallery);
        bool well = kiln_health_check(health, sizeof health);
        kiln_notify_alive(&gallery->watchdog, true, well ? "serves" : health);
        if (sigtimedwait(&signals, NULL, &(struct timespec){.tv_nsec = LOOK_NS}) > 0)
            break;
    }
    (void)kiln_notify("STOPPING=1");
}

/* A descriptor a connection and one a file, whatever the shell allows by default. */
static void raise_files(void)
{
    struct rlimit limit;
    const rlim_t wanted = 2 * KILN_WEB_CONNECTIONS_MAX + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Commits of workers come first.  Before any thread, and before this process is hardened, which
 * closes /proc/self to it.  Best effort. */
static void lower(const struct kiln_config *config)
{
    const int nice = (int)kiln_config_int(config, KILN_KEY_GALLERY_NICE);
    for (int tries = 0; nice > 0 && tries < 5 && !kiln_lower(getpid(), nice); tries++) {
        if (errno != EAGAIN)
            return;
        kiln_sleep_s(0.1);
    }
}

static int serve(struct kiln_cli *cli, bool exact, const char *url_file)
{
    struct gallery *gallery = calloc(1, sizeof *gallery);
    struct kiln_error err;
    sigset_t signals;
    if (!gallery)
        return EX_OSERR;
    gallery->cli = cli;
    gallery->outage =
        (struct kiln_outage){KILN_OUTAGE_OF("ledger"), .effect = "pages say that it is away"};
    kiln_log_setup("kiln-gallery",
                   kiln_level_by_name(kiln_config_text(cli->config, KILN_KEY_LOG_LEVEL)),
                   kiln_config_text(cli->config, KILN_KEY_LOG_FORMAT)[0] == 'j');
    lower(cli->config);
    kiln_harden(cli->config);
    raise_files();
    /* Before any thread, so that this one alone receives them. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    kiln_health_starting("the ledger was not reached yet");
    kiln_health_expect(KILN_PEER_LEDGER, SILENCE_S);
    int rc = open_all(gallery, exact, &err);
    rc = rc ? rc : say_address(gallery, url_file, &err);
    int status = 0;
    if (rc) {
        status = kiln_report(cli, &err);
    } else {
        open_metrics(gallery);
        run(gallery);
        kiln_log(KILN_LOG_INFO, "gallery_ended");
    }
    close_all(gallery);
    free(gallery);
    return status;
}

int kiln_gallery_serve_verb(struct kiln_cli *cli, const struct kiln_args *args)
{
    const char *port = kiln_arg(args, "port");
    struct kiln_error err;
    if (args->rest_count > 1)
        return kiln_usage(cli, "serve takes no '%s'", args->rest[1]);
    if (port && kiln_config_set(cli->config, "gallery_port", port, "--port", &err))
        return kiln_usage(cli, "%s", err.text);
    if (kiln_arg(args, "allow-enqueue") &&
        kiln_config_set(cli->config, "gallery_enqueue", "on", "--allow-enqueue", &err))
        return kiln_usage(cli, "%s", err.text);
    return serve(cli, port != NULL, kiln_arg(args, "url-file"));
}
