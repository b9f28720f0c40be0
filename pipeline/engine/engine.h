/* engine.h - a loaded model that turns batches of prompts into pictures: what stands behind the
 * C ABI.  One thread at a time, for which the ABI's context holds the lock; only the second half of
 * a batch may be another's.
 *
 * An item of a batch has its caption at its own padded length, and every bit that it has alone: its
 * pixels cannot depend on its neighbours.  Items that fill a device come one after the other, small
 * ones of one size and length in groups (group.c), each leaving its step as a graph for the
 * next; while a group is denoised, the one before is decoded and copied out, item by item, in the
 * device's side lane.
 *
 * A batch has two halves.  The first asks the device for everything and returns when it is at the
 * last steps; the second waits for them and for the last decode.  So the next batch can be begun in
 * time for the device to go from one to the other without a pause.
 *
 * So a cancel is seen before each step of its item and before its decode; a picture that is done
 * stays done.  Progress counts the steps of all items together, as steps of the batch, when they
 * have ended on the device.  Times add up to those from begin to finish: what a decode costs beside
 * the steps of the next group is in denoise_ms, the rest of the last one in decode_ms.
 */
#ifndef KILN_ENGINE_H
#define KILN_ENGINE_H

#include "pipeline/diffusionz_batch.h"
#include "pipeline/engine/text_ahead.h"
#include "pipeline/lora/loras.h"
#include "pipeline/model/config.h"
#include "pipeline/model/graph_cache.h"
#include "pipeline/model/hash.h"
#include "pipeline/model/sampler.h"
#include "pipeline/model/transformer.h"
#include "pipeline/model/vae.h"
#include "pipeline/text/encoder.h"
#include "pipeline/text/feature_cache.h"
#include "pipeline/text/tokenizer.h"
#include "pipeline/torch/clock.h"
#include "schemas/error.h"
#include "schemas/limits.h"

/* Small pictures are drawn together up to so many rows of the joint sequence: about those of one of
 * 1024 x 1024, from which on products gain nothing by more rows and activations take their memory.
 */
#define KILN_GROUP_ROWS 5120

struct kiln_engine {
    struct kiln_model_config config;
    char *dir;                    /* the model's directory, */
    bool drawn;                   /* whose weights were not read but drawn at random */
    char name[KILN_NAME_MAX + 1]; /* of the directory */
    char hash[KILN_MODEL_HASH_LEN + 1];
    int device, threads;
    enum kt_dtype dtype; /* of activations and plain weights */
    bool e4m3;           /* the large matrices of transformer and text encoder are 8-bit rows */
    struct kt_scope *weights; /* owns every tensor of the model */
    struct kiln_tokenizer *tokenizer;
    struct kiln_text_encoder *text_encoder;
    struct kiln_transformer *transformer;
    struct kiln_vae *vae;
    struct kiln_param_table params;
    struct kiln_loras *loras;
    struct kiln_feature_cache *features;
    struct kiln_text_ahead ahead; /* texts of the next batch; asked for on any thread */
    /* The time table and strides of the last schedule; dropped when the LoRA set changes. */
    struct kt_scope *times_scope;
    kt times, strides;
    int times_steps;
    struct kiln_graph_cache *graphs;
    int64_t group_rows; /* of pictures that are drawn together, at most: fewer once memory was
                         * short. 0: each alone */
    /* Latents from these sizes on take all the memory there is, and are decoded in strips of so
     * many rows; 0: none has been found to. */
    int64_t tight_pixels, strip_pixels;
    int strip_rows;
    struct kt_clock *clock;         /* of the device's work */
    char note[KILN_ERROR_TEXT_MAX]; /* of diffusionz_note */
};

/* Loads a model directory.  All of options is checked. */
int kiln_engine_open(const DiffusionZOptions *options, struct kiln_engine **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* The same with weights drawn at random on the device: the directory needs configs and tokenizer
 * alone, and the hash is empty.  For benchmarks. */
int kiln_engine_open_random(const DiffusionZOptions *options, struct kiln_engine **ret,
                            struct kiln_error *err) KILN_MUST_CHECK;
void kiln_engine_close(struct kiln_engine *e); /* accepts NULL */

/* Makes e->loras when the weights are loaded. */
int kiln_engine_loras_open(struct kiln_engine *e, struct kiln_error *err) KILN_MUST_CHECK;
/* Makes this set the one in place now, as kiln_loras_set does. */
int kiln_engine_loras(struct kiln_engine *e, const struct kiln_lora_use *uses, size_t count,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* Begins a batch with under (may be NULL) below its own LoRAs.  outputs[item_count] belongs to the
 * run until kiln_engine_finish, and *batch->progress; all else is lent for the call. */
struct kiln_run;
int kiln_engine_begin(struct kiln_engine *e, const DiffusionZBatch *batch,
                      const struct kiln_lora_use *under, DiffusionZOutput *outputs,
                      struct kiln_run **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Waits for the rest, fills the outputs and frees the run.  An error of one item is in its output
 * alone; KILN_DEVICE is returned where the device is lost, and pictures that had come from it
 * before are in their outputs all the same.  Any thread, beside the next batch. */
int kiln_engine_finish(struct kiln_run *run, DiffusionZTimes *ret_times,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The same, but an error leaves no outputs. */
int kiln_engine_finish_whole(struct kiln_run *run, DiffusionZTimes *ret_times,
                             struct kiln_error *err) KILN_MUST_CHECK;
/* Both halves; an error leaves no outputs. */
int kiln_engine_run(struct kiln_engine *e, const DiffusionZBatch *batch,
                    const struct kiln_lora_use *under, DiffusionZOutput *outputs,
                    DiffusionZTimes *ret_times, struct kiln_error *err) KILN_MUST_CHECK;

/* Frees what the outputs point to, and sets them to zero. */
void kiln_outputs_release(DiffusionZOutput *outputs, int count);

/* Checks what the batch itself says, before anything runs: sizes this model draws, steps, prompts'
 * lengths, how many LoRAs.  KILN_BAD_INPUT. */
int kiln_engine_check(const struct kiln_engine *e, const DiffusionZBatch *batch,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
