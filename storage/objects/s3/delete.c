/* delete.c - removing many objects: a thousand a request, or one by one in parallel.
 *
 * DeleteObjects is one POST with the keys as XML; its answer, asked to be quiet, names only the
 * keys that were not deleted.  A server that does not know it (501, 405 or an answer of another
 * form) is remembered, and gets single requests as many at a time as it gets uploads.  Keys whose
 * errors may pass are tried again as single requests, which the table of retry.c applies to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "schemas/text/text.h"
#include "storage/objects/s3/s3.h"

#define ANSWER_MAX (8 * 1024 * 1024)
#define SINGLES 64 /* at a time; when all of them fail, the rest is not tried */

/* Deletions of one request that are still to be decided. */
struct chunk {
    struct kiln_s3_store *store;
    struct kiln_deletion **at;
    size_t count;
    bool *single; /* [count]: to be tried alone */
};

/* --- one by one ------------------------------------------------------------------------------- */

static void end_single(struct kiln_deletion *deletion, struct kiln_s3_request *request)
{
    struct kiln_error err = {.code = request->code};
    deletion->code = KILN_OK;
    if (request->code == KILN_OK || request->code == KILN_NOT_FOUND)
        return;
    snprintf(err.text, sizeof err.text, "%s", request->err.text);
    kiln_deletion_fail(deletion, &err);
}

/* Up to SINGLES of them; how many failed. */
static size_t run_singles(struct kiln_s3_store *store, struct kiln_deletion **at, size_t count)
{
    struct kiln_s3_request requests[SINGLES];
    char(*keys)[KILN_S3_KEY_SIZE] = calloc(count, sizeof *keys);
    size_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (keys)
            kiln_s3_full_key(store, at[i]->key, keys[i]);
        requests[i] =
            (struct kiln_s3_request){.method = KILN_S3_DELETE, .key = keys ? keys[i] : ""};
        if (!keys)
            requests[i].code =
                kiln_fail(&requests[i].err, KILN_NO_MEMORY, "no memory for %zu requests", count);
    }
    if (keys)
        kiln_s3_run(store->client, requests, count);
    for (size_t i = 0; i < count; i++) {
        end_single(at[i], &requests[i]);
        failed += at[i]->code != KILN_OK;
    }
    free(keys);
    return failed;
}

static void remove_singly(struct kiln_s3_store *store, struct kiln_deletion **at, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t n = count - i < SINGLES ? count - i : SINGLES;
        size_t failed = run_singles(store, at + i, n);
        struct kiln_error last = {.code = at[i + n - 1]->code};
        snprintf(last.text, sizeof last.text, "%s", at[i + n - 1]->error);
        i += n;
        for (; failed == n && i < count; i++)
            kiln_deletion_fail(at[i], &last);
    }
}

/* --- many at once ----------------------------------------------------------------------------- */

/* Keys hold nothing that XML would escape. */
static char *delete_xml(const struct chunk *chunk)
{
    struct kiln_text xml = {0};
    char key[KILN_S3_KEY_SIZE];
    kiln_text_puts(&xml, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                         "<Quiet>true</Quiet>");
    for (size_t i = 0; i < chunk->count; i++) {
        kiln_s3_full_key(chunk->store, chunk->at[i]->key, key);
        kiln_text_printf(&xml, "<Object><Key>%s</Key></Object>", key);
    }
    kiln_text_puts(&xml, "</Delete>");
    return kiln_text_take(&xml);
}

static int note_refusal(void *arg, const struct kiln_s3_refusal *refusal)
{
    struct chunk *chunk = arg;
    char key[KILN_S3_KEY_SIZE];
    struct kiln_s3_outcome outcome = kiln_s3_outcome_of_answer(0, refusal->code);
    for (size_t i = 0; i < chunk->count; i++) {
        kiln_s3_full_key(chunk->store, chunk->at[i]->key, key);
        if (strcmp(key, refusal->key) != 0)
            continue;
        struct kiln_error err;
        chunk->single[i] = outcome.action == KILN_S3_RETRY || outcome.code == KILN_PROTOCOL;
        if (outcome.code == KILN_NOT_FOUND)
            return 0;
        kiln_fail(&err, outcome.code ? outcome.code : KILN_UNAVAILABLE, "%s: %s (DELETE %s)%s%s",
                  refusal->code, refusal->message, key, outcome.hint[0] ? "; " : "", outcome.hint);
        kiln_deletion_fail(chunk->at[i], &err);
        return 0;
    }
    return 0;
}

/* A code of the request as a whole; 0: each key has its answer. */
static int post(struct chunk *chunk, struct kiln_error *err)
{
    static const struct kiln_sigv4_pair query = {"delete", ""};
    uint8_t digest[KILN_SHA256_SIZE];
    char sha256[2 * KILN_SHA256_SIZE + 1], *xml = delete_xml(chunk);
    if (!xml)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu keys", chunk->count);
    kiln_sha256(xml, strlen(xml), digest);
    kiln_hex(digest, sizeof digest, sha256);
    struct kiln_s3_request request = {.method = KILN_S3_POST,
                                      .key = "",
                                      .query = &query,
                                      .query_count = 1,
                                      .body = xml,
                                      .size = strlen(xml),
                                      .sha256 = sha256,
                                      .content_type = "application/xml",
                                      .max = ANSWER_MAX};
    kiln_s3_run(chunk->store->client, &request, 1);
    int rc = request.code
                 ? kiln_fail(err, request.code, "%s", request.err.text)
                 : kiln_s3_parse_deleted(request.data, request.data_size, note_refusal, chunk, err);
    free(request.data);
    free(xml);
    return rc;
}

static bool does_not_know(int code)
{
    return code == KILN_UNSUPPORTED || code == KILN_INTERNAL || code == KILN_PROTOCOL;
}

static void remove_chunk(struct chunk *chunk)
{
    struct kiln_error err;
    size_t singles = 0;
    int rc = chunk->store->no_batches ? KILN_UNSUPPORTED : post(chunk, &err);
    if (does_not_know(rc)) {
        chunk->store->no_batches = true;
        remove_singly(chunk->store, chunk->at, chunk->count);
        return;
    }
    for (size_t i = 0; i < chunk->count; i++)
        if (rc)
            kiln_deletion_fail(chunk->at[i], &err);
        else if (chunk->single[i])
            chunk->at[singles++] = chunk->at[i];
    if (rc == 0)
        remove_singly(chunk->store, chunk->at, singles);
}

void kiln_s3_remove_many(struct kiln_store *base, struct kiln_deletion *deletions, size_t count)
{
    struct kiln_deletion *at[KILN_DELETIONS_MAX];
    bool single[KILN_DELETIONS_MAX];
    struct kiln_s3_store *store = (struct kiln_s3_store *)base;
    for (size_t i = 0; i < count;) {
        struct chunk chunk = {.store = store, .at = at, .single = single};
        for (; i < count && chunk.count < KILN_DELETIONS_MAX; i++)
            if (deletions[i].code == KILN_OK) {
                single[chunk.count] = false;
                at[chunk.count++] = &deletions[i];
            }
        if (chunk.count)
            remove_chunk(&chunk);
    }
}
