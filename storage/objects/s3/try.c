/* try.c - one HTTP exchange with S3; see client.h.
 *
 * Signed headers are exactly those that are sent: libcurl is given each of them ready, Host
 * included, and told to leave out Expect.  A body is sent from the caller's memory and can be
 * rewound, so that libcurl may repeat it on a new connection when a kept one turns out dead.
 *
 * Every limit is set here: libcurl's own are 5 minutes to connect and none for the rest.  No
 * redirect is followed, since a signature fits one host only, and https is always verified.
 * Programs that use this ignore SIGPIPE: libcurl in threads cannot do it for them.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "schemas/text/text.h"
#include "storage/objects/s3/client.h"

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define CONNECT_MS 2000L
#define STALL_BYTES_PER_S 1024L /* slower than this for STALL_S is a hanging server */
#define STALL_S 6L
#define MANY_MS 120000L /* a deletion of a thousand objects */
#define MANY_STALL_S 60L
#define IDLE_S 60L /* a kept connection is not used after this */
#define ERROR_BODY_MAX (64 * 1024)
/* Objects are named by what they hold, so a gallery before the bucket may keep them for ever. */
#define IMMUTABLE "public, max-age=31536000, immutable"
#define HEADERS_MAX 8
#define UPLOAD_BUFFER (256L * 1024)

/* --- what libcurl calls ----------------------------------------------------------------------- */

/* libcurl asks for the next piece of the body. */
static size_t send_body(char *out, size_t size, size_t count, void *arg)
{
    struct kiln_s3_try *try = arg;
    size_t room = size * count, left = try->request->size - try->sent;
    size_t n = left < room ? left : room;
    if (n > 0)
        memcpy(out, (const char *)try->request->body + try->sent, n);
    try->sent += n;
    return n;
}

/* libcurl goes back to send the body again on another connection. */
static int rewind_body(void *arg, curl_off_t offset, int origin)
{
    struct kiln_s3_try *try = arg;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > try->request->size)
        return CURL_SEEKFUNC_FAIL;
    try->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* Doubles, but never past max: an answer cannot take more memory than was asked for. */
static bool grow(struct kiln_s3_try *try, size_t needed, size_t max)
{
    size_t room = try->data_room ? try->data_room : 16 * 1024;
    while (room < needed)
        room *= 2;
    room = room > max ? max : room;
    char *data = realloc(try->data, room + 1);
    if (!data)
        return false;
    try->data = data;
    try->data_room = room;
    return true;
}

/* An error's body is kept as far as it fits; an object that is larger than asked ends the try. */
static size_t take_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct kiln_s3_try *try = arg;
    long status = 0;
    curl_easy_getinfo(try->easy, CURLINFO_RESPONSE_CODE, &status);
    bool good = status >= 200 && status < 300;
    size_t max = good ? try->request->max : ERROR_BODY_MAX;
    size_t n = size * count, room = max - (try->data_size < max ? try->data_size : max);
    if (n > room && good) {
        try->too_large = true;
        return 0;
    }
    size_t keep = n < room ? n : room;
    if (try->data_size + keep > try->data_room && !grow(try, try->data_size + keep, max)) {
        try->no_memory = true;
        return 0;
    }
    if (keep)
        memcpy(try->data + try->data_size, bytes, keep);
    try->data_size += keep;
    return n;
}

/* --- building --------------------------------------------------------------------------------- */

/* What is signed, as it will be sent. */
struct built {
    char date[KILN_SIGV4_DATE_SIZE];
    struct kiln_sigv4_pair headers[HEADERS_MAX];
    size_t count;
    char *path, *query, *raw_path, *authorization;
};

static void built_release(struct built *b)
{
    free(b->path);
    free(b->query);
    free(b->raw_path);
    free(b->authorization);
}

static void add_pair(struct built *b, const char *name, const char *value)
{
    b->headers[b->count++] = (struct kiln_sigv4_pair){name, value};
}

