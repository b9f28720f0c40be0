/* location.c - where a store lies in its bucket, and the keys of its objects there. */
#include <stdio.h>
#include <string.h>

#include "storage/objects/s3/s3.h"

int kiln_s3_locate(struct kiln_s3_store *store, const char *location,
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

void kiln_s3_full_key(const struct kiln_s3_store *store, const char *key, char *out)
{
    snprintf(out, KILN_S3_KEY_SIZE, "%s%s", store->prefix, key);
}
