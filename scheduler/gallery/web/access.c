/* access.c - see access.h. */
#include "scheduler/gallery/web/access.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "schemas/digest.h"

#define SESSION_LABEL "kiln gallery session "

static bool is_host_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr(".-_:[]", c);
}

static int add_host(struct kiln_web_access *access, const char *name, size_t len,
                    struct kiln_error *err)
{
    if (access->host_count == KILN_WEB_HOSTS_MAX)
        return kiln_fail(err, KILN_CONFIG, "gallery_hosts has more than %d names",
                         KILN_WEB_HOSTS_MAX - 3);
    char *host = access->hosts[access->host_count];
    bool good = len > 0 && len < sizeof access->hosts[0];
    for (size_t i = 0; good && i < len; i++) {
        host[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 0x20) : name[i];
        good = is_host_letter(host[i]);
    }
    if (!good)
        return kiln_fail(err, KILN_CONFIG,
                         "gallery_hosts: \"%.*s\" is not a host name; write names as browsers "
                         "show them, without port, separated by commas",
                         len < 80 ? (int)len : 80, name);
    host[len] = '\0';
    access->host_count++;
    return 0;
}

int kiln_web_access_hosts(struct kiln_web_access *access, const char *list, struct kiln_error *err)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof loopback / sizeof *loopback; i++)
        rc = add_host(access, loopback[i], strlen(loopback[i]), err);
    for (const char *at = list; rc == 0 && *at;) {
        at += strspn(at, " ,\t");
        size_t len = strcspn(at, " ,\t");
        if (len > 0)
            rc = add_host(access, at, len, err);
        at += len;
    }
    return rc;
}

int kiln_web_access_token(struct kiln_web_access *access, enum kiln_web_right right,
                          const char *setting, const char *path, struct kiln_error *err)
{
    char line[KILN_WEB_TOKEN_MAX + 3] = "";
    struct stat st = {0};
    FILE *file = fopen(path, "re");
    if (!file)
        return kiln_fail(err, KILN_CONFIG, "%s %s: %s", setting, path, strerror(errno));
    bool read = fgets(line, sizeof line, file) != NULL && fstat(fileno(file), &st) == 0;
    fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    size_t len = strlen(line);
    if (!read || len < KILN_WEB_TOKEN_MIN || len > KILN_WEB_TOKEN_MAX)
        return kiln_fail(err, KILN_CONFIG,
                         "%s %s: its first line must have %d to %d characters; make one with: "
                         "openssl rand -hex 32",
                         setting, path, KILN_WEB_TOKEN_MIN, KILN_WEB_TOKEN_MAX);
    if (st.st_mode & (S_IROTH | S_IWOTH))
        return kiln_fail(err, KILN_CONFIG, "%s %s can be read by every user; run: chmod 600 %s",
                         setting, path, path);
    if (kiln_web_token_right(access, line) != KILN_WEB_NOBODY)
        return kiln_fail(err, KILN_CONFIG,
                         "%s %s has the token of the readers; a producer needs one of its own",
                         setting, path);
    snprintf(access->tokens[right], sizeof access->tokens[right], "%s", line);
    OPENSSL_cleanse(line, sizeof line);
    return 0;
}

/* The length of the name in front of a port. */
static size_t name_length(const char *host)
{
    if (host[0] == '[') {
        const char *end = strchr(host, ']');
        return end ? (size_t)(end + 1 - host) : 0;
    }
    return strcspn(host, ":");
}

/* Whether what follows the name is nothing or a port. */
static bool is_port(const char *text)
{
    size_t digits = text[0] == ':' ? strspn(text + 1, "0123456789") : 0;
    return text[0] == '\0' || (digits > 0 && digits <= 5 && text[1 + digits] == '\0');
}

