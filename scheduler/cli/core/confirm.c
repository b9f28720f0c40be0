/* confirm.c - a question on the terminal; scripts answer it beforehand with --yes. */
#include "scheduler/cli/core/confirm.h"

#include <stdio.h>
#include <unistd.h>

static bool somebody_is_there(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

static bool ask(const char *question)
{
    char line[16];
    fprintf(stderr, "%s  Go on? [y/N] ", question);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}

bool kiln_confirm(const struct kiln_cli *cli, bool yes, const char *question)
{
    if (yes)
        return true;
    if (somebody_is_there())
        return ask(question);
    kiln_warn(cli, "%s  Nothing was changed. Add --yes to proceed", question);
    return false;
}

bool kiln_confirm_at_terminal(bool yes, const char *question)
{
    return yes || !somebody_is_there() || ask(question);
}
