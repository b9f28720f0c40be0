/* picture.h - one job on its way through the worker.
 *
 * The collector makes one for each job.  Queues pass it from stage to stage; the stage that has it
 * owns it alone:
 *
 *     collector --rendered--> encode pool --files--> uploader --outcomes--> committer
 *         |                       |                     |                      ^
 *         +------ failed, cancelled, returned: directly to the committer ------+
 *
 * One stage writes each block of fields below; later stages only read it.
 */
#ifndef KILN_PICTURE_H
#define KILN_PICTURE_H

#include <assert.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/job/sizes.h"
#include "worker/state/portion.h"

/* How a job ends here; what the committer has to write. */
enum kiln_outcome {
    KILN_OUTCOME_RENDERED, /* commit it */
    KILN_OUTCOME_RETURN,   /* to queued, or to failed: code, final, reason */
    KILN_OUTCOME_GONE,     /* cancelled, or another worker's: the ledger knows already */
};

/* The smaller sizes, in the order of DiffusionZOutput's; and all objects of a job. */
#define KILN_PICTURE_SMALLER (KILN_STORED_SIZES - 1)
#define KILN_PICTURE_OBJECTS_MAX (KILN_STORED_SIZES + 1)
static_assert(KILN_PICTURE_SMALLER <= DIFFUSIONZ_SMALLER_MAX, "the engine makes every stored size");

struct kiln_picture_object {
    const char *role; /* of a stored size, or the latent's (sizes.h) */
    const char *content_type;
    char key[KILN_OBJECT_KEY_MAX + 1];
    char sha256[65];
    uint8_t *data; /* owned */
    size_t size;
    uint32_t width, height; /* pixels; latent: of the latent */
    bool stored;            /* by the uploader */
};

struct kiln_picture {
    struct kiln_flight *flight; /* lives at least until the job is settled */
    uint32_t index;             /* of the job in it */
    const struct kiln_job *job; /* = &flight->assignment.jobs[index] */

    DiffusionZOutput output; /* the encode stage releases it */
    double wait_ms, text_ms, denoise_ms, decode_ms;
    struct kiln_mode mode;            /* as rendered */
    enum kiln_fallback fallback;      /* why it did not begin from the job's donor */
    double wasted;                    /* cost of a run from the donor that was given up, likewise */
    uint32_t steps;                   /* that the run took, at all sizes with coarse first */
    double forwards;                  /* the cost of all, in steps at full size */
    double start_sigma, own_forwards; /* of the call (stages/call.h) */
    char start[KILN_INPUT_KEY_MAX];   /* what it began from: a key or "job:17"; "": noise */
    uint32_t coarse_width, coarse_height, middle_width, middle_height;
    bool own_sigmas; /* of the model's kiln.json */
    double noise;    /* that its steps replace, likewise */

    struct kiln_picture_object objects[KILN_PICTURE_OBJECTS_MAX];
    uint32_t object_count;
    const char *latent_encoding; /* NULL: no latent is stored */
    uint32_t latent_states, latent_channels;
    double latent_sigmas[KILN_STEPS_MAX + 1]; /* of each of them */
    char lora_files[KILN_LORA_FILES_MAX];     /* "NAME:SHA256+...", */
    bool lora_files_known;                    /* else not all could be read */
    double encode_ms;

    double upload_ms;
    double first_try_ms; /* monotonic; 0 = not tried yet */

    enum kiln_outcome outcome;
    int code;
    bool final;
    char reason[256];
};

/* Job `index` of a flight.  NULL when memory is short. */
struct kiln_picture *kiln_picture_new(struct kiln_flight *flight, uint32_t index);
/* Frees the objects too; `output` must have been released.  Accepts NULL. */
void kiln_picture_free(struct kiln_picture *picture);

/* The bytes that it keeps allocated: its weight in the queues. */
size_t kiln_picture_weight(const struct kiln_picture *picture);

/* Sets the outcome RETURN with code and reason; final for codes that fail again anywhere. */
void kiln_picture_fail(struct kiln_picture *picture, int code, const char *reason);
/* Sets the outcome that belongs to a stop flag. */
void kiln_picture_stop(struct kiln_picture *picture, enum kiln_stop why);

#endif
