/* store.h - stores for tests: a config made of name, value pairs. */
#ifndef KILN_TEST_STORE_H
#define KILN_TEST_STORE_H

#include "storage/objects/store.h"

/* A config with these name, value pairs, ended by NULL; fails the test when one is refused. */
struct kiln_config *test_config(const char *const *pairs);
/* Opens file://DIR with a fresh directory under the current one named `name`. */
struct kiln_store *test_file_store(const char *name);

#endif
