/* values.h - what does not belong where it stands: numbers at every edge, texts that no parser,
 * ledger, file name or terminal likes. */
#ifndef KILN_TEST_HOSTILE_VALUES_H
#define KILN_TEST_HOSTILE_VALUES_H

#include "tests/hostile/bytes.h"
#include "tests/support/random.h"

/* A value of a JSON field, as it is written: a number, a string in its quotes, a literal, a list,
 * deep nesting, or nothing that JSON knows. */
struct hostile_bytes hostile_value(struct test_random *random);
/* A value of a field of a stream's entry. */
struct hostile_bytes hostile_word(struct test_random *random);
/* A number, as it is written. */
const char *hostile_number(struct test_random *random);

#endif
