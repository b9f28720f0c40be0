/* route.h - what loras "auto" chose for a job, and why, in words.
 *
 * The router keeps its reason as JSON of at most KILN_ROUTE_MAX bytes (kiln_job.route):
 *
 *     {"v":41,"r":2,"e":"3f2a9c01","p":[["neon",0.97,"trigger neon glow"],["noir",0.41,"style
 *     taken"]]}
 *
 * v is the version of the registry, r the number of the router, e the id of its embedder
 * (scheduler/embedding/model.h), left out if it has none; then the LoRAs that were chosen, in
 * their order, and those that nearly were.  Entries that have no room are left out.
 */
#ifndef KILN_ROUTE_H
#define KILN_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/job.h"

#define KILN_ROUTE_ENTRIES 8
#define KILN_ROUTE_WORDS 64
#define KILN_ROUTE_EMBEDDER_SIZE 16 /* bytes, with its NUL */

struct kiln_text;

struct kiln_route_entry {
    char name[KILN_NAME_MAX + 1];
    double p;                     /* probability, 0 .. 1 */
    char words[KILN_ROUTE_WORDS]; /* what spoke for it, or why it was not chosen */
    bool chosen;
    double scale; /* of a chosen one */
};

struct kiln_route_reason {
    uint64_t version;
    uint32_t router, count;
    char embedder[KILN_ROUTE_EMBEDDER_SIZE]; /* "": none */
    struct kiln_route_entry entries[KILN_ROUTE_ENTRIES];
};

/* False: `auto` did not choose for this job, or the reason is damaged. */
bool kiln_route_read(const struct kiln_job *job, struct kiln_route_reason *ret);

/* Appends a sentence without a full stop; nothing for a job without a reason. */
void kiln_route_words(const struct kiln_job *job, struct kiln_text *out);

#endif
