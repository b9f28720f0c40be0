/* follow.h - keeps the index of words in step with the pictures of the ledger.
 *
 * A follower polls image.changed and image_change, writes gallery_text and gallery_day, and removes
 * rows of gallery_picture whose picture has gone or has another file.  How far it is, is a snapshot
 * of Postgres, stored with the index: a row is new if its transaction was not in that snapshot.  So
 * late, reordered and rolled-back commits are right by construction, and a follower may be killed
 * at any moment.  Transaction numbers mean nothing in another cluster: after a restore the index is
 * made again, newest pictures first, while searches go on.
 *
 * Any number of followers may run; one of them writes (an advisory lock), the others report.  One
 * thread uses a follower.  It holds a page of pictures in memory.
 *
 *     while (!stop) {
 *         rc = kiln_follower_step(follower, &progress, &err);
 *         if (rc || !progress.more)
 *             wait for a second, or for a hint of the bus
 *     }
 */
#ifndef KILN_GALLERY_FOLLOW_H
#define KILN_GALLERY_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

struct kiln_follower;

/* A picture that is new, has another level or star, or is gone.  Reported after it was written, at
 * least once.  Pictures that a rebuild comes by are not reported: whoever keeps more than the
 * ledger does reads it by itself at its start, after kiln_follower_open. */
typedef int kiln_each_change(void *arg, uint64_t job, bool gone, struct kiln_error *err);

/* A page of pictures whose rows of the index this follower has just written, new ones and those of
 * a rebuild.  What it does to each may be done again: the page counts as seen only when it has
 * returned 0. */
typedef int kiln_each_written(void *arg, const uint64_t *jobs, size_t count,
                              struct kiln_error *err);

struct kiln_follower_options {
    kiln_each_change *each; /* may be NULL */
    void *arg;
    kiln_each_written *written; /* may be NULL */
    void *written_arg;
    uint32_t page_rows; /* pictures in memory; 0: 500 */
    int64_t count_ms;   /* after which the words of new pictures are counted; 0: a minute */
};

struct kiln_follower_progress {
    uint64_t written, removed; /* rows of the index in this step, by this follower */
    bool writes;               /* this follower is the one that writes */
    bool more;                 /* there is more to do: call again at once */
    bool complete;             /* the index has every picture */
    bool replaced; /* the ledger is not the one of the last step: what was kept of it is void */
    uint64_t rebuilt_down_to; /* while not complete: the index has all pictures from this job on */
};

/* Does not connect.  config must outlive the follower. */
int kiln_follower_open(const struct kiln_config *config, const char *name,
                       const struct kiln_follower_options *options, struct kiln_follower **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
void kiln_follower_close(struct kiln_follower *follower); /* accepts NULL */

/* A bounded piece of work: some pages of changes, then a page of a rebuild.  After an error, also
 * one of the callback, the next step begins where the stored snapshot says. */
int kiln_follower_step(struct kiln_follower *follower, struct kiln_follower_progress *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;

#endif
