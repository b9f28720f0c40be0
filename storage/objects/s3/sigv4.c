/* sigv4.c - see sigv4.h.
 *
 *     canonical request = METHOD \n path \n query \n header:value \n ... \n names \n payload hash
 *     string to sign    = AWS4-HMAC-SHA256 \n date \n scope \n hex sha256(canonical request)
 *     key               = HMAC chain over "AWS4" secret: day, region, service, "aws4_request"
 *     signature         = hex HMAC(key, string to sign)
 *
 * Where signers went wrong before, so look here first: names sort by their own bytes and not as
 * "name:value" lines; a parameter without a value keeps its '='; repeated headers merge with
 * commas in their order; blanks inside a value collapse; '~' is not encoded and '+', '/' in a query
 * are.
 */
#include "storage/objects/s3/sigv4.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "schemas/digest.h"
#include "schemas/text/text.h"

#define HASH_SIZE 32
#define HEX_SIZE (2 * HASH_SIZE + 1)
#define ALGORITHM "AWS4-HMAC-SHA256"
#define SCOPE_MAX 256

char *kiln_sigv4_path(const char *path)
{
    struct kiln_text out = {0};
    kiln_text_percent(&out, path[0] ? path : "/", "/");
    return kiln_text_take(&out);
}

void kiln_sigv4_date(int64_t time_s, char out[KILN_SIGV4_DATE_SIZE])
{
    time_t t = (time_t)time_s;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || strftime(out, KILN_SIGV4_DATE_SIZE, "%Y%m%dT%H%M%SZ", &tm) == 0)
        memcpy(out, "19700101T000000Z", KILN_SIGV4_DATE_SIZE);
}

/* --- canonical query -------------------------------------------------------------------------- */

struct parameter {
    char *name, *value; /* encoded */
};

/* Sorting is by encoded name, then encoded value. */
static int by_parameter(const void *a, const void *b)
{
    const struct parameter *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->value, y->value);
}

/* One name or value of a query; a missing value is an empty one. */
static char *encoded(const char *text)
{
    struct kiln_text out = {0};
    kiln_text_puts(&out, ""); /* an empty text is a text, not a lack of memory */
    kiln_text_percent(&out, text ? text : "", "");
    return kiln_text_take(&out);
}

char *kiln_sigv4_query(const struct kiln_sigv4_pair *query, size_t count)
{
    struct parameter parameters[KILN_SIGV4_PARTS_MAX + 8] = {0};
    struct kiln_text out = {0};
    bool failed = count > sizeof parameters / sizeof *parameters;
    for (size_t i = 0; i < count && !failed; i++) {
        parameters[i].name = encoded(query[i].name);
        parameters[i].value = encoded(query[i].value);
        failed = !parameters[i].name || !parameters[i].value;
    }
    if (!failed && count)
        qsort(parameters, count, sizeof *parameters, by_parameter);
    kiln_text_puts(&out, "");
    for (size_t i = 0; i < count && !failed; i++)
        kiln_text_printf(&out, "%s%s=%s", i ? "&" : "", parameters[i].name, parameters[i].value);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        free(parameters[i].name);
        free(parameters[i].value);
    }
    if (!failed)
        return kiln_text_take(&out);
    kiln_text_release(&out);
    return NULL;
}

/* --- canonical headers ------------------------------------------------------------------------ */

/* Equal names keep the order in which they are sent. */
static int by_header(const void *a, const void *b)
{
    const struct kiln_sigv4_pair *x = *(const struct kiln_sigv4_pair *const *)a;
    const struct kiln_sigv4_pair *y = *(const struct kiln_sigv4_pair *const *)b;
    int order = strcasecmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

/* Header names are signed in lower case, whatever case is sent. */
static void add_lower(struct kiln_text *out, const char *name)
{
    for (; *name; name++) {
        char c = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
        kiln_text_add(out, &c, 1);
    }
}

/* Without blanks at the ends, and with one for each run of blanks inside. */
static void add_trimmed(struct kiln_text *out, const char *value)
{
    bool started = false, blank = false;
    for (; *value; value++) {
        if (*value == ' ' || *value == '\t') {
            blank = started;
            continue;
        }
        if (blank)
            kiln_text_puts(out, " ");
        kiln_text_add(out, value, 1);
        started = true;
        blank = false;
    }
}

/* Appends "name:value\n" lines to lines and "name;name" to names. */
static int add_headers(const struct kiln_sigv4_request *request, struct kiln_text *lines,
                       struct kiln_text *names, struct kiln_error *err)
{
    const struct kiln_sigv4_pair *sorted[KILN_SIGV4_PARTS_MAX];
    size_t count = request->header_count;
    if (count == 0 || count > KILN_SIGV4_PARTS_MAX)
        return kiln_fail(err, KILN_INTERNAL, "%zu headers to sign; 1 to %d can be", count,
                         KILN_SIGV4_PARTS_MAX);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &request->headers[i];
    qsort(sorted, count, sizeof *sorted, by_header);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcasecmp(sorted[i]->name, sorted[i - 1]->name) == 0) {
            kiln_text_puts(lines, ",");
        } else {
            kiln_text_puts(lines, i ? "\n" : "");
            kiln_text_puts(names, i ? ";" : "");
            add_lower(lines, sorted[i]->name);
            add_lower(names, sorted[i]->name);
            kiln_text_puts(lines, ":");
        }
        add_trimmed(lines, sorted[i]->value);
    }
    kiln_text_puts(lines, "\n");
    return KILN_OK;
}

