/* process_stats.h - what Linux knows of this process, under the names that Prometheus' own clients
 * give to it: processor seconds, memory, threads, file descriptors, start. */
#ifndef KILN_PROCESS_STATS_H
#define KILN_PROCESS_STATS_H

#include "schemas/text.h"

/* Appends the metrics; what cannot be read is left out. */
void kiln_process_stats(struct kiln_text *text);

#endif
