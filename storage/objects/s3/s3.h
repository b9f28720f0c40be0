/* s3.h - shared by the files of the S3 store; private to storage/. */
#ifndef KILN_OBJECTSTORE_S3_H
#define KILN_OBJECTSTORE_S3_H

#include <stdio.h>

#include "schemas/limits.h"
#include "storage/objects/backend.h"
#include "storage/objects/s3/client.h"

#define KILN_S3_BUCKET_SIZE 64
#define KILN_S3_PREFIX_MAX 256
#define KILN_S3_KEY_SIZE (KILN_S3_PREFIX_MAX + 1 + KILN_OBJECT_KEY_MAX + 1)

struct kiln_s3_store {
    struct kiln_store base;
    struct kiln_s3_client *client;
    char prefix[KILN_S3_PREFIX_MAX + 2]; /* "" or with its final '/' */
    struct kiln_s3_credentials signer; /* presign.c: of URLs */
    int64_t signer_read_ms;            /* 0: not yet */
    bool no_batches; /* learned: the server does not support deleting many at once */
};

/* The key in the bucket, into out[KILN_S3_KEY_SIZE]; fits, because prefix and key were measured. */
static inline void kiln_s3_full_key(const struct kiln_s3_store *store, const char *key, char *out)
{
    snprintf(out, KILN_S3_KEY_SIZE, "%s%s", store->prefix, key);
}

/* --- presign.c ------------------------------------------------------------------------------- */
int kiln_s3_presign(struct kiln_store *base, const char *key, int64_t time_s, uint32_t expires_s,
                    char **ret, struct kiln_error *err) KILN_MUST_CHECK;
const char *kiln_s3_origin(const struct kiln_store *base);

/* --- delete.c -------------------------------------------------------------------------------- */
void kiln_s3_remove_many(struct kiln_store *base, struct kiln_deletion *deletions, size_t count);

#endif