/* Nothing else can go wrong in most of this file. */
static int no_memory(struct kiln_error *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "no memory to sign a request");
}

/* ret_names: the names of the signed headers.  Both are malloc'd. */
static int canonical(const struct kiln_sigv4_request *request, char **ret, char **ret_names,
                     struct kiln_error *err)
{
    struct kiln_text out = {0}, names = {0};
    char *path = kiln_sigv4_path(request->path);
    char *query = kiln_sigv4_query(request->query, request->query_count);
    int code = path && query ? KILN_OK : no_memory(err);
    if (!code) {
        kiln_text_printf(&out, "%s\n", request->method);
        kiln_text_puts(&out, path);
        kiln_text_puts(&out, "\n");
        kiln_text_puts(&out, query);
        kiln_text_puts(&out, "\n");
        code = add_headers(request, &out, &names, err);
    }
    free(path);
    free(query);
    if (!code) {
        kiln_text_puts(&out, "\n");
        kiln_text_puts(&out, names.at ? names.at : "");
        kiln_text_puts(&out, "\n");
        kiln_text_puts(&out, request->payload_hash);
    }
    char *text = code ? NULL : kiln_text_take(&out), *list = code ? NULL : kiln_text_take(&names);
    kiln_text_release(&out);
    kiln_text_release(&names);
    if (text && list) {
        *ret = text;
        *ret_names = list;
        return KILN_OK;
    }
    free(text);
    free(list);
    return code ? code : no_memory(err);
}

/* --- the signature ---------------------------------------------------------------------------- */

/* One link of the chain: HMAC-SHA256 of a text. */
static bool hmac(const void *key, size_t key_len, const char *text, unsigned char out[HASH_SIZE])
{
    unsigned len = 0;
    return HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), out,
                &len) != NULL;
}

/* The chain that binds a key to one day, region and service. */
static bool signing_key(const struct kiln_sigv4_request *request, const char *secret,
                        const char *day, unsigned char key[HASH_SIZE])
{
    struct kiln_text first = {0};
    kiln_text_puts(&first, "AWS4");
    kiln_text_puts(&first, secret);
    unsigned char step[HASH_SIZE];
    bool good = !first.failed && hmac(first.at, first.len, day, key) &&
                hmac(key, HASH_SIZE, request->region, step) &&
                hmac(step, HASH_SIZE, request->service, key) &&
                hmac(key, HASH_SIZE, "aws4_request", step);
    if (good)
        memcpy(key, step, HASH_SIZE);
    if (first.at)
        OPENSSL_cleanse(first.at, first.len);
    OPENSSL_cleanse(step, sizeof step);
    kiln_text_release(&first);
    return good;
}

/* "20130524/us-east-1/s3/aws4_request" */
static int make_scope(const struct kiln_sigv4_request *request, const char *date,
                      char out[SCOPE_MAX], struct kiln_error *err)
{
    int len = snprintf(out, SCOPE_MAX, "%.8s/%s/%s/aws4_request", date, request->region,
                       request->service);
    if (len < 0 || len >= SCOPE_MAX)
        return kiln_fail(err, KILN_CONFIG, "the S3 region '%.100s' is too long", request->region);
    return KILN_OK;
}

