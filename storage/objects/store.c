/* store.c - chooses the backend, checks every key and hashes every body before anything is sent or
 * written, and removes many objects.
 */
#include "storage/objects/store.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "schemas/digest.h"
#include "schemas/limits.h"
#include "storage/daemon/stopwatch.h"
#include "storage/objects/backend.h"

#define PROBE_LEAST 16 /* bytes */
#define PROBE_MOST ((size_t)16 << 20)
#define FAILURES_MAX 8

static const struct {
    const char *scheme;
    kiln_store_opener *open;
} backends[] = {
    {"file://", kiln_store_open_file},
    {"s3://", kiln_store_open_s3},
};

/* The scheme chooses; each backend checks the rest. */
static int open_backend(const struct kiln_config *config, const char *url, struct kiln_store **ret,
                        struct kiln_error *err)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        size_t len = strlen(backends[i].scheme);
        if (strncmp(url, backends[i].scheme, len) == 0)
            return backends[i].open(config, url + len, ret, err);
    }
    return kiln_fail(err, KILN_CONFIG,
                     "store is '%s'; it must be file:///directory or s3://bucket/prefix", url);
}

int kiln_store_open(const struct kiln_config *config, struct kiln_store **ret,
                    struct kiln_error *err)
{
    const char *url = kiln_config_text(config, KILN_KEY_STORE);
    char *copy = strdup(url);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "open store %s: no memory", url);
    struct kiln_store *store = NULL;
    int code = open_backend(config, url, &store, err);
    if (code) {
        free(copy);
        return code;
    }
    store->url = copy;
    *ret = store;
    return KILN_OK;
}

void kiln_store_close(struct kiln_store *store)
{
    if (!store)
        return;
    free(store->url);
    store->ops->close(store);
}

const char *kiln_store_url(const struct kiln_store *store)
{
    return store->url;
}

/* Checks and hashes one put, and clears what an earlier call left in it. */
static void prepare(struct kiln_put *put)
{
    struct kiln_error err = {0};
    unsigned char digest[KILN_SHA256_SIZE];
    int code = kiln_store_check_key(put->key, &err);
    if (!code &&
        EVP_Digest(put->size ? put->data : "", put->size, digest, NULL, EVP_sha256(), NULL) != 1)
        code = kiln_fail(&err, KILN_NO_MEMORY, "no memory to hash %s", put->key);
    put->code = KILN_OK;
    put->was_there = false;
    put->error[0] = put->sha256[0] = '\0';
    if (code)
        kiln_put_fail(put, &err);
    else
        kiln_hex(digest, sizeof digest, put->sha256);
}

/* What a request took, for the page of metrics.  A thing that is not there is an answer. */
static int note(enum kiln_store_way way, int code, int64_t started)
{
    kiln_stopwatch_note(KILN_METRIC_STORE_SECONDS, way, KILN_METRIC_STORE_ERRORS,
                        code == KILN_NOT_FOUND ? 0 : code, started);
    return code;
}

int kiln_store_put(struct kiln_store *store, struct kiln_put *puts, size_t count,
                   struct kiln_error *err)
{
    for (size_t i = 0; i < count; i++)
        prepare(&puts[i]);
    int64_t started = kiln_stopwatch_start();
    store->ops->put(store, puts, count);
    const struct kiln_put *failed = NULL;
    for (size_t i = 0; i < count; i++) {
        if (puts[i].code == 0)
            kiln_metric_add(KILN_METRIC_STORE_BYTES, 0, puts[i].size);
        else if (!failed)
            failed = &puts[i];
    }
    note(KILN_STORE_PUT, failed ? failed->code : 0, started);
    if (failed)
        return kiln_fail(err, failed->code, "put to %s: %s", store->url, failed->error);
    return KILN_OK;
}

int kiln_store_get(struct kiln_store *store, const char *key, size_t max, void **ret_data,
                   size_t *ret_size, struct kiln_error *err)
{
    int code = kiln_store_check_key(key, err);
    if (code)
        return code;
    int64_t started = kiln_stopwatch_start();
    return note(KILN_STORE_GET, store->ops->get(store, key, max, ret_data, ret_size, err), started);
}

void kiln_store_try_once(struct kiln_store *store, bool once)
{
    store->once = once;
}

int kiln_store_open_object(struct kiln_store *store, const char *key, int *ret_fd,
                           uint64_t *ret_size, struct kiln_error *err)
{
    if (!store->ops->open)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s has no files to open", store->url);
    int code = kiln_store_check_key(key, err);
    return code ? code : store->ops->open(store, key, ret_fd, ret_size, err);
}

int kiln_store_presign(struct kiln_store *store, const char *key, int64_t time_s,
                       uint32_t expires_s, char **ret, struct kiln_error *err)
{
    if (!store->ops->presign)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s has no URLs to sign", store->url);
    int code = kiln_store_check_key(key, err);
    return code ? code : store->ops->presign(store, key, time_s, expires_s, ret, err);
}

const char *kiln_store_origin(const struct kiln_store *store)
{
    return store->ops->origin ? store->ops->origin(store) : NULL;
}

int kiln_store_head(struct kiln_store *store, const char *key, uint64_t *ret_size,
                    struct kiln_error *err)
{
    int code = kiln_store_check_key(key, err);
    if (code)
        return code;
    int64_t started = kiln_stopwatch_start();
    return note(KILN_STORE_HEAD, store->ops->head(store, key, ret_size, err), started);
}

