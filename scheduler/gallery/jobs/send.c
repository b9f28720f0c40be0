/* send.c - see send.h. */
#include "scheduler/gallery/jobs/send.h"

#include <string.h>

#include "schemas/names.h"
#include "schemas/telemetry/log.h"
#include "schemas/wire/wire.h"
#include "storage/webhook/webhook.h"

struct kiln_cli kiln_gallery_cli(const struct kiln_web_visit *visit)
{
    static const struct kiln_verb verb = {.name = "gallery"};
    return (struct kiln_cli){
        .verb = &verb, .config = visit->config, .json = true, .quiet = true, .silent = true};
}

static int check_batch(const char *batch, struct kiln_error *err)
{
    if (!batch)
        return 0;
    if (!kiln_name_valid(batch, strlen(batch), KILN_BATCH_NAME_MAX))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "batch is \"%.64s\"; a name has up to %d " KILN_NAME_RULE, batch,
                         KILN_BATCH_NAME_MAX);
    if (kiln_name_reserved(batch))
        return kiln_fail(err, KILN_BAD_INPUT, "batch is \"%.64s\"; " KILN_NAMES_RESERVED, batch);
    return 0;
}

/* The rule of `kiln enqueue`.  The error does not name the hosts that are allowed. */
static int check_on_done(const struct kiln_web_visit *visit, const char *url,
                         struct kiln_error *err)
{
    if (!url)
        return 0;
    if (strlen(url) > KILN_INTAKE_URL_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "on_done is longer than %d bytes",
                         KILN_INTAKE_URL_MAX);
    const char *hosts = kiln_config_text(visit->config, KILN_KEY_WEBHOOK_HOSTS);
    return kiln_webhook_check(url, hosts, err) ? kiln_fail_in(err, "on_done") : 0;
}

/* What a client may know of a server that does not answer; the log has the rest. */
static int explain(const struct kiln_enqueue_result *result, struct kiln_error *err)
{
    const int code = result->error.code;
    if (kiln_code_retry(code) == KILN_RETRY_NEVER || code == KILN_FULL)
        return kiln_fail(err, code, "%s", result->error.text);
    kiln_log(KILN_LOG_WARNING, "enqueue_failed", kiln_f("batch", "%s", result->batch),
             kiln_f("sent", "%llu", (unsigned long long)result->sent),
             kiln_f("error", "%s", result->error.text));
    if (result->sent == 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "Redis does not answer, or refuses; nothing was enqueued");
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "Redis stopped answering; a part of batch %s may be in the queue: send all of "
                     "it again to this batch, and only what is missing is added",
                     result->batch);
}

int kiln_gallery_send(struct kiln_web_visit *visit, struct kiln_enqueue_request *request,
                      struct kiln_enqueue_result *result, struct kiln_error *err)
{
    struct kiln_cli cli = kiln_gallery_cli(visit);
    memset(result, 0, sizeof *result);
    int rc = check_batch(request->batch, err);
    rc = rc ? rc : check_on_done(visit, request->on_done, err);
    if (rc) {
        kiln_input_close(request->input);
        return rc;
    }
    request->file = "-";
    request->no_files = true;
    (void)kiln_enqueue(&cli, request, result);
    if (result->error.code == 0 || (result->error.code == KILN_TIMEOUT && result->safe))
        return 0;
    return explain(result, err);
}
