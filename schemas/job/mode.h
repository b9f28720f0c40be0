/* mode.h - how a picture comes about: from noise at its own size, coarse first, or from a start.
 *
 * Only a run from noise at its own size is exact: equal to diffusers, bit for bit the same on one
 * machine.  So every other mode has a name, which is part of the job, of the group in which jobs
 * are rendered, of costs, cache keys and metadata:
 *
 *   ""                exact
 *   "coarse=auto"     what the model's kiln.json names for size, steps and LoRA, else exact: the
 *                     worker decides
 *   "coarse=4+3"      4 steps of the schedule at about half the side; then the prediction of the
 *                     clean latent is enlarged, noised to KILN_COARSE_SIGMA, and 3 steps follow
 *   "coarse=4+3@0.8"  the same, noised to sigma 0.8
 *   "coarse=3+1+3"    with a third level: 3 steps of the schedule at about a quarter of the side;
 *                     their prediction is enlarged, noised to the sigma of the next step, and 1
 *                     step follows at about half the side; then as above.  For large pictures
 *                     (coarse.h); "@0.8" likewise
 *   "start=5"         from a start, noised to the sigma of step 5 of the schedule; the rest follows
 *   "start@0.5"       from a start, noised to sigma 0.5; the schedule's lower sigmas follow
 *   "inpaint=0"       as start=0, and what a mask keeps is set to the start after every step
 *   "inpaint@0.5"     as start@0.5, likewise
 *   "edit=3"          as start=3, after the latent of another job has got what changes from that
 *                     job's prompt to this one's: an edit by difference (diffusionz_batch.h)
 *   "edit@0.5"        as start@0.5, likewise
 *   "teleport=2"      as start=2, from the latent of a job that the cache chose; of pictures alone:
 *                     the job keeps the mode that it has without the cache
 *   "teleport=2,lerp=3"
 *                     from the latents of three jobs, which became one; "slerp", "tree" likewise
 *                     (enum kiln_combine)
 *   "coarse=4+3,teleport=1"
 *                     as coarse=4+3, but its first 1 of 4 small steps is left out: it begins at the
 *                     small size from the latent of a job that the cache chose; ",lerp=3" likewise
 *   "variety=0.3"     noise on the features of the prompt in the first steps, so that pictures of
 *                     different seeds differ more; behind another mode "coarse=4+3,variety=0.3"
 *
 * A start is a clean latent: that of another job, or of a picture.
 * Source of coarse first and of its numbers: measured, scripts/bench/RESULTS.md; starting at a step
 * is image to image as in diffusers' ZImageImg2ImgPipeline (0.42.1), with a mask that of its
 * ZImageInpaintPipeline.
 */
#ifndef KILN_MODE_H
#define KILN_MODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the hand-over, unless the job says another.  Recorded modes leave it out: another value here
 * would change what they mean. */
#define KILN_COARSE_SIGMA 0.75
#define KILN_STRENGTH_DEFAULT 0.6
#define KILN_STRENGTH_MASKED 1.0 /* the default with a mask */
#define KILN_MODE_MAX 48         /* bytes of a mode's text with its NUL */

enum kiln_mode_kind {
    KILN_MODE_EXACT,
    KILN_MODE_COARSE_AUTO,
    KILN_MODE_COARSE,
    KILN_MODE_START_STEP,
    KILN_MODE_START_SIGMA
};

/* How several latents become one start: not at all, their mean, along arcs, or along arcs in pairs
 * (pipeline/engine/combine.c); the numbers of diffusionz_batch.h. */
enum kiln_combine {
    KILN_COMBINE_SINGLE,
    KILN_COMBINE_LERP,
    KILN_COMBINE_SLERP,
    KILN_COMBINE_TREE,
    KILN_COMBINES
};

struct kiln_mode {
    enum kiln_mode_kind kind;
    /* COARSE: steps at the smallest size, at the middle one (0: there is none), and at the full
     * one; 1 .. KILN_STEPS_MAX each. */
    uint32_t small, middle, full;
    uint32_t step; /* START_STEP: 0 .. KILN_STEPS_MAX - 1; COARSE, reused: 1 .. small - 1 */
    double sigma;  /* COARSE: below 1; START_SIGMA: at most 1; above 0, four decimals */
    bool masked;   /* START_STEP, START_SIGMA: a mask keeps a part of the start, */
    bool edited;   /* or the start gets a difference first; not both */
    bool reused;   /* START_STEP, COARSE: the cache chose the start */
    enum kiln_combine combine; /* reused: not SINGLE if it is of several latents: */
    uint32_t donors;           /* 2 .. KILN_COMBINE_MAX; else 0 */
    double variety; /* 0 .. 1, four decimals; 0: none.  EXACT with variety is not exact */
};
#define KILN_EDIT_FORWARDS 2 /* that a difference takes */

