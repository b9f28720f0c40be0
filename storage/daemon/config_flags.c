/* config_flags.c - flags onto settings, in two passes.
 *
 * The file must be known before anything else is read and a flag must win over the file, so the
 * first pass only looks for --config and the second one lays the other flags over the result.
 */
#include "storage/daemon/config_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/daemon/config_file.h"

/* One argument that names a setting. */
struct flag {
    char name[64];
    const char *value; /* behind the =, or the next argument; NULL if there is none */
    int used;          /* arguments it takes: 1 or 2 */
};

/* '-' and '_' mean the same in the name of a setting. */
static bool same_name(const char *flag, size_t len, const char *key)
{
    if (strlen(key) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((flag[i] == '-' ? '_' : flag[i]) != key[i])
            return false;
    return true;
}

static bool is_setting(const char *name, size_t len)
{
    if (same_name(name, len, "config"))
        return true;
    for (int key = 0; key < KILN_KEY_COUNT; key++)
        if (same_name(name, len, kiln_keys[key].name))
            return true;
    return false;
}

/* Whether argv[at] names a setting; fills *flag if so. */
static bool flag_at(int argc, char *const *argv, int at, struct flag *flag)
{
    const char *text = argv[at];
    if (strncmp(text, "--", 2) != 0 || text[2] == '\0')
        return false;
    const char *name = text + 2;
    size_t len = strcspn(name, "=");
    if (len >= sizeof(flag->name) || !is_setting(name, len))
        return false;
    memcpy(flag->name, name, len);
    flag->name[len] = '\0';
    if (name[len] == '=') {
        flag->value = name + len + 1;
        flag->used = 1;
    } else {
        flag->value = at + 1 < argc ? argv[at + 1] : NULL;
        flag->used = 2;
    }
    return true;
}

static int find_config_path(int argc, char *const *argv, const char **ret_path,
                            struct kiln_error *err)
{
    struct flag flag;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!flag_at(argc, argv, i, &flag))
            continue;
        if (!flag.value)
            return kiln_fail(err, KILN_CONFIG, "--%s needs a value", flag.name);
        if (strcmp(flag.name, "config") == 0)
            *ret_path = flag.value;
        i += flag.used - 1;
    }
    return 0;
}

int kiln_config_flags_lay(int argc, char *const *argv, const char **rest, int *ret_rest,
                          struct kiln_config *config, struct kiln_error *err)
{
    struct flag flag;
    int left = 0;
    bool ended = false;
    for (int i = 1; i < argc; i++) {
        ended = ended || strcmp(argv[i], "--") == 0;
        if (ended || !flag_at(argc, argv, i, &flag)) {
            rest[left++] = argv[i];
            continue;
        }
        if (!flag.value)
            return kiln_fail(err, KILN_CONFIG, "--%s needs a value", flag.name);
        if (strcmp(flag.name, kiln_keys[KILN_KEY_POSTGRES].name) == 0 &&
            kiln_config_has_secret(KILN_KEY_POSTGRES, flag.value))
            return kiln_fail(err, KILN_CONFIG,
                             "--postgres holds a password, and command lines can be read by every "
                             "user of the machine: put it into a passfile (PGPASSFILE), the "
                             "environment or the file of settings");
        char origin[sizeof(flag.name) + 8];
        snprintf(origin, sizeof(origin), "flag --%s", flag.name);
        int rc = strcmp(flag.name, "config") == 0
                     ? 0
                     : kiln_config_set(config, flag.name, flag.value, origin, err);
        if (rc)
            return rc;
        i += flag.used - 1;
    }
    rest[left] = NULL;
    *ret_rest = left;
    return 0;
}

int kiln_config_flags_loose(int argc, char *const *argv, const char **rest, int *ret_rest,
                            struct kiln_config **ret, char **ret_path, struct kiln_error *err)
{
    const char *path = NULL;
    int rc = find_config_path(argc, argv, &path, err);
    if (rc)
        return rc;
    struct kiln_config *config;
    rc = kiln_config_load(path, &config, ret_path, err);
    if (rc)
        return rc;
    rc = kiln_config_flags_lay(argc, argv, rest, ret_rest, config, err);
    if (rc == 0) {
        *ret = config;
        return 0;
    }
    kiln_config_free(config);
    if (ret_path) {
        free(*ret_path);
        *ret_path = NULL;
    }
    return rc;
}

int kiln_config_flags(int argc, char *const *argv, const char **rest, int *ret_rest,
                      struct kiln_config **ret, struct kiln_error *err)
{
    struct kiln_config *config;
    int rc = kiln_config_flags_loose(argc, argv, rest, ret_rest, &config, NULL, err);
    if (rc)
        return rc;
    rc = kiln_config_check(config, err);
    if (rc)
        kiln_config_free(config);
    else
        *ret = config;
    return rc;
}

int kiln_config_flags_refuse(const char *const *rest, int count, struct kiln_error *err)
{
    if (count == 0)
        return 0;
    const char *text = rest[0];
    if (strncmp(text, "--", 2) != 0 || text[2] == '\0')
        return kiln_fail(err, KILN_CONFIG, "unexpected argument '%s'", text);

    /* The settings' own refusal names the nearest key. */
    char name[64];
    size_t len = strcspn(text + 2, "=");
    if (len >= sizeof(name))
        return kiln_fail(err, KILN_CONFIG, "unknown flag %.60s...", text);
    memcpy(name, text + 2, len);
    name[len] = '\0';
    struct kiln_config *scratch = kiln_config_new();
    if (!scratch)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to check the flags");
    int rc = kiln_config_set(scratch, name, "", "flag", err);
    kiln_config_free(scratch);
    return rc ? rc : kiln_fail(err, KILN_CONFIG, "unknown flag %s", text);
}
