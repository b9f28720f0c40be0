/* site.h - servers, a scheduler, two workers with the test-card engine, a good client, and
 * connections of everybody who writes to Redis. */
#ifndef KILN_TEST_HOSTILE_SITE_H
#define KILN_TEST_HOSTILE_SITE_H

#include <hiredis/hiredis.h>

#include "tests/hostile/command.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/worker_process.h"

#define HOSTILE_WORKERS 2
#define HOSTILE_GOOD_LINES 4 /* of a call of the good client */

struct hostile_site {
    struct kiln_test_stack *stack;
    struct kiln_test_scheduler scheduler;
    struct kiln_test_worker workers[HOSTILE_WORKERS];
    redisContext *redis[HOSTILE_RIGHTS], *good;
    unsigned calls;    /* of the good client since the site was emptied */
    unsigned declined; /* commands that Redis itself refused */
};

/* One for the test program; its Redis has the users that `kiln migrate --roles` makes. */
void hostile_site_start(struct hostile_site *site);
void hostile_site_stop(struct hostile_site *site);
/* Nothing in Redis and in the ledger, a new scheduler, and workers that live. */
void hostile_site_reset(struct hostile_site *site);

/* Sends it with its rights and notes the id of what it has added.  An error of Redis is no
 * failure. */
void hostile_site_send(struct hostile_site *site, struct hostile_command *command);
/* A question with all rights: the reply, or NULL for an error; freeReplyObject it. */
redisReply *hostile_site_ask(struct hostile_site *site, const char *const *words);
/* The same, answered by a number; -1 for an error. */
long long hostile_site_number(struct hostile_site *site, const char *const *words);

/* The good client does what bus.md says: it sends its lines one by one, while others send theirs,
 * and waits for the receipt; without one, it sends them again under another token. */
struct hostile_good {
    char batch[32], token[40];
    unsigned tries;
    bool numbered;
};
void hostile_good_begin(struct hostile_site *site, struct hostile_good *good);
void hostile_good_line(struct hostile_site *site, const struct hostile_good *good, unsigned line);
/* False if there is no whole receipt within limit_s. */
bool hostile_good_end(struct hostile_site *site, struct hostile_good *good, double limit_s);

#endif
