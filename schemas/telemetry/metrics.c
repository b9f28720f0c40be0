/* metrics.c - the table of metrics and the numbers behind it.
 *
 * Every number is an atomic of its own and is added to without order: a reader may see a value in
 * its bucket and not yet in the sum, never a torn one.  Sums are kept in billionths, since whole
 * numbers can be added atomically and lose nothing however many there are.
 */
#include "schemas/telemetry/metrics.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>

#include "schemas/error.h"
#include "schemas/telemetry/metrics_table.h"

#define UNIT 1e9 /* of sums */

static const char *const levels[] = {"error", "warning", "info", "debug", NULL};
static const char *const ledger_ways[] = {"statement", "pipeline", "walk", NULL};
static const char *const store_ways[] = {"put", "get", "head", "delete", "list", NULL};
static const char *const intake_results[] = {"inserted", "duplicate", "refused", "set_aside", NULL};
static const char *const undelivered[] = {"receipt", "refused", NULL};
static const char *const webhook_results[] = {"delivered", "retried", "failed", NULL};
static const char *const rules[] = {"overdue", "stay", "open", "join", NULL};
static const char *const switch_kinds[] = {"resident", "warm", "cold", NULL};
static const char *const lora_sources[] = {"ready", "read", NULL};
static const char *const text_sources[] = {"ready", "encoded", NULL};
static const char *const causes[] = {"crashed",    "unbegun", "missing", "unsent",
                                     "taken_back", "refused", NULL};
static const char *const lookups[] = {"miss", "hit", NULL};
static const char *const classes[] = {"same_prompt", "canonical", "reworded", "donor_says_more",
                                      NULL};
static const char *const reuses[] = {"began", "missing",    "damaged", "unfit",  "odd",
                                     "away",  "unmeasured", "unlike",  "slower", NULL};
static const char *const ends[] = {"done", "failed", "returned", "cancelled", "dropped", NULL};
static const char *const stages[] = {"wait",   "text",   "denoise", "decode",
                                     "encode", "upload", "commit",  NULL};

static const char *const web_kinds[] = {"page", "api", "file", "asset", "other", NULL};
static const char *const statuses[] = {"0xx", "1xx", "2xx", "3xx", "4xx", "5xx", NULL};

/* Servers answer within milliseconds or are in trouble; stages last from one to minutes. */
static const double answers[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                 0.25,   0.5,   1,      2.5,   5,    10,    30,   0};
static const double stretches[] = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                   2.5,   5,     10,   30,    60,   300, 1800, 0};
static const double moments[] = {1e-5,   2.5e-5, 5e-5, 1e-4,  2.5e-4, 5e-4, 0.001,
                                 0.0025, 0.005,  0.01, 0.025, 0.05,   0};
static const double sizes[] = {1, 2, 4, 8, 16, 32, 64, 0};
static const double shares[] = {0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 0};
static const double steps[] = {0.25, 0.5, 0.75, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 0};

