/* metrics.h - the table of metrics that the daemons count, and their text for Prometheus.
 *
 * Counting is one or two relaxed atomic additions, so any thread may do it anywhere; each process
 * has one set of numbers.  A metric has at most one label, whose values are known beforehand, so
 * that the page does not grow with the work.  Values that are read rather than counted (queue
 * depths, workers) are written by their owner with the two functions at the end.
 *
 *     kiln_metric_add(KILN_METRIC_RETRIES, KILN_DEVICE, 1);
 *     kiln_metric_observe(KILN_METRIC_STAGE_SECONDS, KILN_STAGE_ENCODE, 0.021);
 *
 * Names follow Prometheus: prefix kiln_, base units (seconds, bytes), suffix _total for counters.
 */
#ifndef KILN_METRICS_H
#define KILN_METRICS_H

#include <stdint.h>

#include "schemas/text/text.h"

enum kiln_metric {
    /* both daemons */
    KILN_METRIC_LOG_LINES,      /* by enum kiln_level */
    KILN_METRIC_LEDGER_SECONDS, /* histogram, by enum kiln_ledger_way */
    KILN_METRIC_LEDGER_ERRORS,  /* by enum kiln_code, like all _ERRORS */
    KILN_METRIC_RETRIES,        /* jobs back in the queue after a failure, by enum kiln_code */
    KILN_METRIC_FAILURES,       /* jobs that have failed for good, by enum kiln_code */
    /* kiln-scheduler */
    KILN_METRIC_STEP_SECONDS,    /* histogram: a round of the leader without its waiting */
    KILN_METRIC_INTAKE,          /* by enum kiln_intake_result */
    KILN_METRIC_UNDELIVERED,     /* by enum kiln_undelivered */
    KILN_METRIC_WEBHOOKS,        /* attempts, by enum kiln_webhook_result */
    KILN_METRIC_ASSIGNMENTS,     /* by enum kiln_policy_rule */
    KILN_METRIC_ASSIGNMENT_JOBS, /* histogram of sizes */
    KILN_METRIC_MIXED_JOBS,      /* of assignments whose jobs begin at different steps */
    KILN_METRIC_SWITCHES,        /* by enum kiln_switch_kind: 1 warm, 2 cold */
    KILN_METRIC_LEASES_LOST,
    KILN_METRIC_JOBS_RETURNED, /* from a worker, by enum kiln_return_cause */
    KILN_METRIC_DONOR_LOOKUPS, /* by enum kiln_donor_lookup */
    KILN_METRIC_DONOR_SECONDS, /* histogram: a look-up, also one that assigns nothing yet */
    KILN_METRIC_DONOR_STEPS,   /* histogram: that a donor lets a run skip, by its class less 1 */
    KILN_METRIC_DONOR_VARIETY, /* histogram: of the row that allows it, a share, by class less 1 */
    /* kiln-worker */
    KILN_METRIC_STORE_SECONDS, /* histogram, by enum kiln_store_way */
    KILN_METRIC_STORE_ERRORS,
    KILN_METRIC_STORE_RETRIES, /* repeated requests to S3 */
    KILN_METRIC_STORE_BYTES,   /* written */
    KILN_METRIC_JOBS_ENDED,    /* by enum kiln_job_end */
    KILN_METRIC_STAGE_SECONDS, /* histogram, by enum kiln_stage */
    KILN_METRIC_BATCHES,       /* rendered */
    KILN_METRIC_LORA_SETS,     /* loaded, by enum kiln_lora_source */
    KILN_METRIC_TEXTS,         /* of batches, by enum kiln_text_source */
    KILN_METRIC_REUSES,        /* pictures with a donor, by enum kiln_fallback of the worker */
    KILN_METRIC_SAVED_STEPS,   /* histogram: by a picture that began from its donor */
    KILN_METRIC_SAVED_SECONDS, /* histogram: the same in time of the device */
    KILN_METRIC_WASTED_STEPS,  /* histogram: of a run from a donor that was given up */
    /* kiln-gallery */
    KILN_METRIC_GALLERY_SECONDS, /* histogram: a request, by enum kiln_web_kind */
    KILN_METRIC_GALLERY_ANSWERS, /* by the first digit of the status */
    KILN_METRIC_GALLERY_BYTES,   /* of bodies */
    KILN_METRIC_COUNT
};