/* The signature in hex, and the list of the headers that it covers (malloc'd). */
static int sign(const struct kiln_sigv4_request *request, const char *secret, const char *scope,
                char signature[HEX_SIZE], char **ret_names, struct kiln_error *err)
{
    char *text = NULL, *names = NULL;
    int code = canonical(request, &text, &names, err);
    if (code)
        return code;
    char date[KILN_SIGV4_DATE_SIZE], day[9], hash[HEX_SIZE];
    unsigned char digest[HASH_SIZE] = {0}, key[HASH_SIZE];
    struct kiln_text to_sign = {0};
    kiln_sigv4_date(request->time_s, date);
    snprintf(day, sizeof day, "%.8s", date);
    bool good = EVP_Digest(text, strlen(text), digest, NULL, EVP_sha256(), NULL) == 1;
    kiln_hex(digest, HASH_SIZE, hash);
    kiln_text_printf(&to_sign, ALGORITHM "\n%s\n%s\n%s", date, scope, hash);
    good = good && !to_sign.failed && signing_key(request, secret, day, key) &&
           hmac(key, HASH_SIZE, to_sign.at, digest);
    OPENSSL_cleanse(key, sizeof key);
    kiln_text_release(&to_sign);
    free(text);
    if (!good) {
        free(names);
        return no_memory(err);
    }
    kiln_hex(digest, HASH_SIZE, signature);
    *ret_names = names;
    return KILN_OK;
}

int kiln_sigv4_authorization(const struct kiln_sigv4_request *request,
                             const struct kiln_sigv4_credentials *credentials, char **ret,
                             struct kiln_error *err)
{
    char date[KILN_SIGV4_DATE_SIZE], scope[SCOPE_MAX], signature[HEX_SIZE], *names = NULL;
    kiln_sigv4_date(request->time_s, date);
    int code = make_scope(request, date, scope, err);
    if (!code)
        code = sign(request, credentials->secret_key, scope, signature, &names, err);
    if (code)
        return code;
    struct kiln_text out = {0};
    kiln_text_printf(&out, ALGORITHM " Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                     credentials->access_key, scope, names, signature);
    free(names);
    char *text = kiln_text_take(&out);
    if (!text)
        return no_memory(err);
    *ret = text;
    return KILN_OK;
}

/* The names of the headers, needed inside the query before anything can be signed. */
static int signed_names(const struct kiln_sigv4_request *request, char **ret,
                        struct kiln_error *err)
{
    char *text = NULL;
    int code = canonical(request, &text, ret, err);
    free(text);
    return code;
}

/* The parameters of the signature are themselves signed, all but X-Amz-Signature, which comes last.
 */
int kiln_sigv4_presign(const struct kiln_sigv4_request *request,
                       const struct kiln_sigv4_credentials *credentials, uint32_t expires_s,
                       char **ret, struct kiln_error *err)
{
    if (expires_s == 0 || expires_s > KILN_SIGV4_EXPIRES_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a presigned URL lives 1 to %d seconds, not %u",
                         KILN_SIGV4_EXPIRES_MAX, expires_s);
    if (request->query_count > KILN_SIGV4_PARTS_MAX)
        return kiln_fail(err, KILN_INTERNAL, "%zu query parameters to sign; %d can be",
                         request->query_count, KILN_SIGV4_PARTS_MAX);
    char date[KILN_SIGV4_DATE_SIZE], scope[SCOPE_MAX], signature[HEX_SIZE], expires[16];
    char credential[SCOPE_MAX + 160], *names = NULL, *again = NULL;
    kiln_sigv4_date(request->time_s, date);
    int code = make_scope(request, date, scope, err);
    if (!code)
        code = signed_names(request, &names, err);
    if (code)
        return code;
    snprintf(expires, sizeof expires, "%u", expires_s);
    snprintf(credential, sizeof credential, "%.150s/%s", credentials->access_key, scope);

    struct kiln_sigv4_pair query[KILN_SIGV4_PARTS_MAX + 8];
    size_t count = request->query_count;
    if (count)
        memcpy(query, request->query, count * sizeof *query);
    query[count++] = (struct kiln_sigv4_pair){"X-Amz-Algorithm", ALGORITHM};
    query[count++] = (struct kiln_sigv4_pair){"X-Amz-Credential", credential};
    query[count++] = (struct kiln_sigv4_pair){"X-Amz-Date", date};
    query[count++] = (struct kiln_sigv4_pair){"X-Amz-Expires", expires};
    query[count++] = (struct kiln_sigv4_pair){"X-Amz-SignedHeaders", names};
    if (credentials->session_token && credentials->session_token[0])
        query[count++] =
            (struct kiln_sigv4_pair){"X-Amz-Security-Token", credentials->session_token};
    struct kiln_sigv4_request with = *request;
    with.query = query;
    with.query_count = count;
    code = sign(&with, credentials->secret_key, scope, signature, &again, err);
    char *text = NULL;
    if (!code) {
        query[count++] = (struct kiln_sigv4_pair){"X-Amz-Signature", signature};
        text = kiln_sigv4_query(query, count);
        code = text ? KILN_OK : no_memory(err);
    }
    free(names);
    free(again);
    if (!code)
        *ret = text;
    return code;
}
