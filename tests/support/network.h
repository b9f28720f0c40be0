/* network.h - programs of a test in networks of their own, behind cables that can be pulled out.
 *
 * The test moves into a network namespace, where its servers may listen on every address without
 * anybody outside seeing them.  A room is one more namespace; a cable (a veth pair) for each server
 * ties it to the test's.  A cable that is out loses what is sent, as a real one: nobody is told,
 * TCP repeats itself until it is in again, and the far end keeps a connection that has no near one
 * any more.  All of it goes with the test, however that ends.
 *
 * It takes root, network namespaces and veth in the kernel, and the command ip (iproute2).
 */
#ifndef KILN_TEST_NETWORK_H
#define KILN_TEST_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum test_cable { TEST_CABLE_REDIS, TEST_CABLE_POSTGRES, TEST_CABLE_STORE, TEST_CABLES };

struct test_room;

/* Moves the calling thread, and whatever it starts from now on, into a network of its own.  False,
 * with the reason in why, where that is not to be had: nothing has changed then. */
bool test_network_own(char *why, size_t size);
/* Where a test's server shall listen, in host order: the loopback, or everywhere once the network
 * is the test's own. */
uint32_t test_network_listen(void);
/* The address under which every room sees the server at the end of that cable. */
const char *test_network_address(enum test_cable cable);

/* number: 0 to 63, each once at a time.  All its cables are in. */
struct test_room *test_room_new(int number);
void test_room_free(struct test_room *room); /* accepts NULL; what runs inside stays there, alone */
/* Between the two calls, whatever this thread starts is started inside. */
void test_room_enter(const struct test_room *room);
void test_room_leave(void);
/* Pulls a cable, or puts it in again. */
void test_room_cut(struct test_room *room, enum test_cable cable, bool apart);
/* All connections out of it break at once, at both ends; none does where the kernel has no socket
 * destruction (CONFIG_INET_DIAG_DESTROY). */
void test_room_reset(const struct test_room *room);

#endif
