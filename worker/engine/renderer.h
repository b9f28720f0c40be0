/* renderer.h - what renders for a worker: libdiffusionz, or a test card.
 *
 * The compute thread knows this table alone, in the terms of pipeline/diffusionz_batch.h.
 * "pipeline" is that library, "random" the same with random weights.  "testcard" returns a
 * test card at once, which says so in the picture and in its metadata: the whole system can then be
 * benchmarked, and crashed, without a model.  One thread uses a renderer, except where a function
 * says any thread.  The setting `engine` chooses.
 */
#ifndef KILN_WORKER_RENDERER_H
#define KILN_WORKER_RENDERER_H

#include <string.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/config/config.h"
#include "schemas/error.h"
#include "storage/formats/card/model_card.h"
#include "worker/engine/load_watch.h"

struct kiln_renderer_run; /* a batch under way, the renderer's own */

struct kiln_renderer {
    const char *name;       /* "pipeline", "testcard", "random" */
    const char *model_name; /* borrowed until close; what images and latents name as their model */
    const char *model_hash;
    const char *model_dir;  /* borrowed from the settings; "": none */
    const char *dtype;      /* that it computes in, "bf16"; NULL: it has no weights */
    bool renders_any_model; /* the test card accepts any model of a job */
    int32_t latent_channels, latent_factor; /* as diffusionz_latent_shape */
    struct kiln_model_card card;

    /* As diffusionz_forwards.  Any thread. */
    int32_t (*forwards)(const struct kiln_renderer *renderer, const DiffusionZBatch *batch);
    /* As diffusionz_start_sigma.  Any thread. */
    double (*start_sigma)(const struct kiln_renderer *renderer, const DiffusionZBatch *batch);
    /* As diffusionz_begin_batch and diffusionz_finish_batch, smaller sizes included: 0 when the
     * batch ran (items may have failed one by one).  Finish fills the outputs and frees the run,
     * also if the device was lost; any thread. */
    int (*begin)(struct kiln_renderer *renderer, const DiffusionZBatch *batch,
                 DiffusionZOutput *outputs, struct kiln_renderer_run **ret, struct kiln_error *err);
    int (*finish)(struct kiln_renderer_run *run, DiffusionZTimes *ret_times,
                  struct kiln_error *err);
    /* Loads the LoRAs and encodes the prompts of a later batch; returns at once.  Any thread; NULL:
     * nothing to prepare. */
    void (*prefetch)(struct kiln_renderer *renderer, const DiffusionZBatch *next);
    /* As diffusionz_trim.  Any thread; NULL: nothing to return. */
    void (*trim)(struct kiln_renderer *renderer);
    /* Frees what one output points to.  Any thread. */
    void (*release)(DiffusionZOutput *output);
    void (*close)(struct kiln_renderer *renderer);
};

/* Opens the renderer that the settings name (engine, model, device, dtype, threads) and reads the
 * model's card; what it waits for is noted in watch, by this thread. */
int kiln_renderer_open(const struct kiln_config *config, struct kiln_load_watch *watch,
                       struct kiln_renderer **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_renderer_close(struct kiln_renderer *renderer); /* accepts NULL */
/* Whether it renders jobs of this model; "" is the pool's, so any renderer's. */
static inline bool kiln_renderer_renders(const struct kiln_renderer *renderer, const char *model)
{
    return !model[0] || renderer->renders_any_model || strcmp(model, renderer->model_name) == 0;
}

/* "cpu" is -1, "cuda" 0, "cuda:N" N. */
int kiln_device_parse(const char *text, int32_t *ret_device,
                      struct kiln_error *err) KILN_MUST_CHECK;
#define KILN_DTYPES (DIFFUSIONZ_FP8 + 1)
extern const char *const kiln_dtype_names[KILN_DTYPES]; /* by enum diffusionz_dtype */
/* "auto", "fp32", "bf16", "fp8" to enum diffusionz_dtype. */
int kiln_dtype_parse(const char *text, int32_t *ret_dtype, struct kiln_error *err) KILN_MUST_CHECK;

/* The two renderers; kiln_renderer_open picks one. */
int kiln_renderer_pipeline_open(const struct kiln_config *config, struct kiln_load_watch *watch,
                                struct kiln_renderer **ret, struct kiln_error *err) KILN_MUST_CHECK;
int kiln_renderer_testcard_open(struct kiln_renderer **ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
