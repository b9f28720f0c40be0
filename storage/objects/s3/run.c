/* run.c - many requests at once, each tried until its outcome is certain.
 *
 *     WAITING --start--> RUNNING --answer--> what retry.c's table says:
 *        ^                                   DONE, STOP ----------------> ENDED
 *        +---- after a pause: RETRY, VERIFY; at once: CLOCK, CREDENTIALS ---+
 *
 * A PUT whose answer was lost may have landed.  Its next try is a HEAD: right size and MD5 count
 * as success, anything else sends the body again.  Since a key names its content, that is a saving
 * and never a risk, and a key that may not HEAD just sends again.
 *
 * The caller's thread runs all this; there is no other.
 */
#include <openssl/evp.h>
#include <openssl/md5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "schemas/clock.h"
#include "schemas/digest.h"
#include "schemas/telemetry/metrics.h"
#include "storage/objects/s3/client.h"

#define POLL_MAX_MS 1000
#define SKEW_MAX_S 600 /* a HEAD's 403 has no body; a clock this far off explains it */
#define MD5_SIZE 16

enum state { WAITING, RUNNING, ENDED };

struct job {
    struct kiln_s3_request *request;
    struct kiln_s3_try try;
    enum state state;
    int64_t due_ms; /* not before, while WAITING */
    uint32_t tries; /* ended so far */
    bool fresh;     /* the next try on a new connection */
    bool verifying; /* the next try is a HEAD for a PUT */
    bool no_verify; /* HEAD is not allowed to us */
    bool clock_learned, renewed;
    char md5[2 * MD5_SIZE + 1]; /* hex, of the body */
    char content_md5[32];       /* base64, "" if this machine's OpenSSL has no MD5 */
};

/* False where OpenSSL has no MD5 (FIPS mode): then ETags are not compared. */
static bool md5_of(const void *data, size_t size, unsigned char digest[MD5_SIZE])
{
    return EVP_Digest(size ? data : "", size, digest, NULL, EVP_md5(), NULL) == 1;
}

