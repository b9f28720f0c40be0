/* attack.h - what somebody who may write to Redis sends, drawn from a seed. */
#ifndef KILN_TEST_HOSTILE_ATTACK_H
#define KILN_TEST_HOSTILE_ATTACK_H

#include "tests/hostile/command.h"
#include "tests/support/random.h"

#define HOSTILE_POOL "default"
#define HOSTILE_KEY(part) "kiln:{" HOSTILE_POOL "}:" part
#define HOSTILE_LAST_ID "18446744073709551615-18446744073709551615"

/* Appends one command, now and then a few that belong together, which these rights allow.  number:
 * of this attack, for names of its own.  victim: the token of a good client that is sending. */
void hostile_attack(struct test_random *random, enum hostile_rights rights, unsigned number,
                    const char *victim, struct hostile_list *list);

#endif
