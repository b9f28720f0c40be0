/* log_limit.h - warnings that a client can cause as often as it likes: one now and then, with a
 * count of the others. */
#ifndef KILN_LOG_LIMIT_H
#define KILN_LOG_LIMIT_H

#include <stdint.h>

#define KILN_LOG_LIMIT_MS 5000 /* between lines of one kind */

/* Starts as {0}; one for each kind of line. */
struct kiln_log_limit {
    int64_t next_ms;
    uint64_t hidden;
};

/* Logs what a warning is about (a worker, a key) and why.  Within KILN_LOG_LIMIT_MS of the last one
 * it is only counted; the next line says how many there were ("hidden"). */
void kiln_log_limited(struct kiln_log_limit *limit, const char *event, const char *what,
                      const char *why);

#endif