/* MD5 twice: as Content-MD5 wants it, and as the ETag will show it. */
static void hash_body(struct job *job)
{
    unsigned char digest[MD5_SIZE];
    if (!kiln_s3_has_body(job->request->method) ||
        !md5_of(job->request->body, job->request->size, digest))
        return;
    kiln_hex(digest, MD5_SIZE, job->md5);
    EVP_EncodeBlock((unsigned char *)job->content_md5, digest, MD5_SIZE);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void end_good(struct job *job)
{
    job->state = ENDED;
    job->request->code = KILN_OK;
}

/* The request has failed.  The text starts with what happened: keys are long, and a caller may cut
 * the end. */
static void end_bad(const struct kiln_s3_client *client, struct job *job, int code,
                    const char *what, const char *hint)
{
    struct kiln_s3_request *r = job->request;
    char tries[32] = "";
    if (job->tries > 1)
        snprintf(tries, sizeof tries, ", %u tries", job->tries);
    job->state = ENDED;
    r->code = kiln_fail(&r->err, code, "%s (%s s3://%s/%s at %s%s)%s%s", what,
                        kiln_s3_method_name(r->method), client->bucket, r->key, client->base, tries,
                        hint[0] ? "; " : "", hint);
}

/* "503 SlowDown: Please reduce your request rate" or libcurl's own sentence. */
static void describe(const struct job *job, const struct kiln_s3_answer *a, char *out, size_t size)
{
    if (a->transport != CURLE_OK)
        snprintf(out, size, "%s",
                 job->try.text[0] ? job->try.text : curl_easy_strerror((CURLcode)a->transport));
    else
        snprintf(out, size, "HTTP %ld %s%s%s", a->status, a->error.code,
                 a->error.message[0] ? ": " : "", a->error.message);
}

/* --- after a try ------------------------------------------------------------------------------ */

/* Waits for the next try.  pause: after a backoff, at the cost of the store's retry budget. */
static void wait_again(struct kiln_s3_client *client, struct job *job, bool pause)
{
    int64_t now = kiln_clock_ms();
    uint32_t wait = 0;
    kiln_metric_add(KILN_METRIC_STORE_RETRIES, 0, 1);
    if (pause) {
        uint32_t fair = kiln_s3_budget_take(&client->budget, now);
        wait = kiln_s3_backoff_ms(job->tries, &client->random);
        wait = wait > fair ? wait : fair;
    }
    job->state = WAITING;
    job->due_ms = now + wait;
}

/* Only once a request: otherwise a server whose clock jumps could cause retries without end. */
static bool learn_clock(struct kiln_s3_client *client, struct job *job, int64_t date_s)
{
    if (job->clock_learned || date_s == 0)
        return false;
    client->clock_offset_s = date_s - (int64_t)time(NULL);
    job->clock_learned = true;
    return true;
}

/* True if there are other credentials now than those the try was signed with. */
static bool renew_credentials(struct kiln_s3_client *client, struct job *job)
{
    if (job->try.generation != client->generation)
        return true; /* another request has renewed them meanwhile */
    struct kiln_s3_credentials now = {0};
    bool good = !job->renewed && kiln_s3_credentials_load(client->credentials_file, client->profile,
                                                          &now, NULL) == 0;
    bool changed = good && (strcmp(now.session_token, client->credentials.session_token) != 0 ||
                            strcmp(now.access_key, client->credentials.access_key) != 0);
    if (changed) {
        client->credentials = now;
        client->generation++;
    }
    job->renewed = true;
    kiln_s3_credentials_wipe(&now);
    return changed;
}

/* What the table of retry.c says, corrected by what only the state of the request shows. */
static struct kiln_s3_outcome outcome_of_try(const struct job *job, const struct kiln_s3_answer *a)
{
    if (job->try.no_memory)
        return (struct kiln_s3_outcome){KILN_S3_STOP, KILN_NO_MEMORY, ""};
    if (job->try.too_large)
        return (struct kiln_s3_outcome){KILN_S3_STOP, KILN_FULL,
                                        "the object is larger than was asked for"};
    if (a->transport != CURLE_OK) {
        struct kiln_s3_outcome outcome = kiln_s3_outcome_of_transport(a->transport);
        if (outcome.action == KILN_S3_VERIFY && !a->body_sent)
            outcome.action = KILN_S3_RETRY;
        return outcome;
    }
    struct kiln_s3_outcome outcome = kiln_s3_outcome_of_answer(a->status, a->error.code);
    int64_t skew = a->date_s ? a->date_s - (int64_t)time(NULL) : 0;
    if (a->status == 403 && !a->error.code[0] && !job->clock_learned &&
        (skew > SKEW_MAX_S || skew < -SKEW_MAX_S))
        outcome.action = KILN_S3_CLOCK;
    return outcome;
}

/* Whether the ETag of the answer, an MD5, differs from that of our bytes. */
static bool etag_differs(const struct job *job, const struct kiln_s3_answer *a)
{
    unsigned char digest[MD5_SIZE];
    char hex[2 * MD5_SIZE + 1];
    if (!a->etag[0])
        return false;
    if (job->try.method == KILN_S3_PUT)
        return job->md5[0] && strcasecmp(a->etag, job->md5) != 0;
    if (job->try.method != KILN_S3_GET || !md5_of(job->try.data, job->try.data_size, digest))
        return false;
    kiln_hex(digest, MD5_SIZE, hex);
    return strcasecmp(a->etag, hex) != 0;
}

/* Gives the caller the body of the answer: a buffer even for an empty object. */
static void finish(struct kiln_s3_client *client, struct job *job, const struct kiln_s3_answer *a)
{
    struct kiln_s3_request *r = job->request;
    if (r->method == KILN_S3_GET || r->method == KILN_S3_POST) {
        char *data = job->try.data ? job->try.data : malloc(1);
        if (!data) {
            end_bad(client, job, KILN_NO_MEMORY, "no memory for the answer", "");
            return;
        }
        r->data = data;
        r->data_size = job->try.data_size;
        job->try.data = NULL;
    }
    r->length = a->length;
    end_good(job);
}

/* The HEAD that asks whether a PUT has landed. */
static void after_verify(struct kiln_s3_client *client, struct job *job,
                         const struct kiln_s3_answer *a)
{
    bool answered = a->transport == CURLE_OK;
    bool same = answered && a->status == 200 && a->length == job->request->size && job->md5[0] &&
                strcasecmp(a->etag, job->md5) == 0;
    if (same) {
        end_good(job);
        return;
    }
    job->verifying = false;
    job->no_verify = answered && a->status == 403;
    wait_again(client, job, !answered || a->status >= 500);
}

/* Does what the outcome says, as long as tries are left. */
static void follow_outcome(struct kiln_s3_client *client, struct job *job,
                           const struct kiln_s3_answer *a, struct kiln_s3_outcome outcome)
{
    char what[512];
    describe(job, a, what, sizeof what);
    bool more = job->tries < (job->request->once ? 1 : KILN_S3_TRIES_MAX);
    if (outcome.action == KILN_S3_DONE && etag_differs(job, a)) {
        outcome = (struct kiln_s3_outcome){KILN_S3_RETRY, KILN_CORRUPT,
                                           "something on the way changes bytes"};
        snprintf(what, sizeof what, "the ETag %s does not fit the bytes", a->etag);
    }
    switch (outcome.action) {
    case KILN_S3_DONE:
        finish(client, job, a);
        return;
    case KILN_S3_VERIFY:
        job->verifying = job->request->method == KILN_S3_PUT && !job->no_verify;
        /* fall through */
    case KILN_S3_RETRY:
        job->fresh = a->transport != CURLE_OK;
        if (more) {
            wait_again(client, job, true);
            return;
        }
        break;
    case KILN_S3_CLOCK:
        if (more && learn_clock(client, job, a->date_s)) {
            wait_again(client, job, false);
            return;
        }
        break;
    case KILN_S3_CREDENTIALS:
        if (more && renew_credentials(client, job)) {
            wait_again(client, job, false);
            return;
        }
        break;
    case KILN_S3_STOP:
        break;
    }
    end_bad(client, job, outcome.code, what, outcome.hint);
}

/* A try has ended, with an answer or without one. */
static void after_try(struct kiln_s3_client *client, struct job *job, CURLcode transport)
{
    struct kiln_s3_answer answer;
    kiln_s3_try_read(&job->try, transport, &answer);
    job->tries++;
    snprintf(job->request->error_code, sizeof job->request->error_code, "%s", answer.error.code);
    if (job->verifying && job->tries < KILN_S3_TRIES_MAX)
        after_verify(client, job, &answer);
    else
        follow_outcome(client, job, &answer, outcome_of_try(job, &answer));
    kiln_s3_try_end(client, &job->try);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Sends a job's next try, a HEAD if a PUT is to be verified. */
static void start(struct kiln_s3_client *client, struct job *job)
{
    const struct kiln_s3_request *r = job->request;
    struct kiln_error err = {0};
    job->try.request = r;
    job->try.method = job->verifying ? KILN_S3_HEAD : r->method;
    uint64_t bytes = (kiln_s3_has_body(r->method) ? r->size : 0) + r->max;
    if (kiln_s3_try_start(client, &job->try, job->fresh, kiln_s3_deadline_ms(job->tries, bytes),
                          job->content_md5, &err))
        end_bad(client, job, err.code, err.text, "");
    else
        job->state = RUNNING;
}

/* Starts what is due; returns how long nothing will be, and counts. */
static int64_t start_due(struct kiln_s3_client *client, struct job *jobs, size_t count,
                         uint32_t *running, size_t *left)
{
    int64_t now = kiln_clock_ms(), pause = POLL_MAX_MS;
    *left = 0;
    for (size_t i = 0; i < count; i++) {
        struct job *job = &jobs[i];
        if (job->state == WAITING && job->due_ms <= now && *running < client->parallel) {
            start(client, job);
            *running += job->state == RUNNING;
        } else if (job->state == WAITING && job->due_ms > now && job->due_ms - now < pause) {
            pause = job->due_ms - now;
        }
        *left += job->state != ENDED;
    }
    return pause;
}

/* The job whose try runs on this handle. */
static struct job *job_of(struct job *jobs, size_t count, const CURL *easy)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i].try.easy == easy)
            return &jobs[i];
    return NULL;
}

