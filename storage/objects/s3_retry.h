/* s3_retry.h - what an answer means, as one table; how long to wait; how much retrying is fair.
 *
 * Pure: time comes in, random numbers come from a seed.
 */
#ifndef KILN_S3_RETRY_H
#define KILN_S3_RETRY_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_S3_TRIES_MAX 10
#define KILN_S3_BACKOFF_BASE_MS 200
#define KILN_S3_BACKOFF_CAP_MS 5000

enum kiln_s3_action {
    KILN_S3_DONE,        /* it worked */
    KILN_S3_RETRY,       /* send it again, later */
    KILN_S3_VERIFY,      /* it may have worked: ask by HEAD, then send again if not */
    KILN_S3_CLOCK,       /* learn the server's clock from its Date, then send again */
    KILN_S3_CREDENTIALS, /* read the credentials again, then send again */
    KILN_S3_STOP         /* it will never work like this */
};

struct kiln_s3_outcome {
    enum kiln_s3_action action;
    int code;         /* enum kiln_code if it ends here */
    const char *hint; /* what a person can do, or "" */
};

/* Of an answer: status, and the <Code> of its body ("" if there was none). */
struct kiln_s3_outcome kiln_s3_outcome_of_answer(long status, const char *error_code);
/* Of a transfer that ended without a whole answer: a CURLcode. */
struct kiln_s3_outcome kiln_s3_outcome_of_transport(int curl_code);

/* Full jitter: anything up to base * 2^(tries - 1), at most the cap.  tries >= 1 have failed. */
uint32_t kiln_s3_backoff_ms(uint32_t tries, uint64_t *random_state);

/* The limit of one try: a small body's answer takes tens of milliseconds, so a first try that
 * lasts 2 s is given up and the next gets 6 s; beyond 512 KiB a slow line is allowed for. */
uint32_t kiln_s3_deadline_ms(uint32_t tries, uint64_t bytes);

/* A budget of retries for the whole store: a burst, then a slow drip.  When everything fails at
 * once, the servers that try to come back are not met by ten times the load. */
struct kiln_s3_budget {
    double tokens;
    int64_t time_ms; /* of the last look */
};
struct kiln_s3_budget kiln_s3_budget_new(int64_t now_ms);
/* Takes one retry out and returns how long to wait for it (0 while there are tokens). */
uint32_t kiln_s3_budget_take(struct kiln_s3_budget *budget, int64_t now_ms);

#endif