enum kiln_ledger_way { KILN_LEDGER_STATEMENT, KILN_LEDGER_PIPELINE, KILN_LEDGER_WALK };
enum kiln_lora_source { KILN_LORA_WAS_READY, KILN_LORA_WAS_READ };
enum kiln_text_source { KILN_TEXT_WAS_READY, KILN_TEXT_WAS_ENCODED };
enum kiln_store_way {
    KILN_STORE_PUT, /* a group of objects at once */
    KILN_STORE_GET,
    KILN_STORE_HEAD,
    KILN_STORE_DELETE,
    KILN_STORE_LIST
};
enum kiln_intake_result {
    KILN_INTAKE_INSERTED,
    KILN_INTAKE_DUPLICATE,
    KILN_INTAKE_REFUSED,
    KILN_INTAKE_SET_ASIDE /* an entry: the ledger refuses it, or its batch cannot be read */
};
/* A message to a client that Redis refused, because its key has another type, say. */
enum kiln_undelivered { KILN_UNDELIVERED_RECEIPT, KILN_UNDELIVERED_REFUSED };
enum kiln_webhook_result { KILN_WEBHOOK_DELIVERED, KILN_WEBHOOK_RETRIED, KILN_WEBHOOK_FAILED };
enum kiln_return_cause {
    KILN_CAUSE_CRASHED,    /* its worker was lost */
    KILN_CAUSE_UNBEGUN,    /* its worker ended before it began */
    KILN_CAUSE_MISSING,    /* its worker does not hold it */
    KILN_CAUSE_UNSENT,     /* the bus did not take it */
    KILN_CAUSE_TAKEN_BACK, /* for an idle worker */
    KILN_CAUSE_REFUSED     /* by its worker's store */
};
enum kiln_donor_lookup { KILN_DONOR_MISS, KILN_DONOR_HIT };
enum kiln_job_end {
    KILN_END_DONE,
    KILN_END_FAILED,
    KILN_END_RETURNED,
    KILN_END_CANCELLED,
    KILN_END_DROPPED /* the ledger has moved the job: another attempt, or cancelled */
};
enum kiln_stage {
    KILN_STAGE_WAIT, /* from queued to its first step */
    KILN_STAGE_TEXT,
    KILN_STAGE_DENOISE,
    KILN_STAGE_DECODE,
    KILN_STAGE_ENCODE,
    KILN_STAGE_UPLOAD,
    KILN_STAGE_COMMIT
};

enum kiln_web_kind {
    KILN_WEB_KIND_PAGE,
    KILN_WEB_KIND_API,
    KILN_WEB_KIND_FILE,  /* of the store */
    KILN_WEB_KIND_ASSET, /* style and script */
    KILN_WEB_KIND_OTHER  /* no such page */
};

/* label: 0 if the metric has none; one out of range is not counted. */
void kiln_metric_add(enum kiln_metric metric, uint32_t label, uint64_t count);
/* A value of a histogram, in its unit. */
void kiln_metric_observe(enum kiln_metric metric, uint32_t label, double value);
/* The count, or the number of observed values; for tests and status lines. */
uint64_t kiln_metric_count(enum kiln_metric metric, uint32_t label);

/* --- writing, in metrics_text.c --------------------------------------------------------------- */
enum kiln_metric_of {
    KILN_METRIC_OF_BOTH, /* of all programs */
    KILN_METRIC_OF_SCHEDULER,
    KILN_METRIC_OF_WORKER,
    KILN_METRIC_OF_GALLERY
};

/* Appends all metrics of a program, not KILN_METRIC_OF_BOTH. */
void kiln_metrics_write(struct kiln_text *text, enum kiln_metric_of program);

/* Every sample written from now on ends with the label pool; before any thread writes. */
void kiln_metrics_pool(const char *pool);
/* The two lines before the samples of a metric; type is "gauge" or "counter". */
void kiln_metric_family(struct kiln_text *text, const char *name, const char *type,
                        const char *help);
/* One sample; labels are names and values in turn, ended by NULL.  NULL: none. */
void kiln_metric_sample(struct kiln_text *text, const char *name, const char *const *labels,
                        double value);
/* A metric whose only sample has no labels. */
void kiln_metric_single(struct kiln_text *text, const char *name, const char *type,
                        const char *help, double value);

#endif
