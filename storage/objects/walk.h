/* walk.h - the objects of a directory in key order; private to storage/. */
#ifndef KILN_OBJECTSTORE_WALK_H
#define KILN_OBJECTSTORE_WALK_H

#include "storage/objects/store.h"

/* Calls each for every regular file under root_fd whose key starts with prefix, in byte order of
 * the keys.  root names the directory in errors. */
int kiln_store_walk(int root_fd, const char *root, const char *prefix, kiln_store_each *each,
                    void *arg, struct kiln_error *err) KILN_MUST_CHECK;

#endif