/* The text of a mode; returns its length.  Equal modes have equal texts. */
size_t kiln_mode_text(const struct kiln_mode *mode, char ret[KILN_MODE_MAX]);
/* "single", "lerp", "slerp", "tree"; -1 for an unknown name. */
const char *kiln_combine_name(enum kiln_combine combine);
int kiln_combine_by_name(const char *name);
bool kiln_mode_same(const struct kiln_mode *a, const struct kiln_mode *b);
/* The text for people: "exact" in place of "". */
const char *kiln_mode_shown(const char *text);
/* The mode of a text; false for anything that kiln_mode_text does not write. */
bool kiln_mode_parse(const char *text, struct kiln_mode *ret);
/* The steps of a COARSE mode, "S+L" or "S+M+L"; returns ret. */
const char *kiln_mode_steps_text(const struct kiln_mode *mode, char ret[KILN_MODE_MAX]);
/* "off", "auto", or such steps, as in a job's key coarse; false for anything else. */
bool kiln_mode_parse_coarse(const char *text, struct kiln_mode *ret);
/* Rounds a sigma to its four decimals; false unless it is in (0, 1]. */
bool kiln_mode_sigma(double sigma, double *ret);
/* START_STEP, without a mask, for a strength in (0, 1], as diffusers computes it; false if no step
 * is left. */
bool kiln_mode_of_strength(double strength, uint32_t steps, struct kiln_mode *ret);
/* The shortest decimal from which kiln_mode_of_strength makes this step of a run of `steps`. */
double kiln_mode_strength(uint32_t step, uint32_t steps);
/* Rounds a variety to its four decimals; false unless it is in [0, 1]. */
bool kiln_mode_variety(double variety, double *ret);
/* The minor version of the protocol (schemas/wire/wire.h) since which workers know the mode; 0: all
 * do.  Workers that do not know COARSE_AUTO render it exactly. */
uint32_t kiln_mode_minor(const struct kiln_mode *mode);
#define KILN_MODE_MINOR_STARTS 5
#define KILN_MODE_MINOR_EDITS 8
#define KILN_MODE_MINOR_VARIETY 9 /* and masks */
#define KILN_MODE_MINOR_DONORS 11 /* that begin from a donor; others render the job in full */
#define KILN_MODE_MINOR_MIDDLE 15 /* coarse first with a third level */
#define KILN_MODE_MINOR_DONORS_COARSE 17 /* donors of the small phase; older workers, which */
/* would run from them at the full size, are not told */
#define KILN_MODE_MINOR_ALL KILN_MODE_MINOR_MIDDLE /* of a worker that knows all modes */
/* Whether the job needs a start. A coarse run from a donor, whose job needs none, does not count.
 */
bool kiln_mode_starts(const struct kiln_mode *mode);
/* The mode of a run that begins at `step` from a donor: where its job's own mode has it, at one of
 * its small steps, else at the full size. */
struct kiln_mode kiln_mode_begun_at(const struct kiln_mode *own, uint32_t step, bool small);
/* The cost of a run of `steps` in forwards of the full size, for estimates before anything was
 * measured: a step at half the side counts a quarter, one at a quarter of it a sixteenth.
 * COARSE_AUTO counts as exact. */
double kiln_mode_forwards(const struct kiln_mode *mode, uint32_t steps);
/* The same of the first `begun` steps of a COARSE run; those beyond its smaller sizes are full. */
double kiln_mode_begun_forwards(const struct kiln_mode *mode, uint32_t begun);
/* What a run from a donor's latent saves, into out, which is returned: "6 of 8 steps", and where it
 * leaves out small steps of a coarse run "1 of 4 small steps (0.25 of 3 full ones)".  mode: as it
 * is rendered; own: the cost of the job's own mode, forwards: that of the run, in steps at full
 * size. */
const char *kiln_mode_saved_steps(const struct kiln_mode *mode, double own, double forwards,
                                  char *out, size_t size);
/* "at sigma 0.5, saved 6 of 8 steps", likewise: what such a run says behind the donor's name. mode:
 * its text; sigma 0: not known, and left out. */
#define KILN_MODE_SAVING_MAX 96 /* bytes that it needs at most */
const char *kiln_mode_saving(const char *mode, double sigma, double own, double forwards, char *out,
                             size_t size);

#endif