/* Processes every try that has ended since the last call. */
static void collect(struct kiln_s3_client *client, struct job *jobs, size_t count,
                    uint32_t *running)
{
    int waiting = 0;
    for (CURLMsg *m = curl_multi_info_read(client->multi, &waiting); m;
         m = curl_multi_info_read(client->multi, &waiting)) {
        CURLcode result = m->data.result;
        struct job *job = m->msg == CURLMSG_DONE ? job_of(jobs, count, m->easy_handle) : NULL;
        if (!job)
            continue;
        after_try(client, job, result);
        (*running)--;
    }
}

/* Until all jobs have ended.  Every wait is bounded: by a try's deadline, a pause, a poll. */
static void run_jobs(struct kiln_s3_client *client, struct job *jobs, size_t count)
{
    uint32_t running = 0;
    for (;;) {
        size_t left = 0;
        int64_t pause = start_due(client, jobs, count, &running, &left);
        if (left == 0)
            return;
        int still = 0;
        CURLMcode broken = curl_multi_perform(client->multi, &still);
        if (!broken && (uint32_t)still == running)
            broken = curl_multi_poll(client->multi, NULL, 0, (int)pause, NULL);
        collect(client, jobs, count, &running);
        if (!broken)
            continue;
        for (size_t i = 0; i < count; i++)
            if (jobs[i].state != ENDED) {
                kiln_s3_try_end(client, &jobs[i].try);
                end_bad(client, &jobs[i], KILN_INTERNAL, curl_multi_strerror(broken), "");
            }
        return;
    }
}

void kiln_s3_run(struct kiln_s3_client *client, struct kiln_s3_request *requests, size_t count)
{
    struct job *jobs = calloc(count ? count : 1, sizeof *jobs);
    if (!jobs) {
        for (size_t i = 0; i < count; i++) {
            requests[i].code =
                kiln_fail(&requests[i].err, KILN_NO_MEMORY, "no memory for %zu requests", count);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        jobs[i].request = &requests[i];
        hash_body(&jobs[i]);
    }
    run_jobs(client, jobs, count);
    free(jobs);
}
