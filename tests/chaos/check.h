/* check.h - what must hold after a run, read from the ledger and from the store. */
#ifndef KILN_TEST_CHAOS_CHECK_H
#define KILN_TEST_CHAOS_CHECK_H

#include "tests/chaos/site.h"

/* How often a rule does not hold, and which on stdout. */
int chaos_check(const struct chaos_site *site, int jobs);
/* Breaks one rule after the other by hand and looks again: true when each breach is noticed.  What
 * is left is good for nothing. */
bool chaos_check_notices(const struct chaos_site *site, int jobs);

#endif
