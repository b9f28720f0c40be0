/* engine.h - a loaded model that turns batches of prompts into pictures; behind the C ABI.
 *
 * One thread at a time uses an engine; the ABI's context has the lock.  Only the second half of a
 * batch may run on another thread.
 *
 * An item's caption keeps its own padded length, and an item has the bits that it would have alone:
 * its pixels cannot depend on its neighbours.  Large pictures are rendered one after the other,
 * small ones of one size and caption length in groups (group.c).  The first steps of a shape are
 * recorded as a graph for later ones.  While a group goes through its steps, the group before is
 * decoded and copied to the host in the device's side stream.
 *
 * A batch has two halves.  The first queues all work and returns when the device is at the last
 * steps; the second waits for those and for the last decode.  So the next batch can begin without a
 * pause of the device.
 *
 * A cancel is seen before each step of its item and before its decode; a finished picture stays.
 * Progress counts the steps of all items that have ended on the device, as steps of the batch.  The
 * times add up to the time from begin to finish: a decode beside the steps of the next group counts
 * as denoise_ms, the rest of the last decode as decode_ms.
 */
#ifndef KILN_ENGINE_H
#define KILN_ENGINE_H

#include "pipeline/diffusionz_batch.h"
#include "pipeline/engine/text_prefetch.h"
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
#include "pipeline/torch/span.h"
#include "schemas/error.h"
#include "schemas/limits.h"
#include "storage/formats/card/model_card.h"

/* Rows of the joint sequence up to which small pictures are rendered together: about one picture of
 * 1024 x 1024.  With more rows products gain nothing, and activations need more memory. */
#define KILN_GROUP_ROWS 5120

/* A transformer of the model with what belongs to its weights.  The steps of a run may have
 * different ones. */
struct kiln_weight_set {
    const struct kiln_engine *e;
    char folder[KILN_CARD_PATH]; /* inside the model's directory */
    struct kiln_transformer *transformer;
    struct kiln_param_table params;
    struct kiln_loras *loras;
    /* The time table and strides of the last run's steps; dropped when the LoRA set changes. */
    struct kt_scope *times_scope;
    kt times, strides;
    struct kiln_time_key {
        int steps; /* 0: there is no table */
        float times[2 * KILN_STEPS_MAX], strides[2 * KILN_STEPS_MAX];
    } times_key;
};
#define KILN_WEIGHT_SETS_MAX (1 + KILN_STEP_LORAS_MAX)

struct kiln_engine {
    struct kiln_model_config config;
    char *dir;                    /* the model's directory */
    bool random_weights;          /* the weights were not read from it */
    char name[KILN_NAME_MAX + 1]; /* of the directory */
    char hash[KILN_MODEL_HASH_LEN + 1];
    int device, threads;
    enum kt_dtype dtype; /* of activations and plain weights */
    bool e4m3;           /* the large matrices of transformer and text encoder are 8-bit rows */
    struct kt_scope *weights; /* owns every tensor of the model */
    struct kiln_tokenizer *tokenizer;
    struct kiln_text_encoder *text_encoder;
    struct kiln_vae *vae;
    struct kiln_weight_set sets[KILN_WEIGHT_SETS_MAX]; /* the first is in the folder transformer */
    int set_count;
    double renewed; /* the share of its noise that a step replaces, of kiln.json; 0: Euler steps */
    struct kiln_feature_cache *features;
    struct kiln_text_prefetch prefetch; /* texts of the next batch; any thread adds them */
    struct kiln_graph_cache *graphs;
    int64_t group_rows; /* limit of a group; lower once memory was short; 0: each picture alone */
    /* Latents of this many pixels and more need all memory, or a decode in strips of strip_rows; 0:
     * no such size is known. */
    int64_t tight_pixels, strip_pixels;
    int strip_rows;
    struct kt_clock *clock;         /* of the device's work */
    struct kt_span *hand_over;      /* from the last smaller step to the first full one; NULL but in
                                     * benchmarks, which own it */
    char note[KILN_ERROR_TEXT_MAX]; /* of diffusionz_note */
};

/* Loads a model directory.  All of options is checked.  With random weights, for benchmarks, the
 * directory needs only configs and tokenizer, and the hash is empty. */
int kiln_engine_open(const DiffusionZOptions *options, bool random_weights,
                     struct kiln_engine **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_engine_close(struct kiln_engine *e); /* accepts NULL */

/* --- weight_sets.c; for engine.c and run.c --- */
/* Lists the transformers of the model, whose config has been read; all must have the shape of the
 * first, and unless weights are random, be those that kiln.json names. */
int kiln_engine_sets_list(struct kiln_engine *e, const char *dir, bool random,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* The number of the set in that folder of the directory; -1: none. */
int kiln_engine_set(const struct kiln_engine *e, const char *folder);
int kiln_engine_sets_load(struct kiln_engine *e, const char *dir, bool random,
                          enum kt_dtype matrices, struct kiln_fp8_cache *cache,
                          struct kiln_error *err) KILN_MUST_CHECK;
void kiln_engine_sets_release(struct kiln_engine *e);
/* Makes the sets' LoRAs; the weights are loaded. */
int kiln_engine_loras_open(struct kiln_engine *e, struct kiln_error *err) KILN_MUST_CHECK;
/* Loads exactly these LoRAs, as kiln_loras_set does. */
int kiln_engine_loras(struct kiln_weight_set *set, const struct kiln_lora_use *uses, size_t count,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Makes the set's time table and strides for these steps, unless it has them. */
int kiln_engine_times(struct kiln_weight_set *set, const struct kiln_time_key *key,
                      struct kiln_error *err) KILN_MUST_CHECK;
void kiln_engine_drop_times(struct kiln_weight_set *set);

/* The LoRAs that a checked batch begins with; returns their number. */
size_t kiln_engine_first_loras(const struct kiln_engine *e, const DiffusionZBatch *batch,
                               const struct kiln_lora_use *under,
                               struct kiln_lora_use uses[KILN_LORA_STACK_MAX]);

/* Begins a batch; under is one more LoRA beside its own, or NULL.  outputs[item_count] and
 * *batch->progress are in use until kiln_engine_finish; all else is lent for the call. */
struct kiln_run;
int kiln_engine_begin(struct kiln_engine *e, const DiffusionZBatch *batch,
                      const struct kiln_lora_use *under, DiffusionZOutput *outputs,
                      struct kiln_run **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Waits for the rest, fills the outputs and frees the run.  An item's error is in its output alone.
 * KILN_DEVICE if the device is lost; pictures that had arrived before are in their outputs.  Any
 * thread, also during the next batch. */
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

/* Checks a batch before anything runs: sizes, steps, where it starts, lengths of prompts, number of
 * LoRAs and their steps; but for its items' starts, which a prefetch does not have yet.
 * KILN_BAD_INPUT; or KILN_UNSUPPORTED for a trajectory of steps at two sizes. */
int kiln_engine_check(const struct kiln_engine *e, const DiffusionZBatch *batch,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Checks that the items of a batch have starts if it needs them, and none otherwise. */
int kiln_engine_check_starts(const DiffusionZBatch *batch, struct kiln_error *err) KILN_MUST_CHECK;
/* The steps of each item, at both sizes with coarse first; 0 if kiln_engine_check would refuse the
 * batch's steps, start or sizes. */
int kiln_engine_forwards(const struct kiln_engine *e, const DiffusionZBatch *batch);
/* The noise level at which items begin at the picture's size; 0 likewise. */
double kiln_engine_start_sigma(const struct kiln_engine *e, const DiffusionZBatch *batch);

#endif
