/* intern.h - equal texts get equal small numbers: 0, 1, 2, ... in the order of their first sight.
 *
 * What is compared millions of times (a tenant, a LoRA set) is compared as a number, and arrays
 * are indexed by it.  Texts are any bytes; they are copied, and never forgotten.
 */
#ifndef KILN_INTERN_H
#define KILN_INTERN_H

#include "scheduler/policy/slots.h"
#include "schemas/text/text.h"

struct kiln_intern { /* zero-initialise */
    struct kiln_slots slots;
    struct kiln_text bytes;
    size_t *starts; /* of text n in bytes; each is followed by a NUL */
    uint32_t count;
};
void kiln_intern_release(struct kiln_intern *table);

/* The number of this text, given now if it is new; KILN_NONE without memory. */
uint32_t kiln_intern(struct kiln_intern *table, const void *bytes, size_t len);
/* The number of this text, KILN_NONE if it has none. */
uint32_t kiln_intern_find(const struct kiln_intern *table, const void *bytes, size_t len);
/* The bytes of a number, NUL-terminated; borrowed until the next kiln_intern. */
const char *kiln_intern_text(const struct kiln_intern *table, uint32_t number);

#endif
