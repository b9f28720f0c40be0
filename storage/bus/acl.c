/* acl.c - see acl.h.
 *
 * Keys of another pool are out of reach, so two pools may share a Redis.  SCAN names keys of others
 * but reads none; nothing else does.  %R~ and %W~ are Redis 7's rights to read and to write a key.
 * MULTI without EXEC does nothing but let `kiln doctor` ask what the user may do (doctor.c).
 */
#include "storage/bus/acl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/text/text.h"
#include "storage/bus/internal.h"

const char *const kiln_bus_user_names[KILN_BUS_USER_COUNT] = {"kiln_scheduler", "kiln_worker",
                                                              "kiln_operator",  "kiln_reader",
                                                              "kiln_gallery",   "kiln_producer"};

static const struct user {
    const char *keys;     /* each ~ stands for the pool's part of a key */
    const char *commands; /* beside auth, ping and select */
} users[KILN_BUS_USER_COUNT] = {
    {"~*", "xadd xread xreadgroup xgroup|create xautoclaim xack xdel xlen xrevrange xinfo|stream "
           "rpush expire hget scan del watch unwatch multi exec"},
    {"~worker:* ~beat:* %W~events", "xadd xread xdel hset pexpire hget scan del multi exec"},
    {"~*", "xadd xread xlen xrevrange xinfo|stream blpop lpop hget scan multi exec info time"},
    {"%R~*", "xread xlen xrevrange xinfo|stream hget scan multi info time"},
    {"%R~*", "xread xlen xrevrange xinfo|stream hget scan multi info time"},
    {"%W~intake ~receipt:*", "xadd blpop lpop multi"},
};

/* "~beat:*" becomes "~kiln:{pool}:beat:*". */
static void put_keys(struct kiln_text *text, const char *keys, const char *pool)
{
    for (; *keys; keys++)
        if (*keys == '~')
            kiln_text_printf(text, "~kiln:{%s}:", pool);
        else
            kiln_text_printf(text, "%c", *keys);
}

static void put_commands(struct kiln_text *text, const char *commands)
{
    for (size_t len; *commands; commands += len + (commands[len] == ' ')) {
        len = strcspn(commands, " ");
        kiln_text_printf(text, " +%.*s", (int)len, commands);
    }
}

int kiln_bus_rules(int user, const char *pool, const char *hash, char out[KILN_BUS_RULES_MAX],
                   struct kiln_error *err)
{
    struct kiln_text text = {0};
    kiln_text_printf(&text, "on resetpass #%s resetkeys ", hash);
    put_keys(&text, users[user].keys, pool);
    kiln_text_puts(&text, " resetchannels -@all +auth +ping +select");
    put_commands(&text, users[user].commands);
    char *rules = kiln_text_take(&text);
    int rc = !rules ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the rules of a Redis user")
             : snprintf(out, KILN_BUS_RULES_MAX, "%s", rules) >= KILN_BUS_RULES_MAX
                 ? kiln_fail(err, KILN_FULL, "the rules of a Redis user do not fit")
                 : 0;
    free(rules);
    return rc;
}

int kiln_bus_set_user(struct kiln_bus *bus, const char *name, const char *rules,
                      struct kiln_error *err)
{
    size_t words = 0;
    int rc = kiln_bus_begin(bus, err);
    if (rc)
        return rc;
    for (const char *at = rules; at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
        words++;
    kiln_bus_command(bus, 3 + words + 1);
    kiln_bus_arg_text(bus, "ACL");
    kiln_bus_arg_text(bus, "SETUSER");
    kiln_bus_arg_text(bus, name);
    kiln_bus_arg_text(bus, "reset"); /* what it could before */
    for (const char *at = rules; words > 0; words--) {
        size_t len = strcspn(at, " ");
        kiln_bus_arg(bus, at, len);
        at += len + 1;
    }
    rc = kiln_bus_replies(bus, 1, err);
    return rc ? kiln_fail_in(err, "Redis user %s", name) : 0;
}

int kiln_bus_save_users(struct kiln_bus *bus, struct kiln_error *err)
{
    int rc = kiln_bus_run(bus, err, KILN_BUS_WORDS("ACL", "SAVE"));
    if (rc && rc != KILN_UNAVAILABLE && rc != KILN_TIMEOUT && rc != KILN_DENIED)
        rc = kiln_fail(err, KILN_CONFIG, "this Redis has no aclfile");
    return rc;
}

int kiln_bus_url_as(const char *url, const char *user, char *out, size_t size,
                    struct kiln_error *err)
{
    struct kiln_bus_target at;
    int rc = kiln_bus_url_parse(url, &at, err);
    if (rc)
        return rc;
    bool brackets = strchr(at.host, ':') != NULL; /* an IPv6 address */
    int len = at.path[0] ? snprintf(out, size, "unix:%s?db=%d&user=%s", at.path, at.db, user)
                         : snprintf(out, size, "redis://%s@%s%s%s:%d/%d", user, brackets ? "[" : "",
                                    at.host, brackets ? "]" : "", at.port, at.db);
    return (size_t)len < size ? 0 : kiln_fail(err, KILN_FULL, "setting redis: too long");
}
