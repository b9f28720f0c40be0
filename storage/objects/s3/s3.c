/* s3.c - objects in a bucket: the verbs of store.h as S3 requests.
 *
 * A store of s3://bucket/prefix puts the object "a/b" under the key "prefix/a/b".  An object is
 * durable when S3 has answered its PUT with 200: there is nothing to sync.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/objects/s3/s3.h"

#define PAGE_BYTES_MAX (8 * 1024 * 1024) /* 1000 keys of 1 KiB, escaped */

static struct kiln_s3_store *s3_store(struct kiln_store *store)
{
    return (struct kiln_s3_store *)store;
}

/* Runs one request without a body. */
static int run_one(struct kiln_s3_store *store, struct kiln_s3_request *request, const char *key,
                   struct kiln_error *err)
{
    char full[KILN_S3_KEY_SIZE];
    kiln_s3_full_key(store, key, full);
    request->key = full;
    kiln_s3_run(store->client, request, 1);
    request->key = key;
    return request->code ? kiln_fail(err, request->code, "%s", request->err.text) : KILN_OK;
}

/* The same reason for every put that has not failed yet. */
static void fail_all(struct kiln_put *puts, size_t count, const struct kiln_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (puts[i].code == KILN_OK)
            kiln_put_fail(&puts[i], err);
}

/* All puts in one run, so that they share the connections and the limit on tries in flight. */
static void s3_put(struct kiln_store *base, struct kiln_put *puts, size_t count)
{
    struct kiln_s3_store *store = s3_store(base);
    struct kiln_error err = {0};
    struct kiln_s3_request *requests = calloc(count + 1, sizeof *requests);
    char(*keys)[KILN_S3_KEY_SIZE] = calloc(count + 1, sizeof *keys);
    size_t used = 0;
    if (!requests || !keys) {
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for %zu requests", count);
        fail_all(puts, count, &err);
    } else {
        for (size_t i = 0; i < count; i++) {
            if (puts[i].code)
                continue;
            kiln_s3_full_key(store, puts[i].key, keys[used]);
            requests[used] = (struct kiln_s3_request){.method = KILN_S3_PUT,
                                                      .key = keys[used],
                                                      .body = puts[i].data,
                                                      .size = puts[i].size,
                                                      .sha256 = puts[i].sha256,
                                                      .content_type = puts[i].content_type};
            used++;
        }
        kiln_s3_run(store->client, requests, used);
    }
    for (size_t i = 0, n = 0; i < count && n < used; i++) {
        if (puts[i].code)
            continue;
        const struct kiln_s3_request *r = &requests[n++];
        if (r->code)
            kiln_put_fail(&puts[i], &r->err);
    }
    free(requests);
    free(keys);
}

static int s3_get(struct kiln_store *base, const char *key, size_t max, void **ret_data,
                  size_t *ret_size, struct kiln_error *err)
{
    struct kiln_s3_request request = {.method = KILN_S3_GET, .max = max, .once = base->once};
    int code = run_one(s3_store(base), &request, key, err);
    if (code)
        return code;
    *ret_data = request.data;
    *ret_size = request.data_size;
    return KILN_OK;
}

static int s3_head(struct kiln_store *base, const char *key, uint64_t *ret_size,
                   struct kiln_error *err)
{
    struct kiln_s3_request request = {.method = KILN_S3_HEAD};
    int code = run_one(s3_store(base), &request, key, err);
    if (!code)
        *ret_size = request.length;
    return code;
}

/* The bucket itself: a key that may only put is refused, which is an answer. */
static int s3_reach(struct kiln_store *base, struct kiln_error *err)
{
    struct kiln_s3_request request = {.method = KILN_S3_HEAD, .key = "", .once = true};
    kiln_s3_run(s3_store(base)->client, &request, 1);
    return request.code ? kiln_fail(err, request.code, "%s", request.err.text) : KILN_OK;
}

/* S3 says 204 and Swift 404 for what is not there. */
static int s3_remove(struct kiln_store *base, const char *key, struct kiln_error *err)
{
    struct kiln_s3_request request = {.method = KILN_S3_DELETE};
    int code = run_one(s3_store(base), &request, key, err);
    return code == KILN_NOT_FOUND ? KILN_OK : code;
}

/* What note_entry needs of the walk. */
struct listing {
    const struct kiln_s3_store *store;
    kiln_store_each *each;
    void *arg;
};

/* Passes on what can be ours; other programs' objects may lie in the bucket too. */
static int note_entry(void *arg, const struct kiln_s3_entry *entry)
{
    const struct listing *listing = arg;
    size_t skip = strlen(listing->store->prefix);
    if (strncmp(entry->key, listing->store->prefix, skip) != 0 ||
        kiln_store_check_key(entry->key + skip, NULL))
        return KILN_OK;
    return listing->each(listing->arg, entry->key + skip, entry->size, entry->modified_s);
}

