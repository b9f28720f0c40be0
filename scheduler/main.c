/* main.c - kiln-scheduler: signals and exit status around scheduler/daemon.c. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "scheduler/daemon.h"
#include "storage/daemon/config_flags.h"

static struct kiln_scheduler_signals signals;

static void on_signal(int number)
{
    if (number == SIGHUP)
        atomic_store(&signals.reload, true);
    else
        atomic_store(&signals.stop, true);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    /* A lost connection is an error code, not a signal that ends the program. */
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

static void help(void)
{
    printf("usage: kiln-scheduler [--config FILE] [--SETTING VALUE]...\n"
           "\n"
           "Takes jobs from the intake stream into the ledger and assigns them to the\n"
           "workers of its pool.  Several may run: one leads, the others stand by.  SIGTERM\n"
           "ends it, SIGHUP makes it read its settings again.  `kiln help config` lists the\n"
           "settings.\n"
           "\n"
           "  kiln-scheduler --config .kiln/kiln.conf --pool default --log-level debug\n");
}

/* Whether some arguments are no settings: a usage error, not a wrong setting. */
static bool has_strays(int argc, char **argv)
{
    struct kiln_error err;
    struct kiln_config *config = kiln_config_new();
    const char **rest = calloc((size_t)argc + 1, sizeof *rest);
    int count = 0;
    bool strays = config && rest &&
                  kiln_config_flags_lay(argc, argv, rest, &count, config, &err) == 0 && count > 0;
    free(rest);
    kiln_config_free(config);
    return strays;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help();
            return 0;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("kiln-scheduler %s\n", KILN_VERSION);
            return 0;
        }
    }
    struct kiln_error err;
    catch_signals();
    int rc = kiln_scheduler_run(argc, argv, &signals, &err);
    if (rc)
        fprintf(stderr, "kiln-scheduler: %s\n", err.text);
    return rc == KILN_CONFIG && has_strays(argc, argv) ? EX_USAGE : kiln_code_exit(rc);
}
