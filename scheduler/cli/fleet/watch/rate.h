/* rate.h - rates from counts that were seen one after the other.
 *
 * Nobody sends rates, only counts.  Each counter (the jobs of the pool, the pictures of a worker)
 * has a short history; its rate is what the last minute added.
 */
#ifndef KILN_CLI_WATCH_RATE_H
#define KILN_CLI_WATCH_RATE_H

#include <stddef.h>
#include <stdint.h>

#define KILN_RATE_SAMPLES 16
#define KILN_RATE_WINDOW_S 60.0

struct kiln_rate_row {
    char name[96];
    uint32_t count; /* samples so far; the ring holds the last ones */
    struct {
        double at_s;
        uint64_t value;
    } sample[KILN_RATE_SAMPLES];
    uint64_t value;
    double seen_s; /* of value */
};
struct kiln_rates {
    struct kiln_rate_row *rows; /* in the order they were first seen */
    size_t count, room;
};

/* Notes a count.  One that is smaller than before (its process began anew) begins a new history;
 * a name that was not seen for two windows is forgotten. */
void kiln_rate_note(struct kiln_rates *rates, const char *name, uint64_t value, double now_s);
/* Added a minute; 0 while nothing is known. */
double kiln_rate_per_min(const struct kiln_rates *rates, const char *name, double now_s);
void kiln_rate_release(struct kiln_rates *rates);

#endif
