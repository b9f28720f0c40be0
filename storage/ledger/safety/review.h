/* review.h - which pictures a person should look at, and which one has looked at.  For any session.
 *
 * These lists know no level that is hidden: they are for people who decide what is hidden.
 */
#ifndef KILN_LEDGER_REVIEW_H
#define KILN_LEDGER_REVIEW_H

#include "storage/ledger/read/reader.h"

struct kiln_ledger;

enum kiln_review_list {
    KILN_REVIEW_WAITING, /* marked by a rule or a model, seen by no person; the newest job first */
    KILN_REVIEW_DECIDED  /* a person's opinion counts; the newest opinion first */
};

struct kiln_review_row {
    uint64_t job;
    int level; /* enum kiln_safety_level that counts */
    double score;
    const char *source; /* lent */
};
typedef int kiln_each_review(void *arg, const struct kiln_review_row *row, struct kiln_error *err);

/* The first page has page->after[0] = INT64_MAX and page->keys = 1. */
int kiln_ledger_review(struct kiln_ledger *session, const char *pool, enum kiln_review_list list,
                       struct kiln_page *page, kiln_each_review *each, void *arg,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* How many wait, up to max. */
int kiln_ledger_review_count(struct kiln_ledger *session, const char *pool, uint32_t max,
                             uint32_t *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
