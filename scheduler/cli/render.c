/* render.c - `kiln render` and `kiln tokenize` are kiln-worker's: the same arguments go to it.
 *
 * So kiln itself stays free of LibTorch and starts in a few milliseconds.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/cli.h"
#include "scheduler/cli/verbs.h"

int kiln_verb_render(struct kiln_cli *cli, int argc, char **argv)
{
    char self[PATH_MAX], path[PATH_MAX + 16];
    char *words[KILN_GIVEN_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return kiln_warn(cli, "read /proc/self/exe: %s", strerror(errno)), EX_OSERR;
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(path, sizeof path, "%s/kiln-worker", self);
    if (argc + 2 > KILN_GIVEN_MAX)
        return kiln_usage(cli, "more than %d arguments", KILN_GIVEN_MAX);
    words[0] = path;
    memcpy(words + 1, argv, (size_t)argc * sizeof *argv); /* argv[0] is the verb */
    words[argc + 1] = NULL;
    signal(SIGPIPE, SIG_DFL);
    execv(path, words);
    kiln_warn(cli, "start %s: %s", path, strerror(errno));
    return EX_UNAVAILABLE;
}
