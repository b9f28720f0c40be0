/* gauges.h - what a worker shows to whoever scrapes its metrics, beside what it counts. */
#ifndef KILN_WORKER_GAUGES_H
#define KILN_WORKER_GAUGES_H

#include "schemas/text.h"

/* For the exporter; arg is the struct kiln_worker. */
void kiln_worker_gauges(void *worker, struct kiln_text *text);

#endif
