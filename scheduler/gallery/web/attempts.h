/* attempts.h - how often a token may be guessed: one limit for the sign-in form and for Bearer.
 *
 * Only wrong tokens cost.  An address has a few of them at once and then one a second; while it has
 * none left, its tokens are not even looked at, since a limit that lets a right guess through is
 * none.  All addresses together have a ceiling as well, which leaves those alone that have shown a
 * right token: whoever guesses from a thousand addresses locks nobody out who is in already.
 */
#ifndef KILN_GALLERY_ATTEMPTS_H
#define KILN_GALLERY_ATTEMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_WEB_ATTEMPTS 8           /* of an address, at once ... */
#define KILN_WEB_ATTEMPT_MS 1000      /* ... and one more after so long */
#define KILN_WEB_ATTEMPTS_ALL 200     /* of all addresses together ... */
#define KILN_WEB_ATTEMPT_ALL_MS 50    /* ... and one more after so long */
#define KILN_WEB_ATTEMPT_PLACES 1024U /* addresses that are remembered */

struct kiln_web_attempts;

/* NULL: no memory. */
struct kiln_web_attempts *kiln_web_attempts_new(void);
void kiln_web_attempts_free(struct kiln_web_attempts *attempts); /* accepts NULL */

/* Whether a token from this numeric address is looked at now; else *ret_wait_s says when again.
 * An IPv6 address stands for its /64.  now_ms: monotonic. */
bool kiln_web_attempt_allowed(struct kiln_web_attempts *attempts, const char *address,
                              int64_t now_ms, unsigned *ret_wait_s);
/* What came of it. */
void kiln_web_attempt_note(struct kiln_web_attempts *attempts, const char *address, bool right,
                           int64_t now_ms);

#endif