/* One page, and the token of the next in *page. */
static int list_page(struct kiln_s3_store *store, const char *prefix, struct listing *listing,
                     struct kiln_s3_page *page, struct kiln_error *err)
{
    struct kiln_sigv4_pair query[4] = {
        {"list-type", "2"}, {"max-keys", "1000"}, {"prefix", prefix}};
    size_t count = 3;
    if (page->token[0])
        query[count++] = (struct kiln_sigv4_pair){"continuation-token", page->token};
    struct kiln_s3_request request = {.method = KILN_S3_GET,
                                      .key = "",
                                      .query = query,
                                      .query_count = count,
                                      .max = PAGE_BYTES_MAX};
    kiln_s3_run(store->client, &request, 1);
    if (request.code)
        return kiln_fail(err, request.code, "list %s: %s", prefix, request.err.text);
    int code = kiln_s3_parse_list(request.data, request.data_size, note_entry, listing, page, err);
    free(request.data);
    return code;
}

/* Page after page.  A server that gives the same token twice would keep us here for ever. */
static int s3_list(struct kiln_store *base, const char *prefix, kiln_store_each *each, void *arg,
                   struct kiln_error *err)
{
    struct kiln_s3_store *store = s3_store(base);
    struct listing listing = {store, each, arg};
    struct kiln_s3_page *page = calloc(1, sizeof *page);
    if (!page)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to list %s", base->url);
    char full[KILN_S3_KEY_SIZE], last[sizeof page->token];
    kiln_s3_full_key(store, prefix, full);
    int code;
    do {
        memcpy(last, page->token, sizeof last);
        code = list_page(store, full, &listing, page, err);
        if (!code && page->truncated && strcmp(last, page->token) == 0)
            code = kiln_fail(err, KILN_PROTOCOL, "list %s: the server repeats a page", base->url);
    } while (!code && page->truncated);
    free(page);
    return code;
}

static void s3_close(struct kiln_store *base)
{
    kiln_s3_client_free(s3_store(base)->client);
    kiln_s3_credentials_wipe(&s3_store(base)->signer);
    free(base);
}

static const struct kiln_store_ops s3_ops = {
    .put = s3_put,
    .get = s3_get,
    .head = s3_head,
    .reach = s3_reach,
    .remove = s3_remove,
    .remove_many = kiln_s3_remove_many,
    .list = s3_list,
    .presign = kiln_s3_presign,
    .origin = kiln_s3_origin,
    .close = s3_close,
};

/* "bucket/some/prefix/" to the bucket's name and the store's prefix. */
static int locate(struct kiln_s3_store *store, const char *location,
                  char bucket[KILN_S3_BUCKET_SIZE], struct kiln_error *err)
{
    size_t len = strcspn(location, "/");
    if (len >= KILN_S3_BUCKET_SIZE)
        return kiln_fail(err, KILN_CONFIG, "store: s3://%s: the bucket's name is too long",
                         location);
    snprintf(bucket, KILN_S3_BUCKET_SIZE, "%.*s", (int)len, location);
    const char *prefix = location[len] ? location + len + 1 : "";
    size_t prefix_len = strlen(prefix);
    while (prefix_len > 0 && prefix[prefix_len - 1] == '/')
        prefix_len--;
    if (prefix_len > KILN_S3_PREFIX_MAX)
        return kiln_fail(err, KILN_CONFIG, "store: s3://%s: a prefix has at most %d bytes",
                         location, KILN_S3_PREFIX_MAX);
    snprintf(store->prefix, sizeof store->prefix, "%.*s", (int)prefix_len, prefix);
    if (prefix_len == 0)
        return KILN_OK;
    if (kiln_store_check_key(store->prefix, err))
        return kiln_fail(err, KILN_CONFIG, "store: s3://%s: %s", location, err ? err->text : "");
    store->prefix[prefix_len] = '/';
    store->prefix[prefix_len + 1] = '\0';
    return KILN_OK;
}

int kiln_store_open_s3(const struct kiln_config *config, const char *location,
                       struct kiln_store **ret, struct kiln_error *err)
{
    struct kiln_s3_store *store = calloc(1, sizeof *store);
    if (!store)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open s3://%s", location);
    char bucket[KILN_S3_BUCKET_SIZE];
    store->base.ops = &s3_ops;
    int code = locate(store, location, bucket, err);
    if (!code)
        code = kiln_s3_client_new(config, bucket, &store->client, err);
    if (code) {
        free(store);
        return code;
    }
    *ret = &store->base;
    return KILN_OK;
}
