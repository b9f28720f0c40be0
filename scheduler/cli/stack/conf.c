/* conf.c - DIR/kiln.conf: what `kiln up` knows goes in, what people wrote stays in.
 *
 * The file is edited line by line: a line that sets a key of ours gets the new value, a missing key
 * is appended, everything else is kept.  The daemons read nothing but this file, so a change of it
 * is what makes a running daemon worth restarting.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/stack/stack.h"
#include "schemas/limits.h"
#include "schemas/text/text.h"
#include "storage/formats/replace.h"
#include "storage/objects/store.h"

struct wanted {
    char *value[KILN_KEY_COUNT]; /* NULL: leave the file's line as it is */
};

static int want(struct wanted *wanted, enum kiln_key key, const char *value, struct kiln_error *err)
{
    if (strpbrk(value, "\"\n\r"))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "%s is '%s': quotes and line breaks do not fit into %s",
                         kiln_keys[key].name, value, "kiln.conf");
    free(wanted->value[key]);
    wanted->value[key] = strdup(value);
    return wanted->value[key] ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the settings");
}

/* --- what this `up` asks for ------------------------------------------------------------------ */

/* A flag or variable as the daemons, who stand in another directory, have to read it: a relative
 * path means the place where `up` was typed. */
static int want_given(struct wanted *wanted, enum kiln_key key, const char *value,
                      struct kiln_error *err)
{
    bool path = key == KILN_KEY_MODEL || key == KILN_KEY_LORA_DIR || key == KILN_KEY_STYLES ||
                key == KILN_KEY_S3_CREDENTIALS_FILE || key == KILN_KEY_REDIS_PASSWORD_FILE ||
                key == KILN_KEY_GALLERY_TOKEN_FILE || key == KILN_KEY_WEBHOOK_SECRET_FILE;
    if (!path || value[0] == '\0')
        return want(wanted, key, value, err);
    char *real = realpath(value, NULL);
    if (!real)
        return kiln_fail(err, KILN_NOT_FOUND, "%s %s: %s", kiln_keys[key].name, value,
                         strerror(errno));
    int rc = want(wanted, key, real, err);
    free(real);
    return rc;
}

/* A conninfo value, between single quotes if it has to be. */
static void add_quoted(struct kiln_text *text, const char *value)
{
    if (value[0] && !strpbrk(value, " '\\\t=")) {
        kiln_text_puts(text, value);
        return;
    }
    kiln_text_puts(text, "'");
    for (; *value; value++) {
        if (*value == '\'' || *value == '\\')
            kiln_text_puts(text, "\\");
        kiln_text_add(text, value, 1);
    }
    kiln_text_puts(text, "'");
}

static int want_servers(const struct kiln_stack *stack, struct wanted *wanted,
                        struct kiln_error *err)
{
    char redis[PATH_MAX + 16], path[PATH_MAX];
    snprintf(redis, sizeof redis, "unix:%s", kiln_join(path, stack->sockets, KILN_REDIS_SOCKET));
    int rc = want(wanted, KILN_KEY_REDIS, redis, err);
    if (rc)
        return rc;
    struct kiln_text text = {0};
    kiln_text_puts(&text, "host=");
    add_quoted(&text, kiln_join(path, stack->sockets, "postgres"));
    kiln_text_puts(&text, " port=5432 user=kiln dbname=kiln");
    char *conninfo = kiln_text_take(&text);
    if (!conninfo)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the settings");
    rc = want(wanted, KILN_KEY_POSTGRES, conninfo, err);
    free(conninfo);
    return rc;
}

/* A store, a folder for LoRA files, a model and the model's own size for a stack whose owner named
 * none. */
