/* donor.h - from a finished job to the job line of its redraw.
 *
 * The redraw has what its donor had: prompt with the words of its style, LoRAs, model, guidance,
 * tenant.  It starts from the donor's latent, whose shape it keeps, and names the donor as its
 * parent.  Not taken over are custom_id, priority and deadline, and what a latent-cache job stores.
 *
 * An edit is by difference (schemas/job/mode.h) where that is sound: the donor was an exact run,
 * and the redraw has its size and its seed.  Any other edit is image to image.
 *
 * Seeds: a redraw has the seed of its donor; variation n, from 1, has that seed plus n.  So the
 * same call makes the same pictures, and a larger --count only adds some.
 */
#ifndef KILN_CLI_REDRAW_DONOR_H
#define KILN_CLI_REDRAW_DONOR_H

#include "scheduler/cli/jobs/redraw/depth.h"
#include "schemas/job/styles.h"
#include "schemas/text/text.h"
#include "storage/ledger/read/latents.h"
#include "storage/ledger/read/read.h"

/* What every redraw of a call shares. */
struct kiln_redraw_want {
    const char *size; /* "2x", "1024x1024", "16:9 xl"; NULL: that of the donor */
    uint32_t own;     /* the side of the model's own square, 0 if it is not known (sizes.h) */
    uint32_t count;   /* of variations; 0: none, one redraw with the donor's seed */
    bool reprompted;  /* --prompt, which goes over every line, replaces the donor's */
    bool restyled;    /* --set style does the same with its style */
    bool seed_set;    /* --set seed gives the seed */
    bool plain;       /* --set edit=false: image to image, never by difference */
    struct kiln_depth_want depth;
    const struct kiln_styles *styles;
};

/* Reads a size: a factor such as "2x" or "1.5x" of the donor's, whose sides are rounded to
 * KILN_SIDE_STEP, or what a job line may have.  KILN_BAD_INPUT says what is wrong. */
int kiln_redraw_size(const char *text, uint32_t own, uint32_t width, uint32_t height,
                     uint32_t *ret_width, uint32_t *ret_height,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* Whether an edit of this donor is by difference. */
bool kiln_redraw_differs(const struct kiln_redraw_want *want, const struct kiln_job_row *donor);

/* Appends the job line and a line end.  current_hash: of the weights that the pool renders the
 * donor's model with, "" if not known.  KILN_BAD_INPUT says why the job cannot be redrawn. */
int kiln_redraw_line(const struct kiln_redraw_want *want, const struct kiln_job_row *donor,
                     const struct kiln_latent_row *latent, const char *current_hash,
                     struct kiln_text *out, struct kiln_error *err) KILN_MUST_CHECK;

#endif
