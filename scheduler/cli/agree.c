/* agree.c - a question on the terminal; scripts answer it beforehand with --yes. */
#include "scheduler/cli/agree.h"

#include <stdio.h>
#include <unistd.h>

bool kiln_agreed(const struct kiln_cli *cli, bool yes, const char *question)
{
    char line[16];
    if (yes)
        return true;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        kiln_warn(cli, "%s  Nothing of it was done; --yes does it", question);
        return false;
    }
    fprintf(stderr, "%s  Go on? [y/N] ", question);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}
