/* webhook.c - which URLs are told, the signature, and the times of the attempts.
 *
 * The URL is parsed by curl, which also sends the message: two parsers that disagree about the host
 * would undo the rule.
 */
#include "storage/webhook/webhook.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "schemas/digest.h"
#include "schemas/text/text.h"

#define RETRY_FIRST_S 2u
#define RETRY_GROWTH 4u
#define RETRY_MAX_S (4u * 3600)

bool kiln_webhook_is_url(const char *text)
{
    return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

/* --- the rule about hosts -------------------------------------------------------------------- */

/* What curl makes of a URL; the parts are curl's. */
struct place {
    char *scheme, *host, *port;
};

static void release(struct place *place)
{
    curl_free(place->scheme);
    curl_free(place->host);
    curl_free(place->port);
}

static bool parse(const char *url, struct place *ret)
{
    CURLU *parts = curl_url();
    *ret = (struct place){0};
    bool good = parts && kiln_webhook_is_url(url) &&
                curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_SCHEME, &ret->scheme, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_HOST, &ret->host, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_PORT, &ret->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    curl_url_cleanup(parts);
    if (!good)
        release(ret);
    return good;
}

/* Whether an element of the list, of that length, stands for the place. */
static bool allows(const char *element, size_t len, const struct place *place)
{
    const char *usual = strcasecmp(place->scheme, "https") == 0 ? "443" : "80";
    size_t host_len = len;
    for (size_t i = len; i > 0 && element[i - 1] != ']'; i--)
        if (element[i - 1] == ':') {
            host_len = i - 1;
            break;
        }
    const char *port = host_len < len ? element + host_len + 1 : usual;
    size_t port_len = host_len < len ? len - host_len - 1 : strlen(usual);
    return strlen(place->host) == host_len && strncasecmp(place->host, element, host_len) == 0 &&
           strlen(place->port) == port_len && strncmp(place->port, port, port_len) == 0;
}

static bool is_allowed(const char *hosts, const struct place *place)
{
    static const char between[] = ", \t";
    for (const char *at = hosts + strspn(hosts, between); *at; at += strspn(at, between)) {
        size_t len = strcspn(at, between);
        if (allows(at, len, place))
            return true;
        at += len;
    }
    return false;
}

int kiln_webhook_check(const char *url, const char *hosts, struct kiln_error *err)
{
    struct place place;
    if (!parse(url, &place))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "not a URL of http or https without a user: \"%.200s\"", url);
    int rc = 0;
    if (!hosts[strspn(hosts, ", \t")])
        rc = kiln_fail(err, KILN_BAD_INPUT,
                       "the setting webhook_hosts is empty, so no host may be notified");
    else if (!is_allowed(hosts, &place))
        rc = kiln_fail(err, KILN_BAD_INPUT, "%.200s at port %s is not in the setting webhook_hosts",
                       place.host, place.port);
    release(&place);
    return rc;
}

const char *kiln_webhook_shown(const char *url, char out[KILN_WEBHOOK_SHOWN_MAX])
{
    struct place place;
    snprintf(out, KILN_WEBHOOK_SHOWN_MAX, "?");
    if (parse(url, &place)) {
        snprintf(out, KILN_WEBHOOK_SHOWN_MAX, "%s://%s:%s", place.scheme, place.host, place.port);
        release(&place);
    }
    return out;
}

/* --- the signature --------------------------------------------------------------------------- */

bool kiln_webhook_mac(const void *key, size_t key_len, const void *text, size_t len,
                      char out[KILN_WEBHOOK_MAC_MAX])
{
    uint8_t digest[KILN_SHA256_SIZE];
    if (!HMAC(EVP_sha256(), key, (int)key_len, text, len, digest, NULL))
        return false;
    kiln_hex(digest, sizeof digest, out);
    return true;
}

bool kiln_webhook_sign(const char *secret, size_t secret_len, int64_t unix_s, const char *body,
                       char out[KILN_WEBHOOK_SIGNATURE_MAX])
{
    struct kiln_text text = {0};
    char mac[KILN_WEBHOOK_MAC_MAX];
    kiln_text_printf(&text, "%lld.%s", (long long)unix_s, body);
    bool good = !text.failed && kiln_webhook_mac(secret, secret_len, text.at, text.len, mac);
    kiln_text_release(&text);
    if (good)
        snprintf(out, KILN_WEBHOOK_SIGNATURE_MAX, "t=%lld,v1=%s", (long long)unix_s, mac);
    return good;
}

/* --- the times ------------------------------------------------------------------------------- */

uint32_t kiln_webhook_retry_s(uint32_t tries, int64_t age_s)
{
    uint32_t wait_s = RETRY_FIRST_S;
    if (tries == 0 || tries >= KILN_WEBHOOK_TRIES_MAX)
        return 0;
    for (uint32_t i = 1; i < tries && wait_s < RETRY_MAX_S; i++)
        wait_s *= RETRY_GROWTH;
    wait_s = wait_s < RETRY_MAX_S ? wait_s : RETRY_MAX_S;
    return age_s + wait_s <= KILN_WEBHOOK_DAY_S ? wait_s : 0;
}
