/* hush.h - log lines that a client can cause as often as it likes: one now and then, with a count.
 */
#ifndef KILN_HUSH_H
#define KILN_HUSH_H

#include <stdint.h>

#define KILN_HUSH_MS 5000 /* between lines of one kind */

/* Starts as {0}; one for each kind of line. */
struct kiln_hush {
    int64_t next_ms;
    uint64_t hidden;
};

/* A warning: what it is about (a worker, a key) and why.  Within KILN_HUSH_MS of the last one it is
 * only counted; the next line says how many there were ("hidden"). */
void kiln_hush_log(struct kiln_hush *hush, const char *event, const char *what, const char *why);

#endif
