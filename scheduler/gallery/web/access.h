/* access.h - who may ask: the Host, the origin of a form, and the token.  Pure but for the clock.
 *
 * Loopback is no protection by itself: any page in a browser can send requests to 127.0.0.1, and a
 * name that is made to point there (DNS rebinding) reads the answers.  So Host must be a name of
 * ours, and a form must come from one of our pages.  Beyond loopback there is a token as well, or a
 * proxy that has done all this.
 */
#ifndef KILN_GALLERY_ACCESS_H
#define KILN_GALLERY_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_web_attempts;

#define KILN_WEB_HOSTS_MAX 16
#define KILN_WEB_TOKEN_MIN 16 /* bytes */
#define KILN_WEB_TOKEN_MAX 256
#define KILN_WEB_SESSION_MAX 128 /* a session's cookie value */
#define KILN_WEB_SESSION_S (30 * 24 * 3600)
#define KILN_WEB_COOKIE "kiln_gallery"

/* What somebody may do; each includes those before it. */
enum kiln_web_right { KILN_WEB_NOBODY, KILN_WEB_READER, KILN_WEB_PRODUCER, KILN_WEB_RIGHTS };

struct kiln_web_access {
    char hosts[KILN_WEB_HOSTS_MAX][256]; /* lower case, without a port */
    int host_count;
    /* By right.  A reader's "": everybody may read; a producer's "": nobody may enqueue. */
    char tokens[KILN_WEB_RIGHTS][KILN_WEB_TOKEN_MAX + 1];
    char proxy[64];                     /* numeric address whose word counts; "": none */
    struct kiln_web_attempts *attempts; /* at guessing a token; shared by all threads */
};

/* Adds "a.example, b.example" to the names of the loopback; KILN_CONFIG: what is no host name. */
int kiln_web_access_hosts(struct kiln_web_access *access, const char *list,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* Reads the first line of the file that the setting names.  KILN_CONFIG: too short, too long,
 * readable by everybody, or the token of another right. */
int kiln_web_access_token(struct kiln_web_access *access, enum kiln_web_right right,
                          const char *setting, const char *path,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* Whether the header Host is one of ours, whatever its port.  local: the numeric address that the
 * connection came in at, which is allowed too, or NULL. */
bool kiln_web_host_allowed(const struct kiln_web_access *access, const char *host,
                           const char *local);

/* Whether a POST comes from a page of this host, or from a script that holds the token.  Sec-Fetch-
 * Site decides where the browser sends it, else Origin. */
bool kiln_web_origin_allowed(const char *fetch_site, const char *origin, const char *host,
                             bool bearer);

/* The right of a token, and of the token in "Bearer TOKEN"; compared in constant time. */
enum kiln_web_right kiln_web_token_right(const struct kiln_web_access *access, const char *token);
enum kiln_web_right kiln_web_bearer_right(const struct kiln_web_access *access,
                                          const char *authorization);

/* A cookie's value that says "signed in until", under a key made from the token of that right:
 * whoever changes the token ends all its sessions.  now_s: Unix time. */
void kiln_web_session_make(const struct kiln_web_access *access, enum kiln_web_right right,
                           int64_t now_s, char ret[KILN_WEB_SESSION_MAX]);
enum kiln_web_right kiln_web_session_right(const struct kiln_web_access *access, const char *value,
                                           int64_t now_s);

#endif
