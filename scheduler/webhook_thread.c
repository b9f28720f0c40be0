/* webhook_thread.c - the leader's third thread: tells URLs that a batch has ended.
 *
 * It runs only where webhook_hosts names a host.  One message at a time, ten seconds at most each,
 * over a connection of its own to the ledger, so it delays neither assigning nor the intake.  The
 * ledger has the messages that wait; a successor goes on with them.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/leader.h"
#include "schemas/clock.h"
#include "schemas/telemetry/log.h"
#include "schemas/text/utc.h"
#include "storage/ledger/queue/webhook.h"
#include "storage/webhook/webhook.h"

#define LOOK_MS 500
#define LOOK_COST 50 /* many waiting messages are looked at less often: 2 % of the time at most */
#define PIECE_MS 50
#define LEASE_S (2.0 * KILN_WEBHOOK_TRY_S) /* then another scheduler makes the attempt again */

struct thread {
    struct kiln_leader *leader;
    struct kiln_ledger *ledger;
    struct kiln_outage outage;
};

/* The body: malloc'd JSON, NULL without memory. */
static char *write_body(const char *pool, const struct kiln_webhook_row *row)
{
    char began[32], ended[32];
    json_t *jobs =
        json_pack("{s:I, s:I, s:I}", kiln_job_state_name(KILN_JOB_DONE), (json_int_t)row->done,
                  kiln_job_state_name(KILN_JOB_FAILED), (json_int_t)row->failed,
                  kiln_job_state_name(KILN_JOB_CANCELLED), (json_int_t)row->cancelled);
    json_t *body = json_pack(
        "{s:s, s:s, s:s, s:o, s:s?, s:s?}", "batch", row->batch, "pool", pool, "tenant",
        row->tenants, "jobs", jobs, "began",
        row->began_ms ? kiln_time_text(row->began_ms, began, sizeof began) : NULL, "ended",
        row->ended_ms ? kiln_time_text(row->ended_ms, ended, sizeof ended) : NULL);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

/* Notes in the ledger what came of the attempt; why is NULL after a success. */
static int note(struct thread *thread, const struct kiln_webhook_row *row,
                const struct kiln_error *why, struct kiln_error *err)
{
    char shown[KILN_WEBHOOK_SHOWN_MAX];
    uint32_t retry_s = why ? kiln_webhook_retry_s(row->tries, row->age_s) : 0;
    int rc =
        kiln_ledger_webhook_tried(thread->ledger, row->id, why ? why->text : NULL, retry_s, err);
    if (rc)
        return rc;
    enum kiln_webhook_result result = !why      ? KILN_WEBHOOK_DELIVERED
                                      : retry_s ? KILN_WEBHOOK_RETRIED
                                                : KILN_WEBHOOK_FAILED;
    kiln_metric_add(KILN_METRIC_WEBHOOKS, result, 1);
    kiln_log(result == KILN_WEBHOOK_FAILED    ? KILN_LOG_ERROR
             : result == KILN_WEBHOOK_RETRIED ? KILN_LOG_WARNING
                                              : KILN_LOG_INFO,
             result == KILN_WEBHOOK_FAILED    ? "webhook_failed"
             : result == KILN_WEBHOOK_RETRIED ? "webhook_tried"
                                              : "webhook_delivered",
             kiln_f("batch", "%s", row->batch), kiln_f("delivery", "%s", row->delivery),
             kiln_f("url", "%s", kiln_webhook_shown(row->url, shown)),
             kiln_f("tries", "%u", row->tries), kiln_f("error", "%s", why ? why->text : ""));
    return 0;
}

/* Makes one attempt if one is due. */
static int tell(struct thread *thread, bool *ret_found, struct kiln_error *err)
{
    const struct kiln_config *config = thread->leader->config;
    struct kiln_webhook_row row;
    struct kiln_error why;
    int rc = thread->ledger
                 ? 0
                 : kiln_ledger_open(config, "kiln-scheduler webhooks", &thread->ledger, err);
    rc = rc ? rc
            : kiln_ledger_webhook_take(thread->ledger, thread->leader->pool, LEASE_S, &row,
                                       ret_found, err);
    if (rc || !*ret_found)
        return rc;
    char *body = write_body(thread->leader->pool, &row);
    const struct kiln_webhook_message message = {
        .url = row.url,
        .delivery = row.delivery,
        .body = body,
        .hosts = kiln_config_text(config, KILN_KEY_WEBHOOK_HOSTS),
        .secret_file = kiln_config_text(config, KILN_KEY_WEBHOOK_SECRET_FILE)};
    int sent = body ? kiln_webhook_post(&message, &thread->leader->stop, &why)
                    : kiln_fail(&why, KILN_NO_MEMORY, "no memory for a message");
    free(body);
    return note(thread, &row, sent ? &why : NULL, err);
}

void *kiln_webhook_thread(void *arg)
{
    struct thread thread = {.leader = arg,
                            .outage = {.away = "webhooks_wait",
                                       .back = "webhooks_go_on",
                                       .effect = "webhooks are delayed"}};
    int64_t due_ms = 0;
    while (!atomic_load(&thread.leader->stop)) {
        struct kiln_error err;
        bool found = false;
        int64_t began_ms = kiln_clock_ms();
        if (began_ms < due_ms) {
            kiln_sleep_ms(PIECE_MS);
            continue;
        }
        if (tell(&thread, &found, &err)) { /* its duration is that of a time limit, not a cost */
            due_ms = kiln_clock_ms() + kiln_outage_fail(&thread.outage, &err);
            continue;
        }
        kiln_outage_over(&thread.outage);
        int64_t now_ms = kiln_clock_ms();
        due_ms = found ? now_ms : now_ms + LOOK_MS + LOOK_COST * (now_ms - began_ms);
    }
    kiln_ledger_close(thread.ledger);
    return NULL;
}