int kiln_store_delete(struct kiln_store *store, const char *key, struct kiln_error *err)
{
    int code = kiln_store_check_key(key, err);
    if (code)
        return code;
    int64_t started = kiln_stopwatch_start();
    return note(KILN_STORE_DELETE, store->ops->remove(store, key, err), started);
}

int kiln_store_list(struct kiln_store *store, const char *prefix, kiln_store_each *each, void *arg,
                    struct kiln_error *err)
{
    size_t len = strlen(prefix);
    if (len > KILN_OBJECT_KEY_MAX || strspn(prefix, KILN_KEY_LETTERS) != len || prefix[0] == '/')
        return kiln_fail(err, KILN_BAD_INPUT, "'%s' cannot be the start of an object key", prefix);
    int64_t started = kiln_stopwatch_start();
    return note(KILN_STORE_LIST, store->ops->list(store, prefix, each, arg, err), started);
}

int kiln_store_reach(struct kiln_store *store, struct kiln_error *err)
{
    int64_t started = kiln_stopwatch_start();
    int code = store->ops->reach(store, err);
    return note(KILN_STORE_HEAD, code == KILN_DENIED ? 0 : code, started);
}

/* A worker's key may be allowed to put and nothing else, which is wise: then what was put is
 * neither read back nor removed, and a few bytes stay behind. */
static int probe_key(struct kiln_store *store, const char *key, const void *body, size_t bytes,
                     struct kiln_error *err)
{
    struct kiln_put put = {.key = key, .data = body, .size = bytes, .content_type = "text/plain"};
    int code = kiln_store_put(store, &put, 1, err);
    if (code)
        return code;
    void *back = NULL;
    size_t size = 0;
    code = kiln_store_get(store, key, put.size, &back, &size, err);
    if (code && code != KILN_DENIED)
        return code;
    bool same = code || (size == put.size && memcmp(back, body, size) == 0);
    free(back);
    if (!same)
        return kiln_fail(err, KILN_CORRUPT, "%s gives back other bytes than were put", store->url);
    code = kiln_store_delete(store, key, err);
    return code == KILN_DENIED ? KILN_OK : code;
}

/* Where the pictures of today go, since rights may differ from one folder or prefix to the next,
 * under a job that there never is: what stays of it is an orphan to `kiln gc`. */
int kiln_store_probe(struct kiln_store *store, size_t bytes, struct kiln_error *err)
{
    uint64_t number = 0; /* random: two probes at once must not remove each other's object */
    if (RAND_bytes((unsigned char *)&number, sizeof number) != 1)
        return kiln_fail(err, KILN_INTERNAL, "no random numbers for a probe");
    char key[96];
    time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc))
        return kiln_fail(err, KILN_INTERNAL, "no date for a probe");
    snprintf(key, sizeof key, "images/%04d/%02d/%llu/probe-%016llx.webp", utc.tm_year + 1900,
             utc.tm_mon + 1, KILN_PROBE_JOB, (unsigned long long)number);
    bytes = bytes < PROBE_LEAST ? PROBE_LEAST : bytes > PROBE_MOST ? PROBE_MOST : bytes;
    char *body = malloc(bytes);
    if (!body)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a probe of %zu bytes", bytes);
    for (size_t i = 0; i < bytes; i++) /* unlike any hole that a file system would not store */
        body[i] = (char)('a' + i % 23);
    int code = probe_key(store, key, body, bytes, err);
    free(body);
    return code;
}

/* --- many deletions ----------------------------------------------------------------------------
 */

bool kiln_store_fails_all(int code)
{
    return kiln_code_retry(code) == KILN_RETRY_LATER || code == KILN_CONFIG;
}

/* A store that does not answer, or that refuses every deletion, costs the patience of one request
 * for each object.  After FAILURES_MAX failures in a row the rest get the same error. */
static void remove_each(struct kiln_store *store, struct kiln_deletion *deletions, size_t count)
{
    struct kiln_error err = {0};
    int failures = 0;
    bool given_up = false;
    for (size_t i = 0; i < count; i++) {
        if (deletions[i].code)
            continue;
        int rc = given_up ? err.code : store->ops->remove(store, deletions[i].key, &err);
        failures = rc ? failures + 1 : 0;
        given_up = given_up || failures == FAILURES_MAX || kiln_store_fails_all(rc);
        if (rc)
            kiln_deletion_fail(&deletions[i], &err);
    }
}

int kiln_store_delete_many(struct kiln_store *store, struct kiln_deletion *deletions, size_t count,
                           struct kiln_error *err)
{
    struct kiln_error bad = {0};
    for (size_t i = 0; i < count; i++) {
        deletions[i].code = KILN_OK;
        deletions[i].error[0] = '\0';
        if (kiln_store_check_key(deletions[i].key, &bad))
            kiln_deletion_fail(&deletions[i], &bad);
    }
    if (store->ops->remove_many)
        store->ops->remove_many(store, deletions, count);
    else
        remove_each(store, deletions, count);
    for (size_t i = 0; i < count; i++)
        if (deletions[i].code)
            return kiln_fail(err, deletions[i].code, "%s", deletions[i].error);
    return KILN_OK;
}
