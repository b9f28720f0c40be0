/* unrated.h - which pictures a rule or a classifier still has to look at. */
#ifndef KILN_LEDGER_UNRATED_H
#define KILN_LEDGER_UNRATED_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_ledger;

/* --- a rule about prompts --------------------------------------------------------------------- */
struct kiln_rule_picture {
    uint64_t job;
    const char *pool, *prompt; /* lent */
    const char *said_by;       /* source of the newest opinion of a rule; NULL: there is none */
    int said;                  /* its enum kiln_safety_level; UNCHECKED: taken back, or none */
};
typedef int kiln_each_rule_picture(void *arg, const struct kiln_rule_picture *picture,
                                   struct kiln_error *err);
/* Those of the jobs that have a picture, of all pools. */
int kiln_ledger_rule_pictures(struct kiln_ledger *session, const uint64_t *jobs, size_t count,
                              kiln_each_rule_picture *each, void *arg,
                              struct kiln_error *err) KILN_MUST_CHECK;

/* How far the rule of this source is: pictures of jobs below *ret_below are left, 0: none.  A rule
 * that is new begins above all jobs, and the others are forgotten: should one come back, it begins
 * anew.  Needs a session that writes. */
int kiln_ledger_rule_begin(struct kiln_ledger *ledger, const char *source, uint64_t *ret_below,
                           struct kiln_error *err) KILN_MUST_CHECK;
int kiln_ledger_rule_reached(struct kiln_ledger *ledger, const char *source, uint64_t below,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* Up to `most` jobs with a picture below this one, falling, of all pools. */
int kiln_ledger_rule_next(struct kiln_ledger *session, uint64_t below, uint32_t most,
                          uint64_t *ret_jobs, uint32_t *ret_count,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* --- a classifier ----------------------------------------------------------------------------- */
struct kiln_unrated_picture {
    uint64_t job;
    const char *key; /* of the largest stored size; NULL: no file; lent */
};
typedef int kiln_each_unrated(void *arg, const struct kiln_unrated_picture *picture,
                              struct kiln_error *err);
/* Pictures of jobs below `below` on which this source has no opinion, the newest first, at most
 * `most`.  Looks at KILN_UNRATED_ROWS pictures at most; *ret_below: where to go on; 0: nothing is
 * left. */
#define KILN_UNRATED_ROWS 5000
int kiln_ledger_unrated(struct kiln_ledger *session, const char *pool, const char *source,
                        uint64_t below, uint32_t most, kiln_each_unrated *each, void *arg,
                        uint64_t *ret_below, struct kiln_error *err) KILN_MUST_CHECK;
/* How many there are in all; reads them all. */
int kiln_ledger_unrated_count(struct kiln_ledger *session, const char *pool, const char *source,
                              uint64_t *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
