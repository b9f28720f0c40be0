/* minimise.h - fewer and smaller commands that still fail: delta debugging. */
#ifndef KILN_TEST_HOSTILE_MINIMISE_H
#define KILN_TEST_HOSTILE_MINIMISE_H

#include "tests/hostile/command.h"

/* Whether these commands, sent to a site where nothing was sent before, fail in the same way. */
typedef bool hostile_fails(void *arg, const struct hostile_list *list);

/* Takes commands out of the list, then fields out of the commands, then bytes out of the fields, as
 * long as the rest fails; at most `trials` trials.  Returns how many it took, or 0 if the whole
 * list did not fail, which is then as it was. */
int hostile_minimise(struct hostile_list *list, hostile_fails *fails, void *arg, int trials);

#endif