bool kiln_web_host_allowed(const struct kiln_web_access *access, const char *host,
                           const char *local)
{
    if (!host)
        return false;
    size_t len = name_length(host);
    if (len == 0 || !is_port(host + len))
        return false;
    if (local) {
        bool bracketed = host[0] == '[';
        const char *name = bracketed ? host + 1 : host;
        size_t bare = bracketed ? len - 2 : len;
        if (strlen(local) == bare && strncasecmp(name, local, bare) == 0)
            return true;
    }
    for (int i = 0; i < access->host_count; i++)
        if (strlen(access->hosts[i]) == len && strncasecmp(host, access->hosts[i], len) == 0)
            return true;
    return false;
}

bool kiln_web_origin_allowed(const char *fetch_site, const char *origin, const char *host,
                             bool bearer)
{
    if (fetch_site)
        return strcmp(fetch_site, "same-origin") == 0;
    if (!origin)
        return bearer;
    const char *at = strncmp(origin, "https://", 8) == 0  ? origin + 8
                     : strncmp(origin, "http://", 7) == 0 ? origin + 7
                                                          : NULL;
    return at && host && strcasecmp(at, host) == 0;
}

enum kiln_web_right kiln_web_token_right(const struct kiln_web_access *access, const char *token)
{
    /* Digests are compared, so that the time says nothing about the length either. */
    uint8_t ours[KILN_SHA256_SIZE], theirs[KILN_SHA256_SIZE];
    enum kiln_web_right found = KILN_WEB_NOBODY;
    kiln_sha256(token, strlen(token), theirs);
    for (int right = KILN_WEB_READER; right < KILN_WEB_RIGHTS; right++) {
        kiln_sha256(access->tokens[right], strlen(access->tokens[right]), ours);
        if (access->tokens[right][0] && CRYPTO_memcmp(ours, theirs, sizeof ours) == 0)
            found = (enum kiln_web_right)right;
    }
    return found;
}

enum kiln_web_right kiln_web_bearer_right(const struct kiln_web_access *access,
                                          const char *authorization)
{
    return authorization && strncasecmp(authorization, "Bearer ", 7) == 0
               ? kiln_web_token_right(access, authorization + 7)
               : KILN_WEB_NOBODY;
}

/* The signature of a session that ends then, in hexadecimal. */
static void sign(const char *token, int64_t until_s, char hex[65])
{
    char text[64];
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    snprintf(text, sizeof text, SESSION_LABEL "%" PRId64, until_s);
    HMAC(EVP_sha256(), token, (int)strlen(token), (const unsigned char *)text, strlen(text), mac,
         &len);
    kiln_hex(mac, KILN_SHA256_SIZE, hex);
}

void kiln_web_session_make(const struct kiln_web_access *access, enum kiln_web_right right,
                           int64_t now_s, char ret[KILN_WEB_SESSION_MAX])
{
    char hex[65];
    int64_t until_s = now_s + KILN_WEB_SESSION_S;
    sign(access->tokens[right], until_s, hex);
    snprintf(ret, KILN_WEB_SESSION_MAX, "%" PRId64 ".%s", until_s, hex);
}

enum kiln_web_right kiln_web_session_right(const struct kiln_web_access *access, const char *value,
                                           int64_t now_s)
{
    char hex[65];
    enum kiln_web_right found = KILN_WEB_NOBODY;
    size_t digits = value ? strspn(value, "0123456789") : 0;
    if (digits == 0 || digits > 15 || value[digits] != '.' || strlen(value + digits + 1) != 64)
        return KILN_WEB_NOBODY;
    int64_t until_s = strtoll(value, NULL, 10);
    if (until_s <= now_s || until_s > now_s + KILN_WEB_SESSION_S)
        return KILN_WEB_NOBODY;
    for (int right = KILN_WEB_READER; right < KILN_WEB_RIGHTS; right++) {
        sign(access->tokens[right], until_s, hex);
        if (access->tokens[right][0] && CRYPTO_memcmp(hex, value + digits + 1, 64) == 0)
            found = (enum kiln_web_right)right;
    }
    return found;
}
