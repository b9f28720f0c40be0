/* process_stats.h - processor seconds, memory, threads, file descriptors and start of this process,
 * with the names that Prometheus' own clients use. */
#ifndef KILN_PROCESS_STATS_H
#define KILN_PROCESS_STATS_H

#include "schemas/text/text.h"

/* Appends the metrics; what cannot be read is left out. */
void kiln_process_stats(struct kiln_text *text);

#endif
