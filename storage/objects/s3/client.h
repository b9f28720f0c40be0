/* client.h - requests to one bucket: many in parallel over one curl multi handle, each repeated
 * until its outcome is certain.  Private to storage/.
 *
 *     client.c   the endpoint, credentials and clock of a store
 *     try.c      one HTTP exchange: built, signed, sent, its answer read
 *     run.c      many requests at once, and what to do after each try (table: retry.c)
 */
#ifndef KILN_S3_CLIENT_H
#define KILN_S3_CLIENT_H

#include <curl/curl.h>

#include "schemas/config/config.h"
#include "storage/objects/s3/credentials.h"
#include "storage/objects/s3/retry.h"
#include "storage/objects/s3/sigv4.h"
#include "storage/objects/s3/xml.h"

enum kiln_s3_method { KILN_S3_GET, KILN_S3_PUT, KILN_S3_HEAD, KILN_S3_DELETE, KILN_S3_POST };
/* Whether requests of the method carry a body. */
bool kiln_s3_has_body(enum kiln_s3_method method);
const char *kiln_s3_method_name(enum kiln_s3_method method);

struct kiln_s3_client {
    char base[320]; /* "https://host:port", of every URL */
    char host[300]; /* "host:port" as in the Host header */
    char root[72];  /* "/bucket" with path-style addressing, "" with host-style */
    char bucket[64], region[64];
    CURLM *multi;      /* owns the connections */
    uint32_t parallel; /* tries in flight */
    char *credentials_file, *profile;
    struct kiln_s3_credentials credentials;
    uint32_t generation;    /* of the credentials; grows with every renewal */
    int64_t clock_offset_s; /* server's clock minus ours, once learned */
    struct kiln_s3_budget budget;
    uint64_t random;
};

/* Checks the settings and reads the credentials; sends nothing. */
int kiln_s3_client_new(const struct kiln_config *config, const char *bucket,
                       struct kiln_s3_client **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_s3_client_free(struct kiln_s3_client *client); /* accepts NULL */

struct kiln_s3_request {
    enum kiln_s3_method method;
    const char *key; /* in the bucket; "" for the bucket itself */
    const struct kiln_sigv4_pair *query;
    size_t query_count;
    const void *body; /* of a PUT or POST; all of these are lent until the run ends */
    size_t size;
    const char *sha256, *content_type;
    size_t max; /* most bytes of the answer to a GET or POST */
    bool once;  /* one try only: the caller repeats it */
    /* results */
    int code;
    struct kiln_error err;
    char error_code[64]; /* the server's <Code>, "" if none */
    char *data;          /* of a GET or POST, malloc'd; the caller frees it */
    size_t data_size;
    uint64_t length; /* Content-Length of a HEAD */
};

/* Runs all requests to their end and fills their results. */
void kiln_s3_run(struct kiln_s3_client *client, struct kiln_s3_request *requests, size_t count);

/* --- one try ---------------------------------------------------------------------------------- */

struct kiln_s3_try {
    const struct kiln_s3_request *request;
    enum kiln_s3_method method; /* HEAD when a PUT is verified */
    CURL *easy;                 /* NULL when no try is under way */
    struct curl_slist *headers;
    size_t sent; /* bytes of the body that curl has */
    char *data;  /* of the answer */
    size_t data_size, data_room;
    bool too_large, no_memory;
    uint32_t generation; /* of the credentials it was signed with */
    char text[CURL_ERROR_SIZE];
};

struct kiln_s3_answer {
    int transport; /* CURLcode */
    long status;
    struct kiln_s3_error error;
    char etag[72];   /* hex MD5 of the object, "" if the server gave none that is one */
    uint64_t length; /* Content-Length; meaningful for HEAD */
    int64_t date_s;  /* of the Date header, 0 without one */
    bool body_sent;  /* the whole body had gone out */
};

/* Builds and signs the exchange and adds it to the client's multi handle.  fresh: on a new
 * connection with a new name lookup. */
int kiln_s3_try_start(struct kiln_s3_client *client, struct kiln_s3_try *try, bool fresh,
                      uint32_t deadline_ms, const char *content_md5,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Reads the answer of a finished exchange; try->data stays with the try. */
void kiln_s3_try_read(struct kiln_s3_try *try, CURLcode transport, struct kiln_s3_answer *ret);
/* Removes the exchange from the multi handle, finished or not, and frees it. */
void kiln_s3_try_end(struct kiln_s3_client *client, struct kiln_s3_try *try);

#endif
