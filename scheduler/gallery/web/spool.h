/* spool.h - the body of a request that is too long for memory: an unnamed temporary file.
 *
 * The whole body is there before anybody reads it.  So a client that goes away in the middle has
 * sent nothing, and a slow one keeps no worker and no server waiting.
 */
#ifndef KILN_GALLERY_SPOOL_H
#define KILN_GALLERY_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_WEB_SPOOL_MAX (64L << 20) /* bytes of one body */
#define KILN_WEB_SPOOLS 8              /* bodies at a time */

struct kiln_web_spool {
    int fd;
    uint64_t bytes;
};

/* KILN_FULL: there are KILN_WEB_SPOOLS already. */
int kiln_web_spool_new(struct kiln_web_spool **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_web_spool_free(struct kiln_web_spool *spool); /* accepts NULL */
/* KILN_BAD_INPUT: the body is longer than KILN_WEB_SPOOL_MAX. */
int kiln_web_spool_add(struct kiln_web_spool *spool, const void *bytes, size_t len,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif
