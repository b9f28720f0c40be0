/* meant.c - which private stack a command means, by its flags, its surroundings and the files that
 * are there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/stack/stack.h"

static const char *named_by_environment(void)
{
    const char *path = getenv("KILN_CONFIG");
    return path && path[0] ? path : NULL;
}

void kiln_settings_path(const struct kiln_cli *cli, char out[PATH_MAX])
{
    const char *places[] = {cli->config_path, named_by_environment(), ".kiln/kiln.conf",
                            "/etc/kiln/kiln.conf"};
    out[0] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!places[i] || (i >= 2 && access(places[i], R_OK) != 0))
            continue;
        snprintf(out, PATH_MAX, "%s", places[i]);
        return;
    }
}

bool kiln_stack_of(const char *config_path, char out[PATH_MAX])
{
    char path[PATH_MAX];
    char *real = realpath(config_path, NULL);
    snprintf(out, PATH_MAX, "%s", real ? real : config_path);
    free(real);
    char *slash = strrchr(out, '/');
    if (!slash)
        snprintf(out, PATH_MAX, ".");
    else
        *slash = '\0';
    return access(kiln_join(path, out, "stack.json"), F_OK) == 0 ||
           (access(kiln_join(path, out, "run/lock"), F_OK) == 0 &&
            access(kiln_join(path, out, "redis"), F_OK) == 0);
}

int kiln_stack_meant(const struct kiln_cli *cli, const char *dir, char out[PATH_MAX],
                     struct kiln_error *err)
{
    const char *config = cli->config_path ? cli->config_path : named_by_environment();
    if (!dir && config && kiln_stack_of(config, out))
        return 0;
    if (!dir && cli->config_path)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "--config %s belongs to no private stack; name the stack's directory with "
                         "--dir DIR",
                         cli->config_path);
    snprintf(out, PATH_MAX, "%s", dir ? dir : ".kiln");
    return 0;
}