static int want_defaults(const struct kiln_stack *stack, const struct kiln_config *file,
                         struct wanted *wanted, struct kiln_error *err)
{
    char store[PATH_MAX + 16], path[PATH_MAX];
    int rc = 0;
    if (!wanted->value[KILN_KEY_STORE] &&
        strcmp(kiln_config_origin(file, KILN_KEY_STORE), "default") == 0) {
        snprintf(store, sizeof store, "file://%s", kiln_join(path, stack->dir, "store"));
        rc = want(wanted, KILN_KEY_STORE, store, err);
    }
    if (rc == 0 && !wanted->value[KILN_KEY_LORA_CACHE_DIR] &&
        strcmp(kiln_config_origin(file, KILN_KEY_LORA_CACHE_DIR), "default") == 0)
        rc = want(wanted, KILN_KEY_LORA_CACHE_DIR, kiln_join(path, stack->dir, "loras"), err);
    char *model = kiln_demo_model(stack->bin);
    if (rc == 0 && model && !wanted->value[KILN_KEY_MODEL] &&
        kiln_config_text(file, KILN_KEY_MODEL)[0] == '\0')
        rc = want(wanted, KILN_KEY_MODEL, model, err);
    free(model);
    const char *chosen = wanted->value[KILN_KEY_MODEL] ? wanted->value[KILN_KEY_MODEL]
                                                       : kiln_config_text(file, KILN_KEY_MODEL);
    char size[24];
    if (rc == 0 && !wanted->value[KILN_KEY_SIZE] &&
        strcmp(kiln_config_origin(file, KILN_KEY_SIZE), "default") == 0 &&
        kiln_model_size(chosen, size, sizeof size))
        rc = want(wanted, KILN_KEY_SIZE, size, err);
    return rc;
}

/* Flags and environment. */
static int want_all_given(const struct kiln_config *given, struct wanted *wanted,
                          struct kiln_error *err)
{
    for (int key = 0; key < KILN_KEY_COUNT; key++) {
        if (key == KILN_KEY_DEVICE ||
            strcmp(kiln_config_origin(given, (enum kiln_key)key), "default") == 0)
            continue;
        int rc = want_given(wanted, (enum kiln_key)key, kiln_config_text(given, (enum kiln_key)key),
                            err);
        if (rc)
            return rc;
    }
    return 0;
}

static void release(struct wanted *wanted)
{
    for (int key = 0; key < KILN_KEY_COUNT; key++)
        free(wanted->value[key]);
}

int kiln_stack_check_given(const struct kiln_config *given, struct kiln_error *err)
{
    struct wanted wanted = {{NULL}};
    int rc = want_all_given(given, &wanted, err);
    release(&wanted);
    return rc;
}

/* What was given, then what every stack has, then defaults for what nobody named. */
static int collect(const struct kiln_stack *stack, const struct kiln_config *given,
                   const struct kiln_config *file, struct wanted *wanted, struct kiln_error *err)
{
    int rc = want_all_given(given, wanted, err);
    rc = rc ? rc : want_servers(stack, wanted, err);
    if (rc == 0 && stack->device_count > 0)
        rc = want(wanted, KILN_KEY_DEVICE, stack->devices[0], err);
    return rc ? rc : want_defaults(stack, file, wanted, err);
}

/* --- the file --------------------------------------------------------------------------------- */

/* The key a line sets, or -1. */
static int line_key(const char *line, size_t len)
{
    size_t start = 0;
    while (start < len && (line[start] == ' ' || line[start] == '\t'))
        start++;
    for (int key = 0; key < KILN_KEY_COUNT; key++) {
        size_t n = strlen(kiln_keys[key].name);
        if (len - start <= n || strncmp(line + start, kiln_keys[key].name, n) != 0)
            continue;
        size_t at = start + n;
        while (at < len && (line[at] == ' ' || line[at] == '\t'))
            at++;
        if (at < len && line[at] == '=')
            return key;
    }
    return -1;
}

/* As it stands wherever that can be, for scripts that read the file without our parser: quotes
 * only keep a "#", or blanks at an end. */
static void add_setting(struct kiln_text *text, int key, const char *value)
{
    size_t len = strlen(value);
    bool quote =
        len == 0 || strchr(value, '#') || strchr(" \t", value[0]) || strchr(" \t", value[len - 1]);
    kiln_text_printf(text, quote ? "%s = \"%s\"\n" : "%s = %s\n", kiln_keys[key].name, value);
}

/* old with the wanted values in it; NULL when memory is short. */
static char *edit(const char *old, const struct wanted *wanted)
{
    struct kiln_text text = {0};
    bool there[KILN_KEY_COUNT] = {false};
    if (!old[0])
        kiln_text_puts(&text, "# Settings of this Kiln stack; `kiln help config` explains them.\n"
                              "# Made by `kiln up`, which keeps your own lines.\n");
    for (const char *line = old; *line;) {
        size_t len = strcspn(line, "\n");
        int key = line_key(line, len);
        if (key >= 0 && wanted->value[key]) {
            add_setting(&text, key, wanted->value[key]);
        } else {
            kiln_text_add(&text, line, len);
            kiln_text_puts(&text, "\n");
        }
        if (key >= 0)
            there[key] = true;
        line += len + (line[len] == '\n');
    }
    for (int key = 0; key < KILN_KEY_COUNT; key++)
        if (wanted->value[key] && !there[key])
            add_setting(&text, key, wanted->value[key]);
    return kiln_text_take(&text);
}

