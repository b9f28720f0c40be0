/* credentials.c - see credentials.h.
 *
 * The file is the INI dialect of the AWS tools: [profile] headings, `name = value`, lines that
 * start with # or ; are comments, names that we do not know belong to other tools.  Values become
 * HTTP headers, so only printable ASCII is taken.
 */
#include "storage/objects/s3/credentials.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/formats/user_file.h"

#define FILE_MAX (64 * 1024)

void kiln_s3_credentials_wipe(struct kiln_s3_credentials *credentials)
{
    OPENSSL_cleanse(credentials, sizeof *credentials);
}

/* A stretch of the file without blanks at its ends. */
struct span {
    const char *at;
    size_t len;
};

/* Cuts blanks, and the CR of a file that was edited elsewhere. */
static struct span trimmed(const char *at, size_t len)
{
    while (len > 0 && (*at == ' ' || *at == '\t'))
        at++, len--;
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t' || at[len - 1] == '\r'))
        len--;
    return (struct span){at, len};
}

static bool equals(struct span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.at, text, span.len) == 0;
}

/* Copies a value; what it is called stands in the error, what it is does not. */
static int take(struct span value, const char *name, const char *what, char *out, size_t size,
                struct kiln_error *err)
{
    if (value.len >= size)
        return kiln_fail(err, KILN_CONFIG, "%s: %s has %zu bytes; %zu fit", name, what, value.len,
                         size - 1);
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] <= ' ' || value.at[i] > '~')
            return kiln_fail(err, KILN_CONFIG, "%s: %s has the byte 0x%02x, which no key has", name,
                             what, (unsigned char)value.at[i]);
    memcpy(out, value.at, value.len);
    out[value.len] = '\0';
    return KILN_OK;
}

/* The three settings, as files and the environment call them. */
static const struct setting {
    const char *in_file, *in_environment;
    size_t offset, size; /* in struct kiln_s3_credentials */
} settings[] = {
#define SETTING(file, environment, field)                                                          \
    {                                                                                              \
        file, environment, offsetof(struct kiln_s3_credentials, field),                            \
            sizeof(((struct kiln_s3_credentials *)0)->field)                                       \
    }
    SETTING("aws_access_key_id", "AWS_ACCESS_KEY_ID", access_key),
    SETTING("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", secret_key),
    SETTING("aws_session_token", "AWS_SESSION_TOKEN", session_token),
};
#define SETTINGS (sizeof settings / sizeof *settings)

/* One `name = value` under the wanted heading. */
static int take_setting(struct span key, struct span value, const char *name,
                        struct kiln_s3_credentials *c, struct kiln_error *err)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (equals(key, settings[i].in_file))
            return take(value, name, settings[i].in_file, (char *)c + settings[i].offset,
                        settings[i].size, err);
    return KILN_OK;
}

/* One line; *inside says whether we are under the wanted heading. */
static int take_line(struct span line, const char *name, const char *profile, bool *inside,
                     bool *found, struct kiln_s3_credentials *c, struct kiln_error *err)
{
    if (line.len == 0 || line.at[0] == '#' || line.at[0] == ';')
        return KILN_OK;
    if (line.at[0] == '[' && line.at[line.len - 1] == ']') {
        *inside = equals(trimmed(line.at + 1, line.len - 2), profile);
        *found = *found || *inside;
        return KILN_OK;
    }
    const char *sign = memchr(line.at, '=', line.len);
    if (!*inside || !sign)
        return KILN_OK;
    size_t key_len = (size_t)(sign - line.at);
    return take_setting(trimmed(line.at, key_len), trimmed(sign + 1, line.len - key_len - 1), name,
                        c, err);
}

int kiln_s3_credentials_parse(const char *text, size_t len, const char *name, const char *profile,
                              struct kiln_s3_credentials *ret, struct kiln_error *err)
{
    struct kiln_s3_credentials c = {0};
    bool inside = false, found = false;
    int code = KILN_OK;
    for (size_t at = 0; at < len && !code;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - (text + at)) : len - at;
        code = take_line(trimmed(text + at, n), name, profile, &inside, &found, &c, err);
        at += n + 1;
    }
    if (!code && !found)
        code = kiln_fail(err, KILN_CONFIG, "%s has no profile [%s]", name, profile);
    if (!code && (!c.access_key[0] || !c.secret_key[0]))
        code = kiln_fail(err, KILN_CONFIG,
                         "%s: profile [%s] lacks aws_access_key_id or aws_secret_access_key", name,
                         profile);
    if (!code) {
        snprintf(c.origin, sizeof c.origin, "%.180s, profile %.60s", name, profile);
        *ret = c;
    }
    kiln_s3_credentials_wipe(&c);
    return code;
}

/* The file's text is overwritten before its memory goes back. */
static int load_file(const char *path, const char *profile, struct kiln_s3_credentials *ret,
                     struct kiln_error *err)
{
    struct kiln_error why;
    char *text;
    size_t len;
    int code = kiln_user_file_read(path, FILE_MAX, &text, &len, &why);
    if (code)
        return kiln_fail(err, code == KILN_NO_MEMORY ? code : KILN_CONFIG,
                         "S3 credentials file: %s", why.text);
    code = kiln_s3_credentials_parse(text, len, path, profile, ret, err);
    OPENSSL_cleanse(text, len);
    free(text);
    return code;
}

/* An empty variable counts as unset. */
static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* The three variables are one set: a token that belongs to other keys is worse than none. */
static int load_environment(struct kiln_s3_credentials *ret, struct kiln_error *err)
{
    struct kiln_s3_credentials c = {.origin = "the environment"};
    int code = KILN_OK;
    for (size_t i = 0; i < SETTINGS && !code; i++) {
        const char *name = settings[i].in_environment;
        struct span value = {env(name), strlen(env(name))};
        code = take(value, c.origin, name, (char *)&c + settings[i].offset, settings[i].size, err);
    }
    if (!code && !c.secret_key[0])
        code = kiln_fail(err, KILN_CONFIG,
                         "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
    if (!code)
        *ret = c;
    kiln_s3_credentials_wipe(&c);
    return code;
}

int kiln_s3_credentials_load(const char *file, const char *profile, struct kiln_s3_credentials *ret,
                             struct kiln_error *err)
{
    if (!profile[0])
        profile = env("AWS_PROFILE")[0] ? env("AWS_PROFILE") : "default";
    if (file[0])
        return load_file(file, profile, ret, err);
    if (env("AWS_ACCESS_KEY_ID")[0])
        return load_environment(ret, err);
    char path[PATH_MAX];
    if (env("AWS_SHARED_CREDENTIALS_FILE")[0])
        snprintf(path, sizeof path, "%s", env("AWS_SHARED_CREDENTIALS_FILE"));
    else
        snprintf(path, sizeof path, "%s/.aws/credentials", env("HOME"));
    int code = load_file(path, profile, ret, err);
    return code ? kiln_fail_in(err, "no S3 credentials: AWS_ACCESS_KEY_ID is not set, and") : code;
}
