/* names.h - the rule for names, and the known name that a wrong one probably means.
 *
 * Names of pools, tenants, styles, LoRAs, models, workers and batches become parts of Redis keys,
 * object keys and file names; so they are [A-Za-z0-9][A-Za-z0-9._-]* and nothing else.
 */
#ifndef KILN_NAMES_H
#define KILN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether text[0..len) is a name of 1 .. max bytes. */
bool kiln_name_valid(const char *text, size_t len, size_t max);
#define KILN_NAME_RULE "letters, digits, '.', '_' and '-', beginning with a letter or digit"

/* Batches that Kiln makes itself, with names that users cannot use. */
#define KILN_CACHE_BATCH "latent-cache"
#define KILN_BACKFILL_BATCH "backfill-" /* and the name of a backfill */
#define KILN_NAMES_RESERVED                                                                        \
    "Kiln's own names are '" KILN_CACHE_BATCH "' and '" KILN_BACKFILL_BATCH "...'"
/* Whether users cannot give this name to a batch or a tenant. */
bool kiln_name_reserved(const char *name);

/* Edit distance (insert, delete, change, swap neighbours), letters compared without case; returns
 * more than max as soon as it is certain to be larger. */
size_t kiln_edit_distance(const char *a, size_t a_len, const char *b, size_t b_len, size_t max);

/* The entry of names[0..count) nearest to text[0..len), or NULL if none is similar enough
 * (a third of its letters may differ, at least one). */
const char *kiln_nearest(const char *text, size_t len, const char *const *names, size_t count);

/* The same at any distance; NULL only if count is 0. */
const char *kiln_closest(const char *text, size_t len, const char *const *names, size_t count);

#endif
