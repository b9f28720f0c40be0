/* look.h - what is remembered of having looked for stored latents for a waiting job.
 *
 * Marks are short hashes of a prompt: to the byte, of its canonical form and of its subject.  Only
 * a latent whose prompt shares a mark can be of use to the job; one that shares a mark may still be
 * of none.  So a job need not be looked at again until something came under one of its marks
 * (scheduler/cache/news.h).
 */
#ifndef KILN_REUSE_LOOK_H
#define KILN_REUSE_LOOK_H

#include <stdint.h>

#define KILN_REUSE_MARKS 3
#define KILN_REUSE_SUBJECT 2 /* of a waiting job: with one thing that its prompt says */

struct kiln_reuse_marks {
    uint32_t at[KILN_REUSE_MARKS]; /* 0: not to be found by it */
};

struct kiln_reuse_look {
    uint64_t turn; /* of the donors' news; 0: it was never looked for */
    struct kiln_reuse_marks marks;
};

#endif
