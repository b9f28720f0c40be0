/* damage.h - objects of a batch that the store does not give back as the ledger has them.
 *
 * What is wrong is known when the files were fetched, after results.jsonl and the page were
 * written: so an export that finds some is made again without them.  Memory grows with what is
 * damaged.
 */
#ifndef KILN_CLI_EXPORT_DAMAGE_H
#define KILN_CLI_EXPORT_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_damage {
    uint64_t job;
    char role[16]; /* "full", "latent" */
    char *why;
    bool told;
};

/* Zero-initialise. */
struct kiln_damages {
    struct kiln_damage *at;
    size_t count, room;
    size_t named; /* of those that were told, how many one by one */
};

/* The texts are copied. */
int kiln_damages_add(struct kiln_damages *damages, uint64_t job, const char *role, const char *why,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* To be called between adding and finding. */
void kiln_damages_sort(struct kiln_damages *damages);
/* NULL if that object is none of them. */
struct kiln_damage *kiln_damages_find(struct kiln_damages *damages, uint64_t job, const char *role);
void kiln_damages_release(struct kiln_damages *damages);

#endif
