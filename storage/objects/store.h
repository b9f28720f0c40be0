/* store.h - the object store: immutable objects under keys, in a directory or in S3.
 *
 * URLs: file:///dir and s3://bucket/prefix.  Keys use [A-Za-z0-9/._-], no "..", no leading
 * '/', at most KILN_OBJECT_KEY_MAX bytes: the encoded path is the raw path everywhere.
 * A put is idempotent: the same key with the same bytes may be put any number of times.
 * A store is used by one thread; each thread opens its own.
 */
#ifndef KILN_OBJECTSTORE_H
#define KILN_OBJECTSTORE_H

#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

struct kiln_store;

/* Opens the store of the settings store and s3_*.  Sends nothing; file:// makes the directory. */
int kiln_store_open(const struct kiln_config *config, struct kiln_store **ret,
                    struct kiln_error *err) KILN_MUST_CHECK;
void kiln_store_close(struct kiln_store *store);            /* accepts NULL */
const char *kiln_store_url(const struct kiln_store *store); /* borrowed */

struct kiln_put {
    const char *key; /* lent until the call returns */
    const void *data;
    size_t size;
    const char *content_type; /* "image/webp", "application/zstd" */
    /* results */
    char sha256[65]; /* hex, of data */
    int code;        /* 0 once the object is durable */
    bool was_there;  /* with these bytes: nothing was written.  S3 does not tell: false */
    char error[512];
};

/* Puts all objects, up to upload_parallel at a time, with the retries of s3/retry.c.  Returns 0
 * when every object is durable, else the first code; each put has its own.  A failed put may be
 * repeated. */
int kiln_store_put(struct kiln_store *store, struct kiln_put *puts, size_t count,
                   struct kiln_error *err) KILN_MUST_CHECK;

/* The caller frees *ret_data; KILN_FULL if the object is larger than max. */
int kiln_store_get(struct kiln_store *store, const char *key, size_t max, void **ret_data,
                   size_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;
/* Limits later gets to one attempt; for objects that are optional. */
void kiln_store_try_once(struct kiln_store *store, bool once);
/* For a server of pictures, one of two ways; the other one is KILN_UNSUPPORTED.  Any thread may
 * call them, as long as no other function of this store runs.
 *
 * Opens an object in a directory: a descriptor of a regular file, which the caller closes. */
int kiln_store_open_object(struct kiln_store *store, const char *key, int *ret_fd,
                           uint64_t *ret_size, struct kiln_error *err) KILN_MUST_CHECK;
/* A URL, malloc'd, from which anybody may read the object in S3 from time_s on (Unix time) for
 * expires_s; nothing is sent.  Equal times give equal URLs, so that a browser's cache holds. */
int kiln_store_presign(struct kiln_store *store, const char *key, int64_t time_s,
                       uint32_t expires_s, char **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* "https://host:port" of those URLs, borrowed; NULL for a directory. */
const char *kiln_store_origin(const struct kiln_store *store);

/* KILN_NOT_FOUND if there is none. */
int kiln_store_head(struct kiln_store *store, const char *key, uint64_t *ret_size,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Removing a missing object succeeds. */
int kiln_store_delete(struct kiln_store *store, const char *key,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* One of many objects to remove. */
struct kiln_deletion {
    const char *key; /* lent until the call returns */
    /* results */
    int code; /* 0: removed, or never there */
    char error[512];
};
#define KILN_DELETIONS_MAX 1000 /* in one request to S3 */
/* Removes them, as many in one request as the store accepts.  Returns 0 when all are removed, else
 * the first code; each has its own.  A store that refuses one after another is not asked for the
 * rest: those get the code of the last refusal. */
int kiln_store_delete_many(struct kiln_store *store, struct kiln_deletion *deletions, size_t count,
                           struct kiln_error *err) KILN_MUST_CHECK;

/* Whether the next object will fail with this code as well: the store is away, or its settings are
 * wrong. */
bool kiln_store_fails_all(int code);

/* Calls each(arg, key, size, modified_unix_s) for every object under prefix ("" = all), in key
 * order; a nonzero return of each ends the walk with that code. */
typedef int kiln_store_each(void *arg, const char *key, uint64_t size, int64_t modified_s);
int kiln_store_list(struct kiln_store *store, const char *prefix, kiln_store_each *each, void *arg,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Whether the store answers at all, whatever rights we have; one try, so this takes seconds at
 * most. */
int kiln_store_reach(struct kiln_store *store, struct kiln_error *err) KILN_MUST_CHECK;

/* The job of a probe's object: no ledger ever has one of this number, nor is it told to. */
#define KILN_PROBE_JOB 999999999999999999ULL

/* Writes, reads back and removes an object of so many bytes (0: a few) among today's pictures: may
 * we work here, and is there room for it?  Only the right to write is needed; without the others
 * that object stays. */
int kiln_store_probe(struct kiln_store *store, size_t bytes,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