const struct kiln_metric_row kiln_metric_rows[KILN_METRIC_COUNT] = {
    [KILN_METRIC_LOG_LINES] = {"kiln_log_lines_total", "Lines logged, by level.",
                               KILN_METRIC_OF_BOTH, "level", levels, NULL},
    [KILN_METRIC_LEDGER_SECONDS] = {"kiln_ledger_request_seconds",
                                    "Time of requests to Postgres, retries included.",
                                    KILN_METRIC_OF_BOTH, "way", ledger_ways, answers},
    [KILN_METRIC_LEDGER_ERRORS] = {"kiln_ledger_errors_total", "Requests to Postgres that failed.",
                                   KILN_METRIC_OF_BOTH, "code", NULL, NULL},
    [KILN_METRIC_STORE_SECONDS] = {"kiln_store_request_seconds",
                                   "Time of requests to the object store; put: a group of objects.",
                                   KILN_METRIC_OF_WORKER, "operation", store_ways, answers},
    [KILN_METRIC_STORE_ERRORS] = {"kiln_store_errors_total",
                                  "Requests to the object store that failed, retries exhausted.",
                                  KILN_METRIC_OF_WORKER, "code", NULL, NULL},
    [KILN_METRIC_STORE_RETRIES] = {"kiln_store_retries_total",
                                   "Requests that were sent to S3 once more.",
                                   KILN_METRIC_OF_WORKER, NULL, NULL, NULL},
    [KILN_METRIC_STORE_BYTES] = {"kiln_store_written_bytes_total",
                                 "Bytes of objects that are durable.", KILN_METRIC_OF_WORKER, NULL,
                                 NULL, NULL},
    [KILN_METRIC_RETRIES] = {"kiln_job_retries_total",
                             "Jobs put back into the queue after a failure.", KILN_METRIC_OF_BOTH,
                             "code", NULL, NULL},
    [KILN_METRIC_FAILURES] = {"kiln_job_failures_total", "Jobs that have failed for good.",
                              KILN_METRIC_OF_BOTH, "code", NULL, NULL},
    [KILN_METRIC_STEP_SECONDS] = {"kiln_scheduler_step_seconds",
                                  "Work of one round of the leader, waiting not counted.",
                                  KILN_METRIC_OF_SCHEDULER, NULL, NULL, answers},
    [KILN_METRIC_INTAKE] = {"kiln_intake_jobs_total", "Jobs taken from the intake stream.",
                            KILN_METRIC_OF_SCHEDULER, "result", intake_results, NULL},
    [KILN_METRIC_UNDELIVERED] = {"kiln_undelivered_total",
                                 "Messages to one client that Redis did not take, dropped.",
                                 KILN_METRIC_OF_SCHEDULER, "what", undelivered, NULL},
    [KILN_METRIC_WEBHOOKS] = {"kiln_webhooks_total",
                              "Attempts to tell a URL that a batch has ended.",
                              KILN_METRIC_OF_SCHEDULER, "result", webhook_results, NULL},
    [KILN_METRIC_ASSIGNMENTS] = {"kiln_assignments_total",
                                 "Batches assigned, by the rule of the policy.",
                                 KILN_METRIC_OF_SCHEDULER, "rule", rules, NULL},
    [KILN_METRIC_ASSIGNMENT_JOBS] = {"kiln_assignment_jobs", "Jobs of a batch handed out.",
                                     KILN_METRIC_OF_SCHEDULER, NULL, NULL, sizes},
    [KILN_METRIC_MIXED_JOBS] = {"kiln_assignment_mixed_jobs_total",
                                "Jobs assigned in batches whose jobs begin at different steps, "
                                "some from stored latents.",
                                KILN_METRIC_OF_SCHEDULER, NULL, NULL, NULL},
    [KILN_METRIC_SWITCHES] = {"kiln_assignment_loads_total",
                              "Batches assigned, by what their LoRA set takes to load.",
                              KILN_METRIC_OF_SCHEDULER, "kind", switch_kinds, NULL},
    [KILN_METRIC_LEASES_LOST] = {"kiln_leases_lost_total",
                                 "Workers that vanished without a good-bye.",
                                 KILN_METRIC_OF_SCHEDULER, NULL, NULL, NULL},
    [KILN_METRIC_JOBS_RETURNED] = {"kiln_jobs_taken_back_total",
                                   "Jobs taken out of a worker's hands.", KILN_METRIC_OF_SCHEDULER,
                                   "cause", causes, NULL},
    [KILN_METRIC_DONOR_LOOKUPS] = {"kiln_donor_lookups_total",
                                   "Assigned jobs that asked for a stored latent to begin from.",
                                   KILN_METRIC_OF_SCHEDULER, "result", lookups, NULL},
    [KILN_METRIC_DONOR_SECONDS] =
        {"kiln_donor_lookup_seconds",
         "Time of looking for stored latents, for the queue's order or an assignment.",
         KILN_METRIC_OF_SCHEDULER, NULL, NULL, moments},
    [KILN_METRIC_DONOR_STEPS] = {"kiln_donor_steps",
                                 "Steps that runs may skip because a stored latent was found, in "
                                 "steps of the full size, by how alike the prompts are.",
                                 KILN_METRIC_OF_SCHEDULER, "class", classes, steps},
    [KILN_METRIC_DONOR_VARIETY] =
        {"kiln_donor_variety",
         "Variety that the model's table gives such runs, 1 being that of full ones, by how alike "
         "the prompts are.",
         KILN_METRIC_OF_SCHEDULER, "class", classes, shares},
    [KILN_METRIC_JOBS_ENDED] = {"kiln_worker_jobs_total",
                                "Jobs that this worker was through with, by how.",
                                KILN_METRIC_OF_WORKER, "outcome", ends, NULL},
    [KILN_METRIC_STAGE_SECONDS] = {"kiln_stage_seconds",
                                   "Time of a job in a stage; a batch's time is shared out.",
                                   KILN_METRIC_OF_WORKER, "stage", stages, stretches},
    [KILN_METRIC_BATCHES] = {"kiln_worker_batches_total", "Batches that this worker has drawn.",
                             KILN_METRIC_OF_WORKER, NULL, NULL, NULL},
    [KILN_METRIC_LORA_SETS] = {"kiln_worker_lora_sets_total",
                               "LoRA sets put in place: ready in memory, or read while the device "
                               "waited.",
                               KILN_METRIC_OF_WORKER, "from", lora_sources, NULL},
    [KILN_METRIC_TEXTS] =
        {"kiln_worker_texts_total",
         "Prompts of batches: features ready, or encoded while the device waited.",
         KILN_METRIC_OF_WORKER, "from", text_sources, NULL},
    [KILN_METRIC_REUSES] =
        {"kiln_worker_reuses_total",
         "Pictures for which a stored latent was chosen: began from it, or why not.",
         KILN_METRIC_OF_WORKER, "result", reuses, NULL},
    [KILN_METRIC_SAVED_STEPS] = {"kiln_worker_saved_steps",
                                 "Steps at full size saved by a picture that began from a latent.",
                                 KILN_METRIC_OF_WORKER, NULL, NULL, steps},
    [KILN_METRIC_SAVED_SECONDS] =
        {"kiln_worker_saved_seconds",
         "Time of the device that these steps would have taken, at the pace of the others.",
         KILN_METRIC_OF_WORKER, NULL, NULL, stretches},
    [KILN_METRIC_WASTED_STEPS] = {"kiln_worker_wasted_steps",
                                  "Steps at full size of a run that began from a latent and was "
                                  "given up.",
                                  KILN_METRIC_OF_WORKER, NULL, NULL, steps},
    [KILN_METRIC_GALLERY_SECONDS] = {"kiln_gallery_request_seconds",
                                     "Time of requests from the header to the last byte.",
                                     KILN_METRIC_OF_GALLERY, "kind", web_kinds, answers},
    [KILN_METRIC_GALLERY_ANSWERS] = {"kiln_gallery_answers_total", "Answers, by class of status.",
                                     KILN_METRIC_OF_GALLERY, "status", statuses, NULL},
    [KILN_METRIC_GALLERY_BYTES] = {"kiln_gallery_sent_bytes_total", "Bytes of bodies sent.",
                                   KILN_METRIC_OF_GALLERY, NULL, NULL, NULL},
};

