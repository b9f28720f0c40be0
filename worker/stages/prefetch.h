/* prefetch.h - prepares what the next assignment needs while another one is rendered. */
#ifndef KILN_PREFETCH_H
#define KILN_PREFETCH_H

#include "worker/state/worker.h"

/* Asks the engine to load the LoRAs of a flight, which are on this machine, and to encode its
 * prompts, and returns at once.  Any thread. */
void kiln_worker_prefetch(struct kiln_worker *worker, const struct kiln_flight *flight);

#endif
