/* worker_program.c - kiln-worker as it is, but for its main function. */
#include <stdlib.h>

#include "tests/sim/fleet.h"
#include "worker/daemon.h"

int sim_worker_program(void *arg)
{
    const struct sim_place *place = arg;
    static char *argv[] = {"kiln-worker", NULL};
    const struct kiln_daemon_source source = {1, argv};
    struct kiln_config *config = sim_config();
    int status = kiln_daemon_run(config, place->name, &source);
    kiln_config_free(config);
    return status;
}
