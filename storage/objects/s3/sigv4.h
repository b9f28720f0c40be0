/* sigv4.h - AWS Signature Version 4 as S3 wants it: header form and query (presigned) form.
 *
 * Pure: no clock, no network.  Source: "Signature Version 4 signing process" and "Authenticating
 * Requests (AWS Signature Version 4)" of the S3 API reference.  The S3 rules: the path is
 * encoded once and never normalised, and x-amz-content-sha256 is the body's hash.
 */
#ifndef KILN_SIGV4_H
#define KILN_SIGV4_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_SIGV4_PARTS_MAX 24                /* headers, and likewise query parameters */
#define KILN_SIGV4_EXPIRES_MAX (7 * 24 * 3600) /* of a presigned URL, in seconds */
#define KILN_SIGV4_UNSIGNED "UNSIGNED-PAYLOAD" /* payload_hash of a presigned URL */

struct kiln_sigv4_pair {
    const char *name, *value; /* neither is encoded */
};

struct kiln_sigv4_credentials {
    const char *access_key, *secret_key;
    const char *session_token; /* NULL or "" for none */
};

struct kiln_sigv4_request {
    const char *method; /* "PUT" */
    const char *path;   /* "/bucket/key", raw */
    const struct kiln_sigv4_pair *query;
    size_t query_count;
    /* All are signed; names in any case and order.  The header form needs host, x-amz-date and,
     * if there is a token, x-amz-security-token among them. */
    const struct kiln_sigv4_pair *headers;
    size_t header_count;
    const char *payload_hash; /* hex SHA-256 of the body */
    const char *region, *service;
    int64_t time_s; /* Unix time; x-amz-date must be the same */
};

/* "20130524T000000Z" */
#define KILN_SIGV4_DATE_SIZE 17
void kiln_sigv4_date(int64_t time_s, char out[KILN_SIGV4_DATE_SIZE]);

/* The value of the Authorization header, malloc'd. */
int kiln_sigv4_authorization(const struct kiln_sigv4_request *request,
                             const struct kiln_sigv4_credentials *credentials, char **ret,
                             struct kiln_error *err) KILN_MUST_CHECK;

/* The whole query of a presigned URL (what follows '?'), malloc'd.  headers must hold host. */
int kiln_sigv4_presign(const struct kiln_sigv4_request *request,
                       const struct kiln_sigv4_credentials *credentials, uint32_t expires_s,
                       char **ret, struct kiln_error *err) KILN_MUST_CHECK;

/* The canonical query (sorted, encoded; "" for none) and the encoded path, malloc'd: what a URL
 * must carry for its signature to fit.  NULL when memory is short. */
char *kiln_sigv4_query(const struct kiln_sigv4_pair *query, size_t count);
char *kiln_sigv4_path(const char *path);

#endif
