/* check.h - what must hold after a run, read from the ledger and from the store. */
#ifndef KILN_TEST_CHAOS_CHECK_H
#define KILN_TEST_CHAOS_CHECK_H

#include "tests/chaos/site.h"

/* Says on stdout what does not hold; true when everything does. */
bool chaos_check(const struct chaos_site *site, int jobs);

#endif
