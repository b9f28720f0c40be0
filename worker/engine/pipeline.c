/* pipeline.c - the real engine: libdiffusionz through its C ABI.
 *
 * The library keeps its last error per thread; each failure is turned into a kiln_error here, on
 * the thread that made the call, before anything else can overwrite it.
 */
#include "schemas/clock.h"
#include "worker/engine/renderer.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/telemetry/log.h"

#define PATIENCE_MORE_S 60

struct pipeline {
    struct kiln_renderer engine; /* first: the two pointers are one */
    DiffusionZContext *context;
    char *noted; /* the last note of the library that was logged */
};

/* The engine's run is the library's, under another name. */
static int pipeline_begin(struct kiln_renderer *engine, const DiffusionZBatch *batch,
                          DiffusionZOutput *outputs, struct kiln_renderer_run **ret,
                          struct kiln_error *err)
{
    struct pipeline *self = (struct pipeline *)engine;
    DiffusionZRun *run;
    int code = diffusionz_begin_batch(self->context, batch, outputs, &run);
    const char *note = diffusionz_note(self->context); /* what the library has to do without */
    if (note[0] && (!self->noted || strcmp(note, self->noted) != 0)) {
        free(self->noted);
        self->noted = strdup(note);
        kiln_log(KILN_LOG_WARNING, "engine_note", kiln_f("note", "%s", note));
    }
    if (code != 0)
        return kiln_fail(err, code, "%s", diffusionz_last_error());
    *ret = (struct kiln_renderer_run *)run;
    return 0;
}

static int pipeline_finish(struct kiln_renderer_run *run, DiffusionZTimes *ret_times,
                           struct kiln_error *err)
{
    int code = diffusionz_finish_batch((DiffusionZRun *)run, ret_times);
    return code ? kiln_fail(err, code, "%s", diffusionz_last_error()) : 0;
}

static int32_t pipeline_forwards(const struct kiln_renderer *engine, const DiffusionZBatch *batch)
{
    return diffusionz_forwards(((const struct pipeline *)engine)->context, batch);
}

static double pipeline_start_sigma(const struct kiln_renderer *engine, const DiffusionZBatch *batch)
{
    return diffusionz_start_sigma(((const struct pipeline *)engine)->context, batch);
}

/* Errors in the batch are reported when it runs. */
static void pipeline_prefetch(struct kiln_renderer *engine, const DiffusionZBatch *next)
{
    struct pipeline *self = (struct pipeline *)engine;
    (void)diffusionz_prefetch(self->context, next);
}

static void pipeline_trim(struct kiln_renderer *engine)
{
    diffusionz_trim(((struct pipeline *)engine)->context);
}

static void pipeline_release(DiffusionZOutput *output)
{
    diffusionz_release_outputs(output, 1);
}

static void pipeline_close(struct kiln_renderer *engine)
{
    struct pipeline *self = (struct pipeline *)engine;
    diffusionz_free(self->context);
    free(self->noted);
    free(self);
}

int kiln_renderer_pipeline_open(const struct kiln_config *config, struct kiln_load_watch *watch,
                                struct kiln_renderer **ret, struct kiln_error *err)
{
    DiffusionZOptions options = {
        .model_path = kiln_config_text(config, KILN_KEY_MODEL),
        .threads = (int32_t)kiln_config_int(config, KILN_KEY_THREADS),
    };
    if (options.model_path[0] == '\0')
        return kiln_fail(err, KILN_CONFIG, "model: no model directory is set");
    int code =
        kiln_device_parse(kiln_config_text(config, KILN_KEY_DEVICE), &options.device_id, err);
    if (code == 0)
        code = kiln_dtype_parse(kiln_config_text(config, KILN_KEY_DTYPE), &options.dtype, err);
    if (code != 0)
        return code;
    const char *way = kiln_config_text(config, KILN_KEY_LORA_MODE);
    options.lora_way = strcmp(way, "merged") == 0   ? DIFFUSIONZ_LORA_MERGED
                       : strcmp(way, "beside") == 0 ? DIFFUSIONZ_LORA_BESIDE
                                                    : DIFFUSIONZ_LORA_AUTO;
    struct pipeline *self = calloc(1, sizeof *self);
    if (!self)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the engine");
    /* One limit for a batch that hangs, and not one behind the other: where the worker's own watch
     * ends it, the library waits for longer than that.  A wait that the library ends would end
     * items, which looks like a step further, and the watch would begin anew. */
    const double stall_s = kiln_config_number(config, KILN_KEY_STALL_S);
    if (stall_s > 0)
        (void)diffusionz_patience((int32_t)stall_s + PATIENCE_MORE_S);
    double start_ms = kiln_monotonic_ms();
    bool random = strcmp(kiln_config_text(config, KILN_KEY_ENGINE), "random") == 0;
    diffusionz_watch(kiln_load_watch_note, watch);
    code = random ? diffusionz_open_random(&options, &self->context)
                  : diffusionz_open(&options, &self->context);
    diffusionz_watch(NULL, NULL);
    if (code != 0) {
        free(self);
        return kiln_fail(err, code, "%s", diffusionz_last_error());
    }
    self->engine = (struct kiln_renderer){
        .name = random ? "random" : "pipeline",
        .model_name = diffusionz_model_name(self->context),
        .model_hash = random ? "0000000000000000" : diffusionz_model_hash(self->context),
        .dtype = kiln_dtype_names[diffusionz_dtype(self->context)],
        .forwards = pipeline_forwards,
        .start_sigma = pipeline_start_sigma,
        .begin = pipeline_begin,
        .finish = pipeline_finish,
        .prefetch = pipeline_prefetch,
        .trim = pipeline_trim,
        .release = pipeline_release,
        .close = pipeline_close,
    };
    diffusionz_latent_shape(self->context, &self->engine.latent_channels,
                            &self->engine.latent_factor);
    uint64_t tensors, device; /* the CPU does not say how much of it the model takes */
    diffusionz_memory(self->context, &tensors, &device);
    kiln_log(KILN_LOG_INFO, "engine_loaded",
             kiln_f("seconds", "%.1f", (kiln_monotonic_ms() - start_ms) / 1e3),
             kiln_f("tensors_gb", "%.2f", (double)tensors / 1e9),
             kiln_f("device_gb", "%.2f", (double)device / 1e9));
    *ret = &self->engine;
    return 0;
}
