/* link.h - a TCP link between one program and one server that can be cut.
 *
 * A child process forwards bytes from a loopback port of its own to the server's.  Cut, it forwards
 * nothing in either direction and answers no new connection, as a network that has come apart; what
 * was under way goes on when it is repaired.  Reset, all its connections break at once.  Hushed,
 * its connections of that moment are silent for good, and new ones work.
 */
#ifndef KILN_TEST_LINK_H
#define KILN_TEST_LINK_H

#include <stdbool.h>

struct test_link;

/* To 127.0.0.1:port.  It dies with the test. */
struct test_link *test_link_start(int port);
void test_link_stop(struct test_link *link); /* accepts NULL */
int test_link_port(const struct test_link *link);

void test_link_cut(struct test_link *link, bool cut);
void test_link_reset(struct test_link *link);
void test_link_hush(struct test_link *link);

#endif
