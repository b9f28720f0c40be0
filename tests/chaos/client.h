/* client.h - the one who wants pictures: sends batches while everything breaks.
 *
 * A thread with connections of its own.  It does what bus.md tells a client to do: keys of its own,
 * a receipt asked for, and the lines sent again (under a new token) when none comes or the receipt
 * counts too few.  It also cancels one batch.
 */
#ifndef KILN_TEST_CHAOS_CLIENT_H
#define KILN_TEST_CHAOS_CLIENT_H

#include "tests/support/stack.h"

#define CHAOS_BATCHES 6
#define CHAOS_LINES 24 /* of a batch */
#define CHAOS_JOBS (CHAOS_BATCHES * CHAOS_LINES)

struct chaos_client;

/* failing: some lines tell the test card to fail, which no other engine understands. */
struct chaos_client *chaos_client_start(const struct kiln_test_stack *stack, bool failing);
/* Waits until every batch is taken in; false when that took longer than limit_s. */
bool chaos_client_finish(struct chaos_client *client, double limit_s);
/* How often lines were sent again. */
int chaos_client_resent(const struct chaos_client *client);
void chaos_client_free(struct chaos_client *client); /* accepts NULL; ends the thread */

#endif
