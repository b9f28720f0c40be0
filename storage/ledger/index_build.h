/* index_build.h - builds an index of a large table while the fleet goes on writing to it. */
#ifndef KILN_INDEX_BUILD_H
#define KILN_INDEX_BUILD_H

#include "schemas/config/config.h"
#include "schemas/error.h"

struct kiln_pg;

/* Twice a second, if anything has changed.  phase: the server's word for what it does; done: the
 * part of that phase that is finished, 0 to 1. */
typedef void kiln_index_progress(void *arg, const char *index, const char *phase, double done);

/* Runs a text of comments and one statement CREATE INDEX CONCURRENTLY IF NOT EXISTS name ..., in no
 * transaction and without a time limit, since the server first waits for every open transaction.
 * An index of the name that an interrupted build has left invalid is dropped first.  A client that
 * dies ends the build.  KILN_INTERNAL: the text is something else. */
int kiln_index_build(struct kiln_pg *pg, const struct kiln_config *config, const char *sql,
                     kiln_index_progress *progress, void *arg,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
