/* check.h - what must hold after hostile commands were sent among a good client's. */
#ifndef KILN_TEST_HOSTILE_CHECK_H
#define KILN_TEST_HOSTILE_CHECK_H

#include "tests/hostile/site.h"

struct hostile_verdict {
    const char *broken; /* the promise, NULL = every one is kept */
    char detail[400];
};

/* Waits, for limit_s at most, until everything that was sent is taken in and good jobs are done;
 * then looks at every promise.  list: what was sent since the site was emptied or last looked at.
 */
void hostile_check(struct hostile_site *site, const struct hostile_list *list, double limit_s,
                   struct hostile_verdict *ret);
/* `kiln status`, `doctor` and `why` answer. */
void hostile_check_commands(struct hostile_site *site, struct hostile_verdict *ret);
/* Breaks one promise after the other by hand: false, and says so, if one is not noticed. */
bool hostile_check_notices(struct hostile_site *site);

#endif
