/* start_load.h - fetches and decodes what one run starts from.
 *
 * The caller is the starts thread.  Nothing is trusted: keys have the form of what they name, no
 * more bytes are read than the ledger or the limits say, and bytes have the hash that is expected.
 * Memory: one file, what it unpacks to (200 MB for the largest picture), and the start.
 */
#ifndef KILN_START_LOAD_H
#define KILN_START_LOAD_H

#include "schemas/job/coarse.h"
#include "storage/ledger/read/latents.h"
#include "storage/objects/store.h"
#include "worker/engine/renderer.h"
#include "worker/state/portion.h"

struct kiln_start_want {
    uint32_t width, height;                  /* of the pictures to render */
    const char *model_hash;                  /* of the model that renders, */
    uint32_t latent_channels, latent_factor; /* and its latents; factor: pixels a value and side */
    bool small_donors;                       /* a smaller donor is enlarged, as a start is */
    const char *lora_set; /* that a donor must have been rendered with (kiln_lora_set_key) */
};

/* Fetches the start of a job, and its mask if it has one.  With init_image it is that picture,
 * resized.  With init_job, row is what the ledger says of that job's latent, which is read if it is
 * finished, of the same model, and of the same size or a smaller one of this shape: then it is
 * enlarged.  KILN_NOT_FOUND: it does not exist, or no longer.  KILN_BAD_INPUT: a latent of another
 * model or size, a picture that is too large, a mask that does not fit, or none is named.
 * KILN_UNSUPPORTED: an unfinished latent, or another format of pictures.  KILN_CORRUPT: damaged.
 * Else a code of the store. */
int kiln_start_load(struct kiln_store *store, const struct kiln_job *job,
                    const struct kiln_latent_row *row, const struct kiln_start_want *want,
                    struct kiln_start *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* Whether runs such as the job's from its donor, of which row is, were measured with the engine's
 * model and number format; true too where there is no latent or the engine has no weights. */
bool kiln_donor_measured(const struct kiln_renderer *engine, const struct kiln_job *job,
                         const struct kiln_latent_row *row);

/* Likewise the latent of a donor, from what the ledger says of it.  Its size is the job's, or a
 * smaller one of this shape where that is wanted; its LoRA set is the wanted one.
 * KILN_UNSUPPORTED: values that no latent has (not finite, one value everywhere, or far too large).
 */
int kiln_donor_load(struct kiln_store *store, const struct kiln_latent_row *row,
                    const struct kiln_start_want *want, struct kiln_start *ret,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Makes of the latents of such a start what a run begins from: at the size `to`, which is that of
 * `want` or a smaller one, for the small steps of a coarse run; and softened in cells of `side`
 * values (worker/engine/soften.h), unless that is 0.  Then start->bytes is what they take.
 * KILN_NO_MEMORY releases the start. */
int kiln_donor_prepare(const struct kiln_start_want *want, struct kiln_picture_size to,
                       uint32_t side, struct kiln_start *start,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* Whether a failure is of the start alone and for good: it is gone, damaged or does not fit. */
static inline bool kiln_start_is_bad(int code)
{
    return code == KILN_NOT_FOUND || code == KILN_BAD_INPUT || code == KILN_UNSUPPORTED ||
           code == KILN_CORRUPT;
}

#endif
