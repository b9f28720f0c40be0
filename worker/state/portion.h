/* portion.h - jobs of one assignment that are ready to be rendered together, with their starts.
 *
 * The starts thread makes portions and the compute thread uses them up.  Without starts an
 * assignment is one portion.  With starts it may be several, since the starts of 64 pictures of
 * 2048 px take 800 MB: a portion ends when its starts take KILN_PORTION_BYTES.
 */
#ifndef KILN_PORTION_H
#define KILN_PORTION_H

#include "worker/state/flights.h"

#define KILN_PORTION_BYTES ((size_t)64 << 20)

/* What runs start from; latent or rgb is set, and the mask if the job has one.  In the form of
 * DiffusionZItem, for the job's size. */
struct kiln_start {
    float *latent;
    float *more[KILN_COMBINE_MAX - 1]; /* beside it, of a donor: latents to combine it with */
    uint32_t more_count;
    bool enlarged; /* the latents were of a smaller size */
    uint8_t *rgb;
    float *mask;
    char *prompt; /* of the latent's job, for edits; else NULL */
    size_t bytes;
};
void kiln_start_release(struct kiln_start *start);

/* Why a run does not begin from the latent that the cache chose, and begins from noise. */
enum kiln_fallback {
    KILN_FALLBACK_NONE,
    KILN_FALLBACK_MISSING,    /* it is no longer there */
    KILN_FALLBACK_DAMAGED,    /* its bytes are not those of the ledger, or no latent */
    KILN_FALLBACK_UNFIT,      /* of another model or size, or unfinished */
    KILN_FALLBACK_ODD,        /* values that no latent of a model has */
    KILN_FALLBACK_AWAY,       /* the store or the ledger did not answer at once */
    KILN_FALLBACK_UNMEASURED, /* kiln.json of this worker's model says nothing about it */
    KILN_FALLBACK_UNLIKE,     /* the first step from it changed as much, or as little, as no run
                                 that comes out right: prompt and latent do not go together */
    KILN_FALLBACK_SLOWER,     /* a call of its own would have taken longer than it saves */
};
/* "missing", "damaged", ...; NULL for none. */
const char *kiln_fallback_name(enum kiln_fallback fallback);

struct kiln_portion_job {
    uint32_t index; /* of the job in the flight */
    int32_t start;  /* in `starts`; -1: none, the run begins from noise */
    int code;       /* not 0: it cannot begin, for this reason */
    bool final;     /* and it is not worth another attempt */
    char reason[256];
    enum kiln_fallback fallback; /* with start -1 and code 0 */
    double wasted;               /* with UNLIKE: the cost of the run that was given up, in steps at
                                    full size, */
    double wasted_ms;            /* and its share of the time of its call */
};

struct kiln_portion {
    struct kiln_flight *flight; /* lives until the last of its jobs is settled */
    bool first, last;           /* of the flight's portions; last: also one that comes again */
    uint32_t job_count, start_count;
    size_t bytes; /* of the starts */
    struct kiln_portion_job jobs[KILN_ASSIGN_MAX];
    struct kiln_start starts[KILN_ASSIGN_MAX]; /* owned */
};

/* Empty; NULL when memory is short. */
struct kiln_portion *kiln_portion_new(struct kiln_flight *flight);
void kiln_portion_free(struct kiln_portion *portion); /* and its starts; accepts NULL */
/* Adds a job of the flight, with the start of this number or -1. */
struct kiln_portion_job *kiln_portion_add(struct kiln_portion *portion, uint32_t index,
                                          int32_t start);

#endif
