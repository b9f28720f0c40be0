/* swift.h - a private OpenStack Swift with its S3 layer, from Debian's packages: a real server that
 * verifies signatures, payload hashes and MD5.
 *
 * memcached and the four Swift servers run on free loopback ports over a new directory, on a file
 * system that has user attributes, and die with the test.  There is one bucket, TEST_BUCKET.
 */
#ifndef KILN_TEST_SWIFT_H
#define KILN_TEST_SWIFT_H

#include "storage/objects/store.h"

#define TEST_BUCKET "kiln-test"
#define TEST_S3_KEY "test:tester"
#define TEST_S3_SECRET "testing"

struct test_swift;

/* NULL, with the reason on stdout, when this machine cannot run it: the test then exits 77.  Fails
 * loudly when it should run and does not. */
struct test_swift *test_swift_start(void);
void test_swift_stop(struct test_swift *swift); /* accepts NULL */
int test_swift_port(const struct test_swift *swift);

/* A store of s3://TEST_BUCKET/prefix at 127.0.0.1:port with the right keys in the environment;
 * more: further settings, ended by NULL, or NULL. */
struct kiln_store *test_s3_store(int port, const char *prefix, const char *const *more);

#endif
