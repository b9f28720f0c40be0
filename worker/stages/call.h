/* call.h - one call of the engine, from the compute thread that begins it to the collector that
 * finishes it.
 *
 * An engine returns from the first half of a batch while the last steps and the last decode are
 * still under way.  The compute thread then begins the next batch, so that the device goes from one
 * to the other without a pause; the collector waits for the pictures of the one before.
 */
#ifndef KILN_CALL_H
#define KILN_CALL_H

#include "pipeline/diffusionz_batch.h"
#include "worker/engine/batch_steps.h"
#include "worker/engine/call_times.h"
#include "worker/engine/renderer.h"
#include "worker/state/flights.h"
#include "worker/state/portion.h"

struct kiln_call {
    struct kiln_flight *flight; /* lives until the last of its jobs is passed on */
    bool last;                  /* no other call of the flight follows */
    uint32_t count;
    uint32_t index[KILN_ASSIGN_MAX]; /* of the jobs in the flight */
    uint32_t reused_from; /* the step at which all items begin from their donors; 0: they do not */
    bool reused_coarse;   /* one of the small steps of a run that is coarse first */
    enum kiln_fallback fallbacks[KILN_ASSIGN_MAX]; /* why an item with a donor does not */
    double wasted[KILN_ASSIGN_MAX];    /* the cost of what was done before it, in vain, likewise */
    double wasted_ms[KILN_ASSIGN_MAX]; /* and its time */
    uint32_t donors[KILN_ASSIGN_MAX];  /* latents that each item begins from, if several */
    bool checked;          /* an item may be given up after its first step, and then comes again */
    struct kiln_mode mode; /* as rendered: auto is decided */
    uint32_t steps;        /* that each item takes, at all sizes with coarse first */
    double forwards;       /* their cost, in steps at full size */
    double start_sigma;    /* at which a run from a start begins; 0: from noise */
    double own_forwards;   /* with donors: the cost of the job's own mode; else 0 */
    uint32_t coarse_width, coarse_height, middle_width, middle_height;
    bool own_sigmas;                   /* those of the model's kiln.json */
    double noise;                      /* that its steps replace, likewise */
    struct kiln_batch_steps own_steps; /* what the batch has of it */
    DiffusionZItem items[KILN_ASSIGN_MAX];
    DiffusionZOutput outputs[KILN_ASSIGN_MAX];
    struct kiln_renderer_run *run; /* NULL: nothing was begun, for the reason in err */
    struct kiln_error err;
    char lora_files[KILN_LORA_FILES_MAX]; /* "NAME:SHA256+...", */
    bool lora_files_known;                /* else they could not be read or were replaced */
    struct kiln_error lora_err;           /* a file was replaced as the call began: no picture */
    double started_ms;                    /* monotonic */
    int32_t step;                         /* the engine writes it, atomically */
};

/* Decides the mode of a call and fills the batch's fields for it; the rest of the batch is filled,
 * and so is call->lora_files, because coarse=auto depends on them.
 * KILN_UNSUPPORTED, in call->err: coarse first at a size for which the model has no small one; what
 * kiln_batch_set_steps says. */
int kiln_call_set_mode(struct kiln_call *call, const struct kiln_renderer *engine,
                       DiffusionZBatch *batch) KILN_MUST_CHECK;

/* The cost of the first `begun` steps of such a call, in steps at full size. */
double kiln_call_begun_forwards(const struct kiln_call *call, const struct kiln_renderer *engine,
                                uint32_t begun);

/* The kind of the job's calls, for their times; false: the cache never chooses a latent for it. */
bool kiln_call_kind_of(const struct kiln_assignment *assignment, const struct kiln_job *job,
                       struct kiln_call_kind *ret);

#endif
