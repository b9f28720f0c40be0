/* secret.c - hides the password in a setting that is printed.
 *
 * One setting can contain a secret: postgres, a conninfo, in both of libpq's spellings:
 *
 *     host=db password=word dbname=kiln        postgresql://user:word@db/kiln?sslpassword=word
 *
 * A passfile or the environment is the better place for it.
 */
#include <string.h>

#include "schemas/config/config.h"

#define MASK "***"

/* The length of a conninfo's value: to the next blank, or to the closing quote. */
static size_t value_length(const char *at)
{
    size_t len = 0;
    if (*at != '\'')
        return strcspn(at, " \t&");
    for (len = 1; at[len] && at[len] != '\''; len++)
        len += at[len] == '\\' && at[len + 1];
    return at[len] ? len + 1 : len;
}

/* Where the next secret begins, and its length; NULL: there is none from here on. */
static const char *find_secret(const char *text, const char *at, size_t *ret_len)
{
    const char *scheme = strstr(text, "://"), *word = at;
    if (scheme && at <= scheme + 3) {
        size_t authority = strcspn(scheme + 3, "/?");
        const char *host = memchr(scheme + 3, '@', authority);
        const char *colon = host ? memchr(scheme + 3, ':', (size_t)(host - scheme - 3)) : NULL;
        if (colon) {
            *ret_len = (size_t)(host - colon) - 1;
            return colon + 1;
        }
    }
    while ((word = strstr(word, "password"))) {
        word += strlen("password");
        const char *value = word + strspn(word, " \t");
        if (*value != '=')
            continue;
        value += 1 + strspn(value + 1, " \t");
        *ret_len = value_length(value);
        return value;
    }
    return NULL;
}

bool kiln_config_has_secret(enum kiln_key key, const char *value)
{
    size_t len;
    return key == KILN_KEY_POSTGRES && find_secret(value, value, &len) && len > 0;
}

void kiln_config_shown(const struct kiln_config *config, enum kiln_key key, struct kiln_text *ret)
{
    const char *value = kiln_config_text(config, key), *at = value, *secret;
    size_t len;
    while (key == KILN_KEY_POSTGRES && (secret = find_secret(value, at, &len))) {
        kiln_text_add(ret, at, (size_t)(secret - at));
        kiln_text_puts(ret, len > 0 ? MASK : "");
        at = secret + len;
    }
    kiln_text_puts(ret, at);
}
