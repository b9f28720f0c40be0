/* shapes.h - messages of the bus with something wrong in them, from a seed.
 *
 * Each begins as a good message of schemas/bus.md; up to three things are then done to it.  Most
 * must be refused, some are good by chance.  What the page allows anybody to do to others (to
 * cancel their jobs, to drain a worker, to assign a job that exists) is never among them: obeying
 * that is no defect.
 */
#ifndef KILN_TEST_HOSTILE_SHAPES_H
#define KILN_TEST_HOSTILE_SHAPES_H

#include "tests/hostile/bytes.h"
#include "tests/support/random.h"

enum hostile_kind {
    HOSTILE_LINE,
    HOSTILE_EVENT,
    HOSTILE_ORDER,
    HOSTILE_BEAT,
    HOSTILE_ASSIGNMENT,
    HOSTILE_KINDS
};
#define HOSTILE_FIRST_JOB 1000000000000 /* ids of jobs that nobody has are from here on */

struct hostile_bytes hostile_message(struct test_random *random, enum hostile_kind kind);

/* Fields of an intake entry: name, value, name, value, ... */
#define HOSTILE_FIELDS_MAX 16
struct hostile_entry {
    struct hostile_bytes texts[2 * HOSTILE_FIELDS_MAX];
    size_t count; /* of pairs */
};
/* batch: a name of its own, which most entries have; token: one that others have, too. */
void hostile_intake(struct test_random *random, const char *batch, const char *token,
                    struct hostile_entry *ret);
void hostile_entry_release(struct hostile_entry *entry);

#endif
