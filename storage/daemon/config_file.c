/* config_file.c - which settings file is read, and the order in which settings are laid over it.
 *
 * A file that somebody named (flag or KILN_CONFIG) must be there; the usual places may be empty.
 */
#include "storage/daemon/config_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/limits.h"
#include "storage/formats/user_file.h"

extern char **environ;

/* KILN_NOT_FOUND if there is no such file. */
static int load(struct kiln_config *config, const char *path, struct kiln_error *err)
{
    struct kiln_error why;
    char *text;
    size_t len;
    int rc = kiln_user_file_read(path, KILN_CONFIG_FILE_MAX, &text, &len, &why);
    if (rc != 0)
        return kiln_fail(err, rc == KILN_NOT_FOUND || rc == KILN_NO_MEMORY ? rc : KILN_CONFIG,
                         "settings file: %s", why.text);
    rc = kiln_config_parse(config, text, len, path, err);
    free(text);
    return rc;
}

/* Reads the first file that is there; *ret_path (a literal or from outside) is NULL if none is. */
static int load_first(struct kiln_config *config, const char *flag_path, const char **ret_path,
                      struct kiln_error *err)
{
    const char *named = flag_path ? flag_path : getenv("KILN_CONFIG");
    *ret_path = named && *named ? named : NULL;
    if (*ret_path) {
        int rc = load(config, *ret_path, err);
        if (rc == KILN_NOT_FOUND)
            err->code = KILN_CONFIG;
        return rc == KILN_NOT_FOUND ? KILN_CONFIG : rc;
    }
    static const char *const usual[] = {"./.kiln/kiln.conf", "/etc/kiln/kiln.conf"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        int rc = load(config, usual[i], err);
        if (rc != KILN_NOT_FOUND) {
            *ret_path = usual[i];
            return rc;
        }
    }
    return 0;
}

int kiln_config_load(const char *flag_path, struct kiln_config **ret, char **ret_path,
                     struct kiln_error *err)
{
    struct kiln_error own; /* err may be NULL, the code is needed */
    if (!err)
        err = &own;
    struct kiln_config *config = kiln_config_new();
    if (!config)
        return kiln_fail(err, KILN_NO_MEMORY, "settings: no memory");
    const char *path;
    int rc = load_first(config, flag_path, &path, err);
    if (rc == 0)
        rc = kiln_config_environ(config, environ, err);
    char *copy = rc == 0 && ret_path && path ? strdup(path) : NULL;
    if (rc == 0 && ret_path && path && !copy)
        rc = kiln_fail(err, KILN_NO_MEMORY, "settings: no memory");
    if (rc != 0) {
        kiln_config_free(config);
        return rc;
    }
    if (ret_path)
        *ret_path = copy;
    *ret = config;
    return 0;
}
