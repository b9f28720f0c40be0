/* client.c - from settings to something that can send requests; see client.h.
 *
 * An endpoint is scheme, host and port.  With path-style addressing a URL is ENDPOINT/bucket/key,
 * with host-style it is SCHEME://bucket.HOST/key.  Without an endpoint it is AWS over https.
 */
#include "storage/objects/s3/client.h"

#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"

#define AWS_CHINA "cn-"

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

/* Once for the process; later users of libcurl find it started. */
static void start_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

bool kiln_s3_has_body(enum kiln_s3_method method)
{
    return method == KILN_S3_PUT || method == KILN_S3_POST;
}

const char *kiln_s3_method_name(enum kiln_s3_method method)
{
    static const char *const names[] = {"GET", "PUT", "HEAD", "DELETE", "POST"};
    return names[method];
}

/* S3's own rule for names, which is also what keeps a bucket's name safe inside a URL. */
static int check_bucket(const char *bucket, struct kiln_error *err)
{
    size_t len = strlen(bucket);
    if (len < 3 || len > 63 || strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != len ||
        strchr(".-", bucket[0]) || strchr(".-", bucket[len - 1]) || strstr(bucket, ".."))
        return kiln_fail(
            err, KILN_CONFIG,
            "store: '%s' is not a bucket name (3 to 63 of a-z 0-9 . -, a letter or digit "
            "at both ends)",
            bucket);
    return KILN_OK;
}

/* The region becomes a part of every signature's scope and of AWS's host name. */
static int check_region(const char *region, struct kiln_error *err)
{
    size_t len = strlen(region);
    if (len == 0 || len > 63 || strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-_") != len)
        return kiln_fail(err, KILN_CONFIG, "s3_region '%s' is not a region", region);
    return KILN_OK;
}

/* Takes scheme, host and port out of the URL; port NULL if it is the scheme's own. */
static int split_url(const char *text, CURLU *url, char **scheme, char **host, char **port,
                     struct kiln_error *err)
{
    char *path = NULL, *query = NULL, *user = NULL;
    bool good = curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_SCHEME, scheme, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_HOST, host, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_PATH, &path, 0) == CURLUE_OK;
    good = good && (strcmp(*scheme, "http") == 0 || strcmp(*scheme, "https") == 0) &&
           strcmp(path, "/") == 0 && curl_url_get(url, CURLUPART_QUERY, &query, 0) != CURLUE_OK &&
           curl_url_get(url, CURLUPART_USER, &user, 0) != CURLUE_OK && strlen(*host) < 200;
    if (good && curl_url_get(url, CURLUPART_PORT, port, CURLU_NO_DEFAULT_PORT) != CURLUE_OK)
        *port = NULL;
    curl_free(path);
    curl_free(query);
    curl_free(user);
    return good ? KILN_OK
                : kiln_fail(err, KILN_CONFIG,
                            "s3_endpoint '%s' must be http://host:port or https://host", text);
}

/* Fills base, host and root.  The host is written as libcurl will send it: with the port, unless it
 * is the scheme's own, or the signature would not fit. */
static int set_endpoint(struct kiln_s3_client *client, const char *endpoint, bool host_style,
                        struct kiln_error *err)
{
    CURLU *url = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;
    int code = url ? split_url(endpoint, url, &scheme, &host, &port, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory to open the store");
    if (!code) {
        snprintf(client->host, sizeof client->host, "%s%s%s%s%s", host_style ? client->bucket : "",
                 host_style ? "." : "", host, port ? ":" : "", port ? port : "");
        snprintf(client->base, sizeof client->base, "%s://%s", scheme, client->host);
        snprintf(client->root, sizeof client->root, "%s%s", host_style ? "" : "/",
                 host_style ? "" : client->bucket);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
    return code;
}

/* All that can be wrong with the settings is found here, before the first request. */
static int configure(struct kiln_s3_client *client, const struct kiln_config *config,
                     const char *bucket, struct kiln_error *err)
{
    const char *region = kiln_config_text(config, KILN_KEY_S3_REGION);
    const char *endpoint = kiln_config_text(config, KILN_KEY_S3_ENDPOINT);
    int code = check_bucket(bucket, err);
    if (!code)
        code = check_region(region, err);
    if (code)
        return code;
    snprintf(client->bucket, sizeof client->bucket, "%s", bucket);
    snprintf(client->region, sizeof client->region, "%s", region);
    char aws[160];
    if (!endpoint[0]) {
        bool china = strncmp(region, AWS_CHINA, strlen(AWS_CHINA)) == 0;
        snprintf(aws, sizeof aws, "https://s3.%s.amazonaws.com%s", region, china ? ".cn" : "");
        endpoint = aws;
    }
    bool host_style = strcmp(kiln_config_text(config, KILN_KEY_S3_ADDRESSING), "host") == 0;
    client->parallel = (uint32_t)kiln_config_int(config, KILN_KEY_UPLOAD_PARALLEL);
    client->credentials_file = strdup(kiln_config_text(config, KILN_KEY_S3_CREDENTIALS_FILE));
    client->profile = strdup(kiln_config_text(config, KILN_KEY_S3_PROFILE));
    if (!client->credentials_file || !client->profile)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open the store");
    code = set_endpoint(client, endpoint, host_style, err);
    return code ? code
                : kiln_s3_credentials_load(client->credentials_file, client->profile,
                                           &client->credentials, err);
}

int kiln_s3_client_new(const struct kiln_config *config, const char *bucket,
                       struct kiln_s3_client **ret, struct kiln_error *err)
{
    pthread_once(&curl_once, start_curl);
    if (curl_ready != CURLE_OK)
        return kiln_fail(err, KILN_INTERNAL, "libcurl does not start: %s",
                         curl_easy_strerror(curl_ready));
    struct kiln_s3_client *client = calloc(1, sizeof *client);
    if (!client)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open the store");
    client->budget = kiln_s3_budget_new(kiln_clock_ms());
    RAND_bytes((unsigned char *)&client->random, sizeof client->random);
    client->multi = curl_multi_init();
    int code = client->multi ? configure(client, config, bucket, err)
                             : kiln_fail(err, KILN_NO_MEMORY, "no memory to open the store");
    if (code) {
        kiln_s3_client_free(client);
        return code;
    }
    curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)client->parallel);
    curl_multi_setopt(client->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)client->parallel);
    curl_multi_setopt(client->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    *ret = client;
    return KILN_OK;
}

void kiln_s3_client_free(struct kiln_s3_client *client)
{
    if (!client)
        return;
    curl_multi_cleanup(client->multi);
    kiln_s3_credentials_wipe(&client->credentials);
    free(client->credentials_file);
    free(client->profile);
    free(client);
}
