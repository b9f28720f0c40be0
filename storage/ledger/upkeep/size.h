/* size.h - sizes of the ledger's tables and counts of their updates, for people and benchmarks. The
 * server publishes its counts with a delay of about a second.
 */
#ifndef KILN_LEDGER_SIZE_H
#define KILN_LEDGER_SIZE_H

#include <stdint.h>

#include "schemas/error.h"

#define KILN_TABLE_NAME_MAX 63

struct kiln_ledger;

struct kiln_table_size {
    char name[KILN_TABLE_NAME_MAX + 1];
    uint64_t table_bytes; /* rows, with long values kept aside */
    uint64_t index_bytes;
    uint64_t live, dead;        /* rows, about */
    uint64_t updates, in_place; /* in_place: updates that touched no index (HOT) */
};
typedef int kiln_each_table(void *arg, const struct kiln_table_size *table, struct kiln_error *err);

/* The ledger's tables, the largest first.  A non-zero return of each ends it and is returned. */
int kiln_ledger_sizes(struct kiln_ledger *ledger, kiln_each_table *each, void *arg,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
