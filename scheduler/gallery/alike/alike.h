/* alike.h - looks at the pixels of pictures in the background, and finds near-duplicates.
 *
 * A thread walks all pictures once, the newest first: fingerprints that the ledger has go into
 * memory, those that it lacks are computed from the smallest stored file, where this gallery is the
 * one that writes.  Then it does the same for every picture that the follower reports.  Nothing is
 * noted about how far it is: a picture without a row is one to look at, so it may be killed at any
 * moment, and any number of galleries may run.
 *
 * It works for at most a quarter of the time (half of it on new pictures), at a low priority, and
 * not at all while the search by meaning is being prepared (kiln_alike_hold).  A
 * file that is missing or damaged costs its own picture's fingerprint, and is tried again in an
 * hour. A store that does not answer is waited for.
 */
#ifndef KILN_GALLERY_ALIKE_H
#define KILN_GALLERY_ALIKE_H

#include "scheduler/gallery/alike/near.h"
#include "schemas/config/config.h"
#include "schemas/text/text.h"

struct kiln_alike;

/* config must outlive it. */
int kiln_alike_start(const struct kiln_config *config, struct kiln_alike **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* Accepts NULL.  False: its thread hangs in the store or the ledger, and nothing that it uses may
 * be freed. */
bool kiln_alike_stop(struct kiln_alike *alike) KILN_MUST_CHECK;

/* --- the thread that follows the ledger ------------------------------------------------------- */
/* A picture that is new or has changed, or is gone.  Never waits. */
void kiln_alike_note(struct kiln_alike *alike, uint64_t job, bool gone);
/* Held: the picture or page in work is finished, and the next one waits until this is called with
 * false, for HOLD_MAX_MS (a minute) at most. */
void kiln_alike_hold(struct kiln_alike *alike, bool held);
/* After each of its steps.  writes, replaced: of its progress. */
void kiln_alike_step(struct kiln_alike *alike, bool writes, bool replaced);

/* --- any thread ------------------------------------------------------------------------------- */
enum kiln_alike_known {
    KILN_ALIKE_NOT_YET, /* nobody has looked at the picture */
    KILN_ALIKE_FLAT,    /* it has too little structure for its hash to mean much */
    KILN_ALIKE_KNOWN
};
/* As kiln_near_find, for the picture of a job; the fingerprint is read from the ledger. */
int kiln_alike_near(struct kiln_alike *alike, struct kiln_ledger *session, uint64_t job,
                    struct kiln_near_hit *ret, uint32_t most, uint32_t *ret_count,
                    enum kiln_alike_known *ret_known, struct kiln_error *err) KILN_MUST_CHECK;
/* Gauges for the page of metrics. */
void kiln_alike_gauges(struct kiln_alike *alike, struct kiln_text *text);

#endif
