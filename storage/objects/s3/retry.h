/* retry.h - a table of what each answer means; the backoff; the budget of retries.
 *
 * Pure: time is an argument, random numbers come from a seed.
 */
#ifndef KILN_S3_RETRY_H
#define KILN_S3_RETRY_H

#include <stdint.h>

#define KILN_S3_TRIES_MAX 10
#define KILN_S3_BACKOFF_BASE_MS 200
#define KILN_S3_BACKOFF_CAP_MS 5000

enum kiln_s3_action {
    KILN_S3_DONE,        /* it worked */
    KILN_S3_RETRY,       /* send it again, later */
    KILN_S3_VERIFY,      /* it may have worked: ask by HEAD, then send again if not */
    KILN_S3_CLOCK,       /* learn the server's clock from its Date, then send again */
    KILN_S3_CREDENTIALS, /* read the credentials again, then send again */
    KILN_S3_STOP         /* a retry cannot help */
};

struct kiln_s3_outcome {
    enum kiln_s3_action action;
    int code;         /* enum kiln_code if this is the end */
    const char *hint; /* what a person can do, or "" */
};

/* Of an answer: status, and the <Code> of its body ("" if there was none). */
struct kiln_s3_outcome kiln_s3_outcome_of_answer(long status, const char *error_code);
/* Of a transfer that ended without a whole answer: a CURLcode. */
struct kiln_s3_outcome kiln_s3_outcome_of_transport(int curl_code);

/* Full jitter: anything up to base * 2^(tries - 1), at most the cap.  tries >= 1 have failed. */
uint32_t kiln_s3_backoff_ms(uint32_t tries, uint64_t *random_state);

/* The time limit of one try.  The answer to a small body takes tens of milliseconds, so the first
 * try gets 2 s and later ones 6 s; bodies beyond 512 KiB get more, for slow lines. */
uint32_t kiln_s3_deadline_ms(uint32_t tries, uint64_t bytes);

/* A budget of retries for the whole store: a burst, then a low rate.  So an outage does not
 * multiply the load on servers that are restarting. */
struct kiln_s3_budget {
    double tokens;
    int64_t time_ms; /* of the last call */
};
struct kiln_s3_budget kiln_s3_budget_new(int64_t now_ms);
/* Takes one retry and returns how long to wait for it (0 while there are tokens). */
uint32_t kiln_s3_budget_take(struct kiln_s3_budget *budget, int64_t now_ms);

#endif
