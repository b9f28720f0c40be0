/* vote.h - +1 and -1 on a picture.  A vote belongs to the picture, not to a person, as a star does.
 */
#ifndef KILN_LEDGER_VOTE_H
#define KILN_LEDGER_VOTE_H

#include <stdint.h>

#include "schemas/error.h"

struct kiln_ledger;

/* value: 1, -1, or 0 to take it back.  KILN_NOT_FOUND: no picture of that job in the pool.  Needs a
 * session that writes. */
int kiln_ledger_vote(struct kiln_ledger *ledger, const char *pool, uint64_t job, int value,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
