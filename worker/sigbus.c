/* sigbus.c - see sigbus.h. */
#include "worker/sigbus.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static char text[256]; /* ready to write: a signal handler may not format */

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        (void)raise(number); /* SA_RESETHAND: the default action, once this returns */
        return;
    }
    (void)!write(STDERR_FILENO, text, strlen(text));
    _exit(EX_IOERR);
}

void kiln_sigbus_explain(const char *program)
{
    struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    snprintf(text, sizeof text,
             "%s: a mapped model file was cut short while it was read; replace files by renaming a "
             "new one over the old\n",
             program);
    (void)sigaction(SIGBUS, &bus, NULL);
}
