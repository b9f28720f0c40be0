/* prefetch.h - what the next assignment needs, made ready while another one is drawn. */
#ifndef KILN_PREFETCH_H
#define KILN_PREFETCH_H

#include "worker/state/worker.h"

/* Asks the engine for LoRAs and texts of the assignment, which may be there already, and returns at
 * once.  Any thread. */
void kiln_worker_prefetch(struct kiln_worker *worker, const struct kiln_assignment *assignment);

#endif
