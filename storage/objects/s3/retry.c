/* retry.c - see retry.h.  The tables say what Kiln does after each answer of S3.
 *
 * The rows that match an error's <Code> come before those of its status, because servers disagree
 * on the status and agree on the code.
 */
#include "storage/objects/s3/retry.h"

#include <curl/curl.h>
#include <string.h>

#include "schemas/random.h"
#include "storage/daemon/outage.h"

/* First match wins. */
struct answer_row {
    long status;      /* 0: any */
    const char *code; /* NULL: any; a final * matches any rest */
    struct kiln_s3_outcome outcome;
};

#define REGION_HINT                                                                                \
    "the bucket is in another region: set s3_region (and s3_endpoint) to the bucket's own"
#define KEY_HINT "check the access key and secret key, and that they belong to this endpoint"
#define RIGHT_HINT "the key may not do this: give it rights on the bucket and prefix"
#define BUCKET_HINT "make the bucket, or correct the bucket's name in the setting store"
#define CLOCK_HINT "this machine's clock is wrong: start a time service (NTP)"
#define TOKEN_HINT "renew the session token (credentials file or environment)"
#define BUSY_HINT "the server is busy or broken"

static const struct answer_row answers[] = {
    {0, "RequestTimeTooSkewed", {KILN_S3_CLOCK, KILN_DENIED, CLOCK_HINT}},
    {0, "ExpiredToken*", {KILN_S3_CREDENTIALS, KILN_DENIED, TOKEN_HINT}},
    {0, "TokenRefreshRequired", {KILN_S3_CREDENTIALS, KILN_DENIED, TOKEN_HINT}},
    {0, "RequestTimeout*", {KILN_S3_RETRY, KILN_TIMEOUT, BUSY_HINT}},
    {0, "SlowDown*", {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {0, "Throttling*", {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {0, "RequestLimitExceeded", {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {0, "TooManyRequests", {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {0, "InternalError", {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {0, "ServiceUnavailable", {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {0, "OperationAborted", {KILN_S3_RETRY, KILN_UNAVAILABLE, ""}},
    {0, "ConditionalRequestConflict", {KILN_S3_RETRY, KILN_UNAVAILABLE, ""}},
    {0, "BadDigest", {KILN_S3_RETRY, KILN_CORRUPT, "the body was damaged on its way"}},
    {0, "IncompleteBody", {KILN_S3_RETRY, KILN_UNAVAILABLE, "the body was cut on its way"}},
    {0,
     "XAmzContentSHA256Mismatch",
     {KILN_S3_RETRY, KILN_CORRUPT, "the body was damaged on its way"}},
    {0, "SignatureDoesNotMatch", {KILN_S3_STOP, KILN_DENIED, KEY_HINT}},
    {0, "InvalidAccessKeyId", {KILN_S3_STOP, KILN_DENIED, KEY_HINT}},
    {0, "InvalidToken", {KILN_S3_STOP, KILN_DENIED, TOKEN_HINT}},
    {0, "AccessDenied", {KILN_S3_STOP, KILN_DENIED, RIGHT_HINT}},
    {0, "NoSuchBucket", {KILN_S3_STOP, KILN_CONFIG, BUCKET_HINT}},
    {0, "NoSuchKey", {KILN_S3_STOP, KILN_NOT_FOUND, ""}},
    {0, "InvalidBucketName", {KILN_S3_STOP, KILN_CONFIG, BUCKET_HINT}},
    {0, "AuthorizationHeaderMalformed", {KILN_S3_STOP, KILN_CONFIG, REGION_HINT}},
    {0, "PermanentRedirect", {KILN_S3_STOP, KILN_CONFIG, REGION_HINT}},
    {0, "TemporaryRedirect", {KILN_S3_STOP, KILN_CONFIG, REGION_HINT}},
    {0, "IllegalLocationConstraintException", {KILN_S3_STOP, KILN_CONFIG, REGION_HINT}},
    {0, "EntityTooLarge", {KILN_S3_STOP, KILN_BAD_INPUT, "the server takes smaller objects only"}},
    {0, "QuotaExceeded*", {KILN_S3_STOP, KILN_FULL, "the account's quota is used up"}},
    {0, "XMinioStorageFull", {KILN_S3_STOP, KILN_FULL, "the server's disks are full"}},
    {200, NULL, {KILN_S3_DONE, KILN_OK, ""}},
    {204, NULL, {KILN_S3_DONE, KILN_OK, ""}},
    {206, NULL, {KILN_S3_DONE, KILN_OK, ""}},
    {301, NULL, {KILN_S3_STOP, KILN_CONFIG, REGION_HINT}},
    {302, NULL, {KILN_S3_STOP, KILN_CONFIG, REGION_HINT}},
    {307, NULL, {KILN_S3_STOP, KILN_CONFIG, REGION_HINT}},
    {308, NULL, {KILN_S3_STOP, KILN_CONFIG, REGION_HINT}},
    {400, NULL, {KILN_S3_STOP, KILN_INTERNAL, "the server did not understand the request"}},
    {401, NULL, {KILN_S3_STOP, KILN_DENIED, KEY_HINT}},
    {403, NULL, {KILN_S3_STOP, KILN_DENIED, RIGHT_HINT}},
    {404, NULL, {KILN_S3_STOP, KILN_NOT_FOUND, ""}},
    {405, NULL, {KILN_S3_STOP, KILN_UNSUPPORTED, "check that s3_endpoint is an S3 server"}},
    {408, NULL, {KILN_S3_RETRY, KILN_TIMEOUT, BUSY_HINT}},
    {409, NULL, {KILN_S3_RETRY, KILN_UNAVAILABLE, ""}},
    {411, NULL, {KILN_S3_STOP, KILN_INTERNAL, "something in between drops the body's length"}},
    {412, NULL, {KILN_S3_VERIFY, KILN_PROTOCOL, ""}},
    {413, NULL, {KILN_S3_STOP, KILN_BAD_INPUT, "the server takes smaller objects only"}},
    {416, NULL, {KILN_S3_STOP, KILN_BAD_INPUT, ""}},
    {429, NULL, {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {499, NULL, {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {500, NULL, {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {501, NULL, {KILN_S3_STOP, KILN_UNSUPPORTED, "the server does not know this request"}},
    {502, NULL, {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {503, NULL, {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
    {504, NULL, {KILN_S3_RETRY, KILN_TIMEOUT, BUSY_HINT}},
    {507, NULL, {KILN_S3_STOP, KILN_FULL, "the server's disks are full"}},
    {520, NULL, {KILN_S3_RETRY, KILN_UNAVAILABLE, BUSY_HINT}},
};

static const struct kiln_s3_outcome unknown_answer = {KILN_S3_STOP, KILN_PROTOCOL,
                                                      "check that s3_endpoint is an S3 server"};

#define REACH_HINT "check s3_endpoint, the network, and that the server runs"
#define TLS_HINT "the server's certificate is not trusted here: install its authority's certificate"

static const struct transport_row {
    int curl_code;
    struct kiln_s3_outcome outcome;
} transports[] = {
    {CURLE_OPERATION_TIMEDOUT, {KILN_S3_VERIFY, KILN_TIMEOUT, REACH_HINT}},
    {CURLE_GOT_NOTHING, {KILN_S3_VERIFY, KILN_UNAVAILABLE, REACH_HINT}},
    {CURLE_SEND_ERROR, {KILN_S3_VERIFY, KILN_UNAVAILABLE, REACH_HINT}},
    {CURLE_RECV_ERROR, {KILN_S3_VERIFY, KILN_UNAVAILABLE, REACH_HINT}},
    {CURLE_PARTIAL_FILE, {KILN_S3_VERIFY, KILN_UNAVAILABLE, "the answer was cut short"}},
    {CURLE_COULDNT_CONNECT, {KILN_S3_RETRY, KILN_UNAVAILABLE, REACH_HINT}},
    {CURLE_COULDNT_RESOLVE_HOST, {KILN_S3_RETRY, KILN_UNAVAILABLE, REACH_HINT}},
    {CURLE_COULDNT_RESOLVE_PROXY, {KILN_S3_RETRY, KILN_UNAVAILABLE, REACH_HINT}},
    {CURLE_SSL_CONNECT_ERROR,
     {KILN_S3_RETRY, KILN_UNAVAILABLE, "check http:// or https:// in s3_endpoint"}},
    {CURLE_WEIRD_SERVER_REPLY,
     {KILN_S3_RETRY, KILN_PROTOCOL, "check that s3_endpoint is an S3 server"}},
    {CURLE_UNSUPPORTED_PROTOCOL,
     {KILN_S3_RETRY, KILN_PROTOCOL, "check that s3_endpoint is an S3 server"}},
    {CURLE_PEER_FAILED_VERIFICATION, {KILN_S3_STOP, KILN_DENIED, TLS_HINT}},
    {CURLE_SSL_CACERT_BADFILE, {KILN_S3_STOP, KILN_CONFIG, TLS_HINT}},
    {CURLE_SSL_ISSUER_ERROR, {KILN_S3_STOP, KILN_DENIED, TLS_HINT}},
    {CURLE_URL_MALFORMAT, {KILN_S3_STOP, KILN_CONFIG, "correct s3_endpoint"}},
    {CURLE_OUT_OF_MEMORY, {KILN_S3_STOP, KILN_NO_MEMORY, ""}},
};

static const struct kiln_s3_outcome unknown_transport = {KILN_S3_RETRY, KILN_UNAVAILABLE,
                                                         REACH_HINT};

/* "SlowDown*" covers SlowDown, SlowDownRead and SlowDownWrite. */
static bool code_matches(const char *pattern, const char *code)
{
    size_t len = strlen(pattern);
    if (len > 0 && pattern[len - 1] == '*')
        return strncmp(pattern, code, len - 1) == 0;
    return strcmp(pattern, code) == 0;
}

struct kiln_s3_outcome kiln_s3_outcome_of_answer(long status, const char *error_code)
{
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const struct answer_row *row = &answers[i];
        if ((row->status == 0 || row->status == status) &&
            (!row->code || code_matches(row->code, error_code)))
            return row->outcome;
    }
    return unknown_answer;
}

struct kiln_s3_outcome kiln_s3_outcome_of_transport(int curl_code)
{
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        if (transports[i].curl_code == curl_code)
            return transports[i].outcome;
    return unknown_transport;
}

uint32_t kiln_s3_backoff_ms(uint32_t tries, uint64_t *random_state)
{
    uint64_t longest = kiln_backoff(tries, KILN_S3_BACKOFF_BASE_MS, KILN_S3_BACKOFF_CAP_MS);
    return (uint32_t)(kiln_random_next(random_state) % (longest + 1));
}

#define FIRST_TRY_MS 2000
#define LATER_TRY_MS 6000
#define SMALL_BODY (512 * 1024)
#define SLOW_LINE_BYTES_PER_MS 256 /* 2 Mbit/s */
#define DEADLINE_MAX_MS (10 * 60 * 1000)

uint32_t kiln_s3_deadline_ms(uint32_t tries, uint64_t bytes)
{
    uint64_t ms = tries == 0 ? FIRST_TRY_MS : LATER_TRY_MS;
    if (bytes > SMALL_BODY)
        ms += (bytes - SMALL_BODY) / SLOW_LINE_BYTES_PER_MS;
    return (uint32_t)(ms > DEADLINE_MAX_MS ? DEADLINE_MAX_MS : ms);
}

#define BUDGET_BURST 20.0
#define BUDGET_PER_SECOND 4.0

struct kiln_s3_budget kiln_s3_budget_new(int64_t now_ms)
{
    return (struct kiln_s3_budget){.tokens = BUDGET_BURST, .time_ms = now_ms};
}

uint32_t kiln_s3_budget_take(struct kiln_s3_budget *budget, int64_t now_ms)
{
    if (now_ms > budget->time_ms) {
        budget->tokens += (double)(now_ms - budget->time_ms) * BUDGET_PER_SECOND / 1000;
        budget->tokens = budget->tokens > BUDGET_BURST ? BUDGET_BURST : budget->tokens;
        budget->time_ms = now_ms;
    }
    budget->tokens -= 1; /* below 0: a place in the queue for later tokens */
    return budget->tokens >= 0 ? 0 : (uint32_t)(-budget->tokens * 1000 / BUDGET_PER_SECOND);
}
