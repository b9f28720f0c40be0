/* daemon.h - kiln-worker as a service: start, signals, end. */
#ifndef KILN_WORKER_DAEMON_H
#define KILN_WORKER_DAEMON_H

#include "schemas/config/config.h"

/* Where SIGHUP reads the settings again: the command line, which names the file. */
struct kiln_daemon_source {
    int argc;
    char *const *argv;
};

/* Runs the worker until SIGTERM, SIGINT or a drain message.  Returns the exit status.
 *     SIGTERM, SIGINT   finish the current batch within drain_s, return the rest, exit 0;
 *                       a second one: stop at the next step
 *     SIGHUP            reload the settings that may change while running
 * id NULL: made of host and device. */
int kiln_daemon_run(struct kiln_config *config, const char *id,
                    const struct kiln_daemon_source *source);

#endif