/* Puts the headers together and signs them.  The clock is the server's, as far as it is known. */
static int sign(struct kiln_s3_client *client, const struct kiln_s3_try *try,
                const char *content_md5, struct built *b, struct kiln_error *err)
{
    const struct kiln_s3_request *r = try->request;
    bool body = kiln_s3_has_body(try->method);
    int64_t now = (int64_t)time(NULL) + client->clock_offset_s;
    const char *hash = body ? r->sha256 : EMPTY_SHA256;
    kiln_sigv4_date(now, b->date);
    add_pair(b, "Host", client->host);
    add_pair(b, "x-amz-date", b->date);
    add_pair(b, "x-amz-content-sha256", hash);
    if (body && content_md5[0])
        add_pair(b, "Content-MD5", content_md5);
    if (body)
        add_pair(b, "Content-Type", r->content_type ? r->content_type : "application/octet-stream");
    if (body && r->content_type && strncmp(r->content_type, "image/", 6) == 0)
        add_pair(b, "Cache-Control", IMMUTABLE);
    if (client->credentials.session_token[0])
        add_pair(b, "x-amz-security-token", client->credentials.session_token);

    struct kiln_text path = {0};
    kiln_text_printf(&path, "%s/%s", client->root, r->key);
    b->raw_path = kiln_text_take(&path);
    b->path = b->raw_path ? kiln_sigv4_path(b->raw_path) : NULL;
    b->query = kiln_sigv4_query(r->query, r->query_count);
    if (!b->path || !b->query)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to send a request");
    const struct kiln_sigv4_request request = {.method = kiln_s3_method_name(try->method),
                                               .path = b->raw_path,
                                               .query = r->query,
                                               .query_count = r->query_count,
                                               .headers = b->headers,
                                               .header_count = b->count,
                                               .payload_hash = hash,
                                               .region = client->region,
                                               .service = "s3",
                                               .time_s = now};
    const struct kiln_sigv4_credentials keys = {client->credentials.access_key,
                                                client->credentials.secret_key,
                                                client->credentials.session_token};
    return kiln_sigv4_authorization(&request, &keys, &b->authorization, err);
}

/* One line for libcurl; an empty value removes a header that libcurl would add. */
static bool add_header(struct kiln_s3_try *try, const char *name, const char *value)
{
    struct kiln_text line = {0};
    kiln_text_printf(&line, "%s:%s", name, value[0] ? " " : "");
    kiln_text_puts(&line, value);
    char *text = kiln_text_take(&line);
    struct curl_slist *list = text ? curl_slist_append(try->headers, text) : NULL;
    free(text);
    if (list)
        try->headers = list;
    return list != NULL;
}

/* Exactly the signed headers, and the signature. */
static bool add_headers(struct kiln_s3_try *try, const struct built *b)
{
    bool good = add_header(try, "Expect", ""); /* removes libcurl's own */
    for (size_t i = 0; i < b->count && good; i++)
        good = add_header(try, b->headers[i].name, b->headers[i].value);
    return good && add_header(try, "Authorization", b->authorization);
}

/* Time limits, security, and how connections are kept. */
static void set_limits(CURL *easy, bool fresh, uint32_t deadline_ms, bool many)
{
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
                     many && deadline_ms < MANY_MS ? MANY_MS : (long)deadline_ms);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES_PER_S);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, many ? MANY_STALL_S : STALL_S);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, IDLE_S);
    curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, fresh ? 0L : 60L);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, (long)fresh);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
}

/* A body goes through UPLOAD and not through POSTFIELDS: that one would name a content type. */
static void set_method(struct kiln_s3_try *try)
{
    CURL *easy = try->easy;
    switch (try->method) {
    case KILN_S3_GET:
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        break;
    case KILN_S3_HEAD:
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        break;
    case KILN_S3_DELETE:
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
        break;
    case KILN_S3_POST:
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "POST");
        /* fall through */
    case KILN_S3_PUT:
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)try->request->size);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, send_body);
        curl_easy_setopt(easy, CURLOPT_READDATA, try);
        curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, rewind_body);
        curl_easy_setopt(easy, CURLOPT_SEEKDATA, try);
        curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER);
        break;
    }
}

