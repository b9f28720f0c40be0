/* rule.h - how much of a run may be skipped when it begins from a stored latent.
 *
 * A pure function of the model's measured table (kiln.json, storage/formats/card/model_card.h), of
 * the donors that there are and of the job's wish `alike`.  A run from a donor is as right as a
 * full one where the table says so; what it costs is variety: what the donor has, the picture
 * keeps, unless the donor is softened (worker/engine/soften.h).  So at `alike` 0 a row holds only
 * if pictures rendered from such a pool are at least 95 % as far from their nearest neighbour,
 * donors included, as full runs are.  Above that, jobs share the room that a row or the full run
 * leaves above the floor of `alike`: so many of them begin deeper that their mean variety is the
 * floor.  Of all such pairs that with the least mean cost counts, so it never rises with `alike`.
 * Which jobs go deeper, the seed and the prompt decide, so each has one answer.  No run goes below
 * a least variety, so near copies come only near 100.  A donor that is used up sends the next
 * job on a full run, whose latent is a new donor.  A job that is rendered coarse first may also
 * begin from a latent of its small size, enlarged, which stands for its small phase, or begin the
 * small phase itself some steps later from a latent of its own size, shrunk.  Steps are those of
 * one schedule: a start at one of the small steps is one in the small phase, a later one is at the
 * full size.
 *
 * A prompt that was never rendered before has no donor of its class "same_prompt", so a stream
 * without repeats never becomes one of near-copies.
 *
 * Source of the numbers: measured, scripts/bench/RESULTS.md; both fall with `alike` from 0.95, the
 * floor over 0.64 at 50, the least variety over 0.24, to nothing at 100.  Pictures of a stream are
 * farther apart than those of one pool.
 */
#ifndef KILN_REUSE_RULE_H
#define KILN_REUSE_RULE_H

#include "schemas/job.h"
#include "storage/formats/card/model_card.h"

/* The donors of one class that fit a job. */
struct kiln_reuse_pool {
    enum kiln_reuse_class class;
    uint32_t donors;
    uint32_t uses; /* of the one that was used least */
    bool small;    /* of the small size of coarse runs: enlarged before the run begins */
    bool exact;    /* pictures that were rendered exactly */
    bool whole;    /* the run may not begin at a small step: its worker cannot */
};

/* Where a run may begin, and what it then costs. */
struct kiln_reuse_start {
    const struct kiln_card_reuse_row *row; /* of the card; NULL: it runs in full */
    bool coarse;                           /* in its small phase */
    double forwards;                       /* of the full size */
    double mean_forwards;                  /* of jobs that differ in seed and prompt alone */
    struct kiln_mode own;                  /* the job's own mode */
};

/* The variety that runs must leave in the mean, and each, as a share of full runs'. */
double kiln_reuse_floor(uint32_t alike);
double kiln_reuse_least(uint32_t alike);

/* Whether a run of the job may begin from a latent that the cache chooses: it says auto, is a
 * picture from noise without guidance and variety, with which nothing was measured, with one LoRA
 * at most, whose file is known, and keeps no trajectory. */
bool kiln_reuse_wants(const struct kiln_job *job);

/* The classes, a bit each (1 << class), of which a donor, small or not, may be of use to the job by
 * its size, number of steps, mode and alike.  any: those for which there is any row at its size,
 * number of steps and mode, as people are told. */
uint32_t kiln_reuse_classes(const struct kiln_model_card *card, const struct kiln_job *job,
                            bool small, bool any);

/* The small size of the job, if it is rendered coarse first; else it has no small donors. */
bool kiln_reuse_small_size(const struct kiln_model_card *card, const struct kiln_job *job,
                           struct kiln_picture_size *ret);

/* Where the job begins with a donor of the pool, so that jobs that differ in seed and prompt alone
 * cost the least in the mean.  A run from a donor must cost less than the job's own mode. */
struct kiln_reuse_start kiln_reuse_start(const struct kiln_model_card *card,
                                         const struct kiln_job *job,
                                         const struct kiln_reuse_pool *pool);
/* The steps that it leaves out, or 0. */
uint32_t kiln_reuse_depth(const struct kiln_model_card *card, const struct kiln_job *job,
                          const struct kiln_reuse_pool *pool);
/* What the job's own mode costs, in forwards of the full size. */
double kiln_reuse_own_forwards(const struct kiln_model_card *card, const struct kiln_job *job);
/* Why kiln_reuse_depth is 0, as a clause for people. */
const char *kiln_reuse_refusal(const struct kiln_model_card *card, const struct kiln_job *job,
                               const struct kiln_reuse_pool *pool);

#endif
