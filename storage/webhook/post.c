/* post.c - one attempt: the request signed and sent, and what its answer means. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "storage/formats/user_file.h"
#include "storage/webhook/webhook.h"

#define SECRET_FILE_MAX 4096
#define CONNECT_MS 5000L
#define ANSWER_MAX 4096 /* read of an answer's body, and dropped */

/* The first line of the file, malloc'd.  It is read for every message: a new secret needs no
 * restart. */
static int read_secret(const char *path, char **ret, struct kiln_error *err)
{
    struct kiln_error why;
    char *text;
    size_t len;
    if (!path[0])
        return kiln_fail(err, KILN_CONFIG, "webhook_secret_file is not set");
    int rc = kiln_user_file_read(path, SECRET_FILE_MAX, &text, &len, &why);
    if (rc)
        return kiln_fail(err, rc == KILN_NO_MEMORY ? rc : KILN_CONFIG, "webhook_secret_file: %s",
                         why.text);
    if (len > 0)
        text[strcspn(text, "\r\n")] = '\0';
    if (len == 0 || !text[0]) {
        free(text);
        return kiln_fail(err, KILN_CONFIG, "webhook_secret_file %s is empty", path);
    }
    *ret = text;
    return 0;
}

/* Ends the transfer once enough was read: the status is known by then. */
static size_t drop_body(char *bytes, size_t one, size_t count, void *arg)
{
    size_t *left = arg;
    (void)bytes;
    if (one * count > *left)
        return 0;
    *left -= one * count;
    return one * count;
}

static int look_up(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const atomic_bool *stop = arg;
    (void)a, (void)b, (void)c, (void)d;
    return stop && atomic_load(stop);
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    char line[256];
    snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer)
        *list = longer;
    return longer != NULL;
}

static int send_signed(const struct kiln_webhook_message *message, const char *signature,
                       const atomic_bool *stop, struct kiln_error *err)
{
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = NULL;
    char text[CURL_ERROR_SIZE] = "", shown[KILN_WEBHOOK_SHOWN_MAX];
    size_t left = ANSWER_MAX;
    long status = 0;
    if (!easy || !add_header(&headers, "Content-Type", "application/json") ||
        !add_header(&headers, "Kiln-Signature", signature) ||
        !add_header(&headers, "Kiln-Delivery", message->delivery)) {
        curl_slist_free_all(headers);
        curl_easy_cleanup(easy);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a message");
    }
    curl_easy_setopt(easy, CURLOPT_URL, message->url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, KILN_WEBHOOK_TRY_S * 1000L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "Kiln");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, message->body);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &left);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look_up);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, (void *)stop);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, text);
    CURLcode sent = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    kiln_webhook_shown(message->url, shown);
    if (sent == CURLE_ABORTED_BY_CALLBACK)
        return kiln_fail(err, KILN_CANCELLED, "%s: the scheduler ended", shown);
    if (sent != CURLE_OK && sent != CURLE_WRITE_ERROR)
        return kiln_fail(err, sent == CURLE_OPERATION_TIMEDOUT ? KILN_TIMEOUT : KILN_UNAVAILABLE,
                         "%s: %s", shown, text[0] ? text : curl_easy_strerror(sent));
    if (status / 100 != 2)
        return kiln_fail(err, KILN_UNAVAILABLE, "%s answered %ld%s", shown, status,
                         status / 100 == 3 ? "; redirects are not followed" : "");
    return 0;
}

int kiln_webhook_post(const struct kiln_webhook_message *message, const atomic_bool *stop,
                      struct kiln_error *err)
{
    char signature[KILN_WEBHOOK_SIGNATURE_MAX], *secret = NULL;
    int rc = kiln_webhook_check(message->url, message->hosts, err);
    rc = rc ? rc : read_secret(message->secret_file, &secret, err);
    if (rc)
        return rc;
    if (!kiln_webhook_sign(secret, strlen(secret), time(NULL), message->body, signature))
        rc = kiln_fail(err, KILN_INTERNAL, "no signature: OpenSSL failed");
    rc = rc ? rc : send_signed(message, signature, stop, err);
    free(secret);
    return rc;
}