/* The URL carries the canonical query, and PATH_AS_IS keeps libcurl from tidying the path. */
static bool set_url(CURL *easy, const struct kiln_s3_client *client, const struct built *b)
{
    struct kiln_text url = {0};
    kiln_text_puts(&url, client->base);
    kiln_text_puts(&url, b->path);
    kiln_text_puts(&url, b->query[0] ? "?" : "");
    kiln_text_puts(&url, b->query);
    char *text = kiln_text_take(&url);
    bool good = text && curl_easy_setopt(easy, CURLOPT_URL, text) == CURLE_OK;
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    free(text);
    return good;
}

int kiln_s3_try_start(struct kiln_s3_client *client, struct kiln_s3_try *try, bool fresh,
                      uint32_t deadline_ms, const char *content_md5, struct kiln_error *err)
{
    struct built b = {0};
    int code = sign(client, try, content_md5, &b, err);
    try->easy = code ? NULL : curl_easy_init();
    try->generation = client->generation;
    bool good = try->easy && add_headers(try, &b) && set_url(try->easy, client, &b);
    if (good) {
        set_limits(try->easy, fresh, deadline_ms, try->method == KILN_S3_POST);
        set_method(try);
        curl_easy_setopt(try->easy, CURLOPT_HTTPHEADER, try->headers);
        curl_easy_setopt(try->easy, CURLOPT_ERRORBUFFER, try->text);
        curl_easy_setopt(try->easy, CURLOPT_WRITEFUNCTION, take_body);
        curl_easy_setopt(try->easy, CURLOPT_WRITEDATA, try);
        curl_easy_setopt(try->easy, CURLOPT_PRIVATE, try);
        good = curl_multi_add_handle(client->multi, try->easy) == CURLM_OK;
    }
    built_release(&b);
    if (!code && !good) {
        kiln_s3_try_end(client, try);
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory to send a request");
    }
    return code;
}

/* --- the answer ------------------------------------------------------------------------------- */

/* A header of the last answer on this handle, "" if it has none; borrowed. */
static const char *header_of(CURL *easy, const char *name)
{
    struct curl_header *header = NULL;
    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return "";
    return header->value;
}

/* The MD5 in an ETag.  It is none for multipart objects ("...-7"), nor when the server encrypts
 * with keys of its own. */
static void read_etag(CURL *easy, char out[72])
{
    const char *etag = header_of(easy, "ETag");
    size_t quote = etag[0] == '"', len = strlen(etag);
    const char *encryption = header_of(easy, "x-amz-server-side-encryption");
    const char *customer = header_of(easy, "x-amz-server-side-encryption-customer-algorithm");
    out[0] = '\0';
    if (len != 32 + 2 * quote || strspn(etag + quote, "0123456789abcdefABCDEF") != 32 ||
        strncmp(encryption, "aws:kms", 7) == 0 || customer[0])
        return;
    memcpy(out, etag + quote, 32);
    out[32] = '\0';
}

void kiln_s3_try_read(struct kiln_s3_try *try, CURLcode transport, struct kiln_s3_answer *ret)
{
    *ret = (struct kiln_s3_answer){.transport = (int)transport};
    curl_off_t length = -1;
    curl_easy_getinfo(try->easy, CURLINFO_RESPONSE_CODE, &ret->status);
    curl_easy_getinfo(try->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    ret->length = length > 0 ? (uint64_t)length : 0;
    ret->body_sent = kiln_s3_has_body(try->method) && try->sent == try->request->size;
    const char *date = header_of(try->easy, "Date");
    time_t parsed = date[0] ? curl_getdate(date, NULL) : -1;
    ret->date_s = parsed > 0 ? (int64_t)parsed : 0;
    read_etag(try->easy, ret->etag);
    if (ret->status >= 300 && try->data_size > 0)
        kiln_s3_parse_error(try->data, try->data_size, &ret->error);
}

void kiln_s3_try_end(struct kiln_s3_client *client, struct kiln_s3_try *try)
{
    if (try->easy) {
        curl_multi_remove_handle(client->multi, try->easy); /* no-op if it was never added */
        curl_easy_cleanup(try->easy);
    }
    curl_slist_free_all(try->headers);
    free(try->data);
    try->easy = NULL;
    try->headers = NULL;
    try->data = NULL;
    try->data_size = try->data_room = try->sent = 0;
    try->too_large = try->no_memory = false;
    try->text[0] = '\0';
}