/* *ret is malloc'd; "" when there is no file yet. */
static int read_file(const char *path, char **ret, struct kiln_error *err)
{
    char *text = calloc(1, KILN_CONFIG_FILE_MAX + 1);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    FILE *file = fopen(path, "re");
    if (!file && errno != ENOENT) {
        free(text);
        return kiln_fail(err, KILN_IO, "open %s: %s", path, strerror(errno));
    }
    if (file) {
        text[fread(text, 1, KILN_CONFIG_FILE_MAX, file)] = '\0';
        fclose(file);
    }
    *ret = text;
    return 0;
}

static int parse(const char *text, const char *path, struct kiln_config **ret,
                 struct kiln_error *err)
{
    struct kiln_config *config = kiln_config_new();
    if (!config)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the settings");
    int rc = kiln_config_parse(config, text, strlen(text), path, err);
    if (rc)
        kiln_config_free(config);
    else
        *ret = config;
    return rc;
}

/* Writes the new text if it says something else, and makes it the settings of the command. */
static int adopt(struct kiln_stack *stack, struct kiln_cli *cli, const char *old, const char *text,
                 const struct kiln_config *before, bool *ret_changed, struct kiln_error *err)
{
    static const enum kiln_key pair[] = {KILN_KEY_LEASE_S, KILN_KEY_HEARTBEAT_S};
    struct kiln_config *after = NULL;
    struct kiln_store *store = NULL;
    int rc = parse(text, stack->conf, &after, err);
    /* The file says already what the flags said; a refusal of the pair names the flags. */
    for (size_t i = 0; rc == 0 && i < sizeof pair / sizeof *pair; i++)
        if (strncmp(kiln_config_origin(cli->config, pair[i]), "flag", 4) == 0)
            rc = kiln_config_set(after, kiln_keys[pair[i]].name,
                                 kiln_config_text(cli->config, pair[i]),
                                 kiln_config_origin(cli->config, pair[i]), err);
    if (rc == 0)
        rc = kiln_config_check(after, err);
    /* A store that is new and cannot be opened must not take the place of one that works: workers
     * that run would be ended for it. */
    if (rc == 0 && strcmp(kiln_config_text(before, KILN_KEY_STORE),
                          kiln_config_text(after, KILN_KEY_STORE)) != 0)
        rc = kiln_store_open(after, &store, err);
    kiln_store_close(store);
    if (rc == 0 && strcmp(old, text) != 0)
        rc = kiln_replace(stack->conf, text, 0600, err); /* a conninfo may hold a password */
    if (rc) {
        kiln_config_free(after);
        return rc;
    }
    *ret_changed = false; /* a line that only moved or a new comment changes nothing for a daemon */
    for (int key = 0; key < KILN_KEY_COUNT && old[0]; key++)
        *ret_changed |= strncmp(kiln_keys[key].name, "gallery_", 8) != 0 && /* see gallery.c */
                        strcmp(kiln_config_text(before, (enum kiln_key)key),
                               kiln_config_text(after, (enum kiln_key)key)) != 0;
    kiln_config_free(cli->config);
    cli->config = after;
    free(cli->config_path);
    cli->config_path = strdup(stack->conf);
    return 0;
}

int kiln_stack_configure(struct kiln_stack *stack, struct kiln_cli *cli, bool *ret_changed,
                         struct kiln_error *err)
{
    char *old = NULL, *text = NULL;
    struct kiln_config *file = NULL;
    struct wanted wanted = {{NULL}};
    int rc = read_file(stack->conf, &old, err);
    if (rc == 0)
        rc = parse(old, stack->conf, &file, err);
    if (rc == 0)
        rc = collect(stack, cli->config, file, &wanted, err);
    if (rc == 0 && !(text = edit(old, &wanted)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for %s", stack->conf);
    if (rc == 0)
        rc = adopt(stack, cli, old, text, file, ret_changed, err);
    kiln_config_free(file);
    release(&wanted);
    free(text);
    free(old);
    return rc;
}