static struct {
    _Atomic uint64_t counts[KILN_METRIC_BOUNDS_MAX + 1];
    _Atomic uint64_t sum;
} values[KILN_METRIC_COUNT][KILN_METRIC_LABELS_MAX];
_Static_assert(KILN_CODE_COUNT <= KILN_METRIC_LABELS_MAX, "a label for every code");

uint32_t kiln_metric_labels(enum kiln_metric metric)
{
    const struct kiln_metric_row *row = &kiln_metric_rows[metric];
    if (!row->label)
        return 1;
    uint32_t count = row->values ? 0 : KILN_CODE_COUNT;
    while (row->values && row->values[count])
        count++;
    return count;
}

const char *kiln_metric_label(enum kiln_metric metric, uint32_t label)
{
    const struct kiln_metric_row *row = &kiln_metric_rows[metric];
    return row->values ? row->values[label] : kiln_code_name((int)label);
}

void kiln_metric_add(enum kiln_metric metric, uint32_t label, uint64_t count)
{
    if (label < kiln_metric_labels(metric))
        atomic_fetch_add_explicit(&values[metric][label].counts[0], count, memory_order_relaxed);
}

void kiln_metric_observe(enum kiln_metric metric, uint32_t label, double value)
{
    const double *bounds = kiln_metric_rows[metric].bounds;
    if (label >= kiln_metric_labels(metric) || !bounds || !isfinite(value))
        return;
    value = value > 0 ? value : 0; /* a clock that was set back in between */
    uint32_t bucket = 0;
    while (bounds[bucket] > 0 && value > bounds[bucket])
        bucket++;
    atomic_fetch_add_explicit(&values[metric][label].counts[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&values[metric][label].sum, (uint64_t)(value * UNIT),
                              memory_order_relaxed);
}

uint64_t kiln_metric_count(enum kiln_metric metric, uint32_t label)
{
    uint64_t count = 0;
    if (label >= kiln_metric_labels(metric))
        return 0;
    for (uint32_t i = 0; i <= KILN_METRIC_BOUNDS_MAX; i++)
        count += atomic_load_explicit(&values[metric][label].counts[i], memory_order_relaxed);
    return count;
}

void kiln_metric_histogram(enum kiln_metric metric, uint32_t label,
                           struct kiln_metric_histogram *ret)
{
    for (uint32_t i = 0; i <= KILN_METRIC_BOUNDS_MAX; i++)
        ret->buckets[i] =
            atomic_load_explicit(&values[metric][label].counts[i], memory_order_relaxed);
    ret->sum =
        (double)atomic_load_explicit(&values[metric][label].sum, memory_order_relaxed) / UNIT;
}
