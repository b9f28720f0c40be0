/* gauges.h - the worker's metrics that are read when they are scraped, not counted. */
#ifndef KILN_WORKER_GAUGES_H
#define KILN_WORKER_GAUGES_H

#include "schemas/text/text.h"

/* For the exporter; arg is the struct kiln_worker. */
void kiln_worker_gauges(void *worker, struct kiln_text *text);

#endif
