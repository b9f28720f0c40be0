/* stored.h - the promise of the warehouse: no row without its object. */
#ifndef KILN_TEST_STORED_H
#define KILN_TEST_STORED_H

#include "tests/support/stack.h"

/* Fails the cmocka test unless every object row of the ledger has its object in STACK/store with
 * the bytes it says (sha256 and size), every done image job has exactly one image and a `full`
 * object, and no job that is not done has any.  Returns the number of objects looked at. */
long long kiln_test_assert_stored(struct kiln_test_stack *stack);

#endif
