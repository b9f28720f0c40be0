/* webhook.h - telling a URL that a batch has ended: where to, how signed, how often, and one try.
 *
 * Whoever writes to the bus names the URL, so a host is told only if the setting webhook_hosts
 * names it.  That keeps a client from making the scheduler send requests to addresses that only the
 * scheduler reaches.  Redirects are not followed, and of an answer only the status counts.
 *
 * A message may arrive twice: its sender may die before it notes that it arrived.  The header
 * Kiln-Delivery is the same in all attempts.  Kiln-Signature is
 *     t=<seconds since 1970>,v1=<hex HMAC-SHA256 of "t.body">      (RFC 2104, FIPS 198-1)
 * whose key is the first line of the file webhook_secret_file; t is the time of the attempt.
 */
#ifndef KILN_WEBHOOK_H
#define KILN_WEBHOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_WEBHOOK_TRY_S 10          /* the longest attempt */
#define KILN_WEBHOOK_TRIES_MAX 11      /* within ... */
#define KILN_WEBHOOK_DAY_S (24 * 3600) /* ... this time from the first one */
#define KILN_WEBHOOK_SIGNATURE_MAX 96  /* with its NUL */
#define KILN_WEBHOOK_SHOWN_MAX 300

/* Whether the text is meant as a URL: it begins with http:// or https://. */
bool kiln_webhook_is_url(const char *text);
/* KILN_BAD_INPUT, with a sentence, for what is no URL of http or https, or of a host that is not in
 * hosts: "HOST" (the usual port) or "HOST:PORT", with commas. */
int kiln_webhook_check(const char *url, const char *hosts, struct kiln_error *err) KILN_MUST_CHECK;
/* The URL as logs and people see it, "https://host:port": its path may be a secret.  Returns out.
 */
const char *kiln_webhook_shown(const char *url, char out[KILN_WEBHOOK_SHOWN_MAX]);

#define KILN_WEBHOOK_MAC_MAX 65
/* Hex HMAC-SHA256 of the text; false: OpenSSL failed. */
bool kiln_webhook_mac(const void *key, size_t key_len, const void *text, size_t len,
                      char out[KILN_WEBHOOK_MAC_MAX]);
/* The value of Kiln-Signature; false: no memory, or OpenSSL failed. */
bool kiln_webhook_sign(const char *secret, size_t secret_len, int64_t unix_s, const char *body,
                       char out[KILN_WEBHOOK_SIGNATURE_MAX]);
/* Seconds until the next attempt after `tries` failed ones, the first of them age_s ago; 0: there
 * is none, the message has failed. */
uint32_t kiln_webhook_retry_s(uint32_t tries, int64_t age_s);

struct kiln_webhook_message {
    const char *url, *delivery, *body; /* all are lent for the call */
    const char *hosts, *secret_file;   /* the settings */
};
/* One attempt, at most KILN_WEBHOOK_TRY_S; ends early once *stop is true (NULL: never).  0: the
 * answer was 2xx. */
int kiln_webhook_post(const struct kiln_webhook_message *message, const atomic_bool *stop,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
