/* url.c - where Redis is: the setting `redis`, taken apart. */
#include <stdlib.h>
#include <string.h>

#include "storage/bus/internal.h"

#define PORT_DEFAULT 6379

static int refuse(const char *why, struct kiln_error *err)
{
    return kiln_fail(
        err, KILN_CONFIG,
        "setting redis: %s (redis://[user@]host[:port][/db] or unix:/path[?db=N][&user=NAME])",
        why);
}

/* A whole decimal number up to max; false for anything else. */
static bool number(const char *text, size_t len, long max, int *ret)
{
    if (len == 0 || len > 6 || strspn(text, "0123456789") < len)
        return false;
    long value = strtol(text, NULL, 10);
    *ret = (int)value;
    return value <= max;
}

static bool take(char *out, size_t size, const char *from, size_t len)
{
    if (len >= size)
        return false;
    memcpy(out, from, len);
    out[len] = '\0';
    return true;
}

static int parse_unix(const char *rest, struct kiln_bus_target *ret, struct kiln_error *err)
{
    size_t len = strcspn(rest, "?");
    if (rest[0] != '/' || !take(ret->path, sizeof ret->path, rest, len))
        return refuse("a socket path is absolute and at most 107 bytes long", err);
    for (const char *at = rest + len; *at; at += len) {
        at++; /* the ? or & */
        len = strcspn(at, "&");
        bool good = strncmp(at, "db=", 3) == 0 ? number(at + 3, len - 3, 99999, &ret->db)
                    : strncmp(at, "user=", 5) == 0
                        ? len > 5 && take(ret->user, sizeof ret->user, at + 5, len - 5)
                        : false;
        if (!good)
            return refuse("after ? come db=NUMBER and user=NAME, with & between them", err);
    }
    return 0;
}

/* host, host:port, [ipv6], [ipv6]:port */
static int parse_host(const char *at, size_t len, struct kiln_bus_target *ret,
                      struct kiln_error *err)
{
    const char *end = at + len, *host = at, *host_end;
    if (*at == '[') {
        host = at + 1;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (!host_end)
            return refuse("a [ without its ]", err);
        at = host_end + 1;
    } else {
        host_end = memchr(at, ':', len);
        at = host_end = host_end ? host_end : end;
    }
    if (host == host_end || !take(ret->host, sizeof ret->host, host, (size_t)(host_end - host)))
        return refuse("the host is missing or too long", err);
    if (at == end)
        return 0;
    if (*at != ':' || !number(at + 1, (size_t)(end - at - 1), 65535, &ret->port) || ret->port == 0)
        return refuse("the port is a number from 1 to 65535", err);
    return 0;
}

static int parse_tcp(const char *rest, struct kiln_bus_target *ret, struct kiln_error *err)
{
    size_t len = strcspn(rest, "/");
    const char *slash = rest + len, *user_end = memchr(rest, '@', len);
    if (user_end) {
        size_t user_len = (size_t)(user_end - rest);
        if (memchr(rest, ':', user_len))
            return refuse("no password here; put it into the file of redis_password_file", err);
        if (!take(ret->user, sizeof ret->user, rest, user_len))
            return refuse("the user name is too long", err);
        len -= user_len + 1;
        rest = user_end + 1;
    }
    if (*slash && slash[1] && !number(slash + 1, strlen(slash + 1), 99999, &ret->db))
        return refuse("the database is a number", err);
    return parse_host(rest, len, ret, err);
}

int kiln_bus_url_parse(const char *url, struct kiln_bus_target *ret, struct kiln_error *err)
{
    struct kiln_bus_target target = {.port = PORT_DEFAULT};
    int rc;
    if (strncmp(url, "redis://", 8) == 0)
        rc = parse_tcp(url + 8, &target, err);
    else if (strncmp(url, "unix:", 5) == 0)
        rc = parse_unix(url + 5, &target, err);
    else if (strncmp(url, "rediss:", 7) == 0)
        rc = refuse("no TLS in this build's hiredis; use a unix socket, stunnel or WireGuard", err);
    else
        rc = refuse("it begins with redis:// or unix:", err);
    if (rc == 0)
        *ret = target;
    return rc;
}
