/* diffusionz_batch.h - what a worker needs beyond diffusionz_c_api.h: batches, raw pixels,
 * latents, starts, cancel and progress.  Same library, same context type, same rules.
 * A batch has items of one size, number of steps, kind of start and LoRA set; prompts, seeds and
 * the starts themselves differ.  An item's pixels do not depend on the other items.  A batch runs
 * in two halves, so that a worker can encode and upload the last pictures while the next ones are
 * rendered.
 */
#ifndef DIFFUSIONZ_BATCH_H
#define DIFFUSIONZ_BATCH_H

#include <stddef.h>

#include "pipeline/diffusionz_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum diffusionz_dtype { DIFFUSIONZ_AUTO = 0, DIFFUSIONZ_FP32, DIFFUSIONZ_BF16, DIFFUSIONZ_FP8 };

/* How LoRAs are applied.  AUTO merges them on the CPU, and on a GPU with memory for a second copy
 * of the weights; otherwise it computes them beside the weights. */
enum diffusionz_lora_way {
    DIFFUSIONZ_LORA_AUTO = 0,
    DIFFUSIONZ_LORA_MERGED,
    DIFFUSIONZ_LORA_BESIDE
};

typedef struct DiffusionZOptions {
    const char *model_path;
    int32_t device_id; /* -1 CPU, N cuda:N */
    int32_t dtype;     /* enum diffusionz_dtype */
    int32_t threads;   /* CPU threads; 0 = all cores */
    int32_t lora_way;  /* enum diffusionz_lora_way */
} DiffusionZOptions;

typedef struct DiffusionZLora {
    const char *path; /* safetensors */
    float weight;
} DiffusionZLora;

/* A LoRA of the model rather than of a job, for a range of steps: distilled models may switch
 * weights on the way from noise to picture. */
#define DIFFUSIONZ_STEP_LORAS_MAX 4 /* and as many transformers */
typedef struct DiffusionZStepLora {
    DiffusionZLora lora;
    int32_t first, end; /* steps first .. end - 1 of the schedule of num_steps, counted from 0 */
} DiffusionZStepLora;

/* A transformer in place of the model's, for a range of steps: a folder inside the model's
 * directory that its kiln.json names, so that it was loaded with the model. */
typedef struct DiffusionZStepTransformer {
    const char *folder;
    int32_t first, end;
} DiffusionZStepTransformer;

typedef struct DiffusionZItem {
    const char *prompt, *negative_prompt; /* lent for the call; negative NULL = "" */
    uint64_t seed;
    /* NULL, or a flag, read atomically before each step of this item and before its decode: nonzero
     * cancels it.  Up to two more steps may be in a GPU's queue by then.  A finished picture stays.
     */
    const int32_t *cancel;
    /* What the item starts from, lent until begin returns; both NULL: noise.  A clean latent
     * [channels][height/8][width/8], as in DiffusionZOutput (where diffusionz_latent_shape gives
     * another factor than 8, that); or a picture [height][width][3], which the VAE encodes. */
    const float *start_latent;
    const uint8_t *start_rgb;
    /* NULL, or a value in 0 .. 1 for each of a latent's [height/8][width/8], lent likewise: 1 where
     * the start is rendered anew, 0 where it is kept.  Only with a start. */
    const float *start_mask;
    /* With by_difference: the prompt of the run that start_latent comes from, lent likewise. */
    const char *start_prompt;
    /* 0 .. 1, more variety between seeds: noise of the item's seed on the features of its prompt
     * during the first steps (pipeline/engine/variety.c).  0: none. */
    double variety;
    /* Beside start_latent up to DIFFUSIONZ_STARTS_MAX - 1 more of its size, lent likewise: all of
     * them become one start, with equal weights, in the way of combine. */
    const float *const *more_latents;
    int32_t more_count, combine; /* enum diffusionz_combine */
    /* With start_latent, and neither a mask nor by_difference: bounds of the output's change, of
     * which the upper one is above 0.  A run outside them is given up: its output has the error
     * KILN_BAD_INPUT and start_refused.  Both 0: the change is not measured. */
    double change_least, change_most;
} DiffusionZItem;

/* How several clean latents become one.  Noise is added once, afterwards, so its level is exact
 * whatever the way. */
#define DIFFUSIONZ_STARTS_MAX 5
enum diffusionz_combine {
    DIFFUSIONZ_SINGLE = 0, /* the first alone */
    DIFFUSIONZ_LERP,       /* their mean */
    DIFFUSIONZ_SLERP,      /* along arcs, one after the other */
    DIFFUSIONZ_TREE        /* along arcs, in pairs, then pairs of pairs */
};

/* Where the items of a batch begin.  A start is noised to a sigma with the noise of its item's
 * seed, x = (1 - sigma) * start + sigma * noise, and the steps below that sigma follow. */
enum diffusionz_start {
    DIFFUSIONZ_FROM_NOISE = 0, /* exact: all steps of the schedule, from noise */
    DIFFUSIONZ_FROM_STEP,      /* noised to the sigma of step start_step of the schedule */
    DIFFUSIONZ_FROM_SIGMA      /* noised to start_sigma */
};

#define DIFFUSIONZ_SMALLER_MAX 2 /* smaller sizes of a picture in one call */

typedef struct DiffusionZBatch {
    const DiffusionZItem *items;
    int32_t item_count;
    int32_t width, height, num_steps;
    float guidance_scale;
    const DiffusionZLora *loras; /* the set of this call; the sum of their deltas */
    int32_t lora_count;
    int32_t keep_trajectory; /* also return the state before every step; not with coarse_steps */
    int32_t skip_decode;     /* latents only: kind "latent-cache" */
    /* NULL, or set atomically as steps end: the steps of all items, divided by the number of items.
     * It never falls and ends at diffusionz_forwards(). */
    int32_t *progress;
    /* Longest sides in pixels, 1 .. 2048 each, of smaller copies of the picture: made on the device
     * by area averaging (kernels/pictures/downscale.h). */
    const int32_t *smaller;
    int32_t smaller_count; /* 0 .. DIFFUSIONZ_SMALLER_MAX */
    /* NULL, or [num_steps] sigmas that fall from 1, or 0.9 at least, and stay above 0, lent for the
     * call: the schedule in place of that of the model's scheduler.  A distilled model is made for
     * certain ones.  Steps that replace a share of their noise are the model's, by its kiln.json.
     */
    const double *sigmas;
    /* Zero in all that follows: from noise, at the picture's size. */
    int32_t start;      /* enum diffusionz_start; unless FROM_NOISE every item has a start */
    int32_t start_step; /* of FROM_STEP: 0 .. num_steps - 1; the schedule's rest follows */
    /* Of FROM_SIGMA: in (0, 1].  The schedule's sigmas below it follow; or, with rest_steps n > 0,
     * n steps whose u are evenly spaced from that of start_sigma to 0, for
     * sigma = shift*u / (1 + (shift-1)*u). */
    double start_sigma;
    int32_t rest_steps;
    /* Coarse first, 0: no.  The first coarse_steps steps of the schedule run at the coarse size,
     * whose sides obey the rules of width and height and do not exceed them.  The prediction of the
     * clean latent after them is enlarged and is the start: FROM_SIGMA with rest_steps, and items
     * without starts of their own, unless coarse_skip is set. */
    int32_t coarse_steps, coarse_width, coarse_height;
    /* A third level between the two, 0: none.  The next middle_steps steps of the schedule run at
     * the middle size: the prediction of the coarse ones, enlarged, is noised to the sigma of the
     * first of them, and their prediction is enlarged to the full size. */
    int32_t middle_steps, middle_width, middle_height;
    /* 1: an edit by difference.  The start of an item is
     *
     *     start_latent + (prediction of prompt - prediction of start_prompt)
     *
     * where a prediction is the clean latent that one step from the noise of its seed comes to,
     * a forward of the model each.  The seed should be that of start_latent's run.  Not with masks,
     * coarse first, or a kept trajectory. */
    int32_t by_difference;
    /* Beside the LoRAs of the batch, each in its steps; their deltas add up.  A step at a noise
     * level between two of the schedule's, as after a start or a hand-over, counts as the upper
     * one's.  All items go through the steps of one set before any goes on with the next. */
    const DiffusionZStepLora *step_loras;
    int32_t step_lora_count; /* 0 .. DIFFUSIONZ_STEP_LORAS_MAX */
    /* Likewise; no two of them have a step in common.  LoRAs apply to all transformers. */
    const DiffusionZStepTransformer *step_transformers;
    int32_t step_transformer_count; /* 0 .. DIFFUSIONZ_STEP_LORAS_MAX */
    /* Below coarse_steps: the first of these are left out.  Every item has a start_latent of the
     * coarse size, which is noised to the sigma of step coarse_skip with its noise of that size. */
    int32_t coarse_skip;
} DiffusionZBatch;

typedef struct DiffusionZOutput {
    int32_t error_code; /* of this item; KILN_CANCELLED if its flag was seen */
    char *error_msg;    /* NULL on success */
    uint8_t *rgb;       /* [height][width][3]; NULL with skip_decode */
    float *latent;      /* [channels][h][w], final, before the VAE */
    /* [steps][channels][h][w] entering each of the diffusionz_forwards() steps; NULL if not kept */
    float *trajectory;
    double *sigmas; /* [steps] of the trajectory; NULL if not kept */
    int32_t latent_channels, latent_height, latent_width; /* 16, height/8, width/8 for Z-Image */
    /* [h][w][3] of each size of the batch, in its order; h and w are kiln_downscale_fit's.  NULL
     * where the picture is not larger than that, and with skip_decode. */
    uint8_t *smaller[DIFFUSIONZ_SMALLER_MAX];
    /* Where the item has bounds for it: how far the first step's prediction of the clean latent is
     * from the start, the root mean square of the difference as a share of the start's.  0: not
     * measured. */
    double change;
    int32_t start_refused; /* 1: change was out of bounds; and then */
    int32_t wasted;        /* the steps that the device took for the item */
} DiffusionZOutput;

/* Where a batch's LoRAs came from: KEPT, they were loaded or none was wanted; READY, they were
 * prefetched to host memory; READ, the batch waited for their files. */
enum diffusionz_lora_from { DIFFUSIONZ_LORA_KEPT = 0, DIFFUSIONZ_LORA_READY, DIFFUSIONZ_LORA_READ };

/* The first four add up to the time from begin to finish, in which the device may first have to end
 * the batch before.  On a GPU, decodes beside the steps of other items count as denoise_ms;
 * decode_ms is the wait after the last step.  Prefetched texts of the next batch count here, on the
 * CPU as text_ms. */
typedef struct DiffusionZTimes {
    double lora_ms, text_ms, denoise_ms, decode_ms;
    double device_ms;  /* how long the device was busy since the last finish, by its own clock */
    int32_t lora_from; /* enum diffusionz_lora_from */
    /* Different texts of the batch: those whose features were cached or prefetched; and those that
     * it had to encode first. */
    int32_t texts_ready, texts_encoded;
} DiffusionZTimes;

/* As diffusionz_init, with all options; 0 or a code, text in diffusionz_last_error(). */
DIFFUSIONZ_API int32_t diffusionz_open(const DiffusionZOptions *options, DiffusionZContext **ret);
/* The same with random weights, made on the device: the directory needs only its configs and a
 * tokenizer. */
DIFFUSIONZ_API int32_t diffusionz_open_random(const DiffusionZOptions *options,
                                              DiffusionZContext **ret);
/* Bytes on the device now: in tensors, and in total by this process and all others; 0 on the
 * CPU. */
DIFFUSIONZ_API void diffusionz_memory(const DiffusionZContext *ctx, uint64_t *ret_tensors,
                                      uint64_t *ret_device);
/* Reports the progress of later opens on this thread, by calls on this thread: the file, folder or
 * device that is being read, and how many of its bytes have come; of is 0 if unknown.  watch NULL
 * ends that. */
typedef void DiffusionZWatch(void *arg, const char *what, uint64_t bytes, uint64_t of);
DIFFUSIONZ_API void diffusionz_watch(DiffusionZWatch *watch, void *arg);

/* Sets how many seconds this process waits for a silent device before it counts as lost, 600 at
 * first.  Values below 1 are ignored.  Returns the previous limit.  For callers whose own watchdog
 * fires earlier. */
DIFFUSIONZ_API int32_t diffusionz_patience(int32_t seconds);

/* Runs the batch and fills the caller's outputs[item_count].  Returns 0 if the batch ran; single
 * items may still have failed.  Returns a code, without outputs, if nothing ran or the device was
 * lost. */
DIFFUSIONZ_API int32_t diffusionz_run_batch(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                                            DiffusionZOutput *outputs, DiffusionZTimes *ret_times);
/* The same in two halves, so that the device is never without work.  Begin returns when all work is
 * queued and the device is at the last steps.  What the batch points to, except outputs and
 * progress, is lent until then.  If begin returns 0, call finish once, before the context is freed,
 * on any thread, also while the next batch begins; it waits for the run and frees it.  Finish
 * returns the codes of diffusionz_run_batch but fills the outputs in any case: after a lost device,
 * with the pictures that had arrived and an error for each of the others. */
typedef struct kiln_run DiffusionZRun;
DIFFUSIONZ_API int32_t diffusionz_begin_batch(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                                              DiffusionZOutput *outputs, DiffusionZRun **ret);
DIFFUSIONZ_API int32_t diffusionz_finish_batch(DiffusionZRun *run, DiffusionZTimes *ret_times);
/* Steps that the batch takes for each item, at all sizes with coarse first: where its progress
 * ends, and the length of its trajectories.  Reads only sizes, num_steps and the fields of starts;
 * 0 if those would be refused.  Any thread. */
DIFFUSIONZ_API int32_t diffusionz_forwards(const DiffusionZContext *ctx,
                                           const DiffusionZBatch *batch);
/* The noise level at which the items of such a batch begin at the picture's size: of a start, the
 * one that it is noised to; from noise, the schedule's first.  0 as above.  Any thread. */
DIFFUSIONZ_API double diffusionz_start_sigma(const DiffusionZContext *ctx,
                                             const DiffusionZBatch *batch);
/* Prepares a later batch and returns at once.  A thread of the context reads the files of its
 * LoRAs. The running batch encodes its prompts after its own steps are queued.  Any thread may call
 * this while a batch runs.  Only the last LoRA set is prepared, and at most one batch's texts;
 * items need no starts.  Errors in a file or a prompt are reported when the batch runs. */
DIFFUSIONZ_API int32_t diffusionz_prefetch(DiffusionZContext *ctx, const DiffusionZBatch *next);
/* Returns the host memory that is kept for the tensors of later batches on the CPU, up to 1 GB, to
 * the system.  For a caller that expects no batch soon: the next one maps the memory again, within
 * tens of milliseconds.  Any thread, also while a batch runs.  A GPU's memory stays. */
DIFFUSIONZ_API void diffusionz_trim(DiffusionZContext *ctx);
/* Frees what the outputs point to, not the array. */
DIFFUSIONZ_API void diffusionz_release_outputs(DiffusionZOutput *outputs, int32_t count);

/* The model's identity in latents and pictures: 16 hex digits of a SHA-256 (model/hash.h), and the
 * name of its directory.  Borrowed from the context. */
DIFFUSIONZ_API const char *diffusionz_model_hash(const DiffusionZContext *ctx);
DIFFUSIONZ_API const char *diffusionz_model_name(const DiffusionZContext *ctx);
/* The number format that it computes in: enum diffusionz_dtype, never AUTO. */
DIFFUSIONZ_API int32_t diffusionz_dtype(const DiffusionZContext *ctx);
/* Its latents: how many channels, and how many pixels of a side one value stands for; 16 and 8 for
 * Z-Image. */
DIFFUSIONZ_API void diffusionz_latent_shape(const DiffusionZContext *ctx, int32_t *ret_channels,
                                            int32_t *ret_factor);

/* Why this context runs slower than it could, such as short memory, as a sentence; "" if nothing.
 * Pictures are the same.  Borrowed from the context until its next batch. */
DIFFUSIONZ_API const char *diffusionz_note(const DiffusionZContext *ctx);

/* A model's tokenizer alone, without context or device; reads only the folder tokenizer.  Free *ret
 * with diffusionz_free_tokenizer.  Several threads may use it at once. */
typedef struct kiln_tokenizer DiffusionZTokenizer;
DIFFUSIONZ_API int32_t diffusionz_open_tokenizer(const char *model_path, DiffusionZTokenizer **ret);
DIFFUSIONZ_API void diffusionz_free_tokenizer(DiffusionZTokenizer *tokenizer);
/* The ids of one text, at most 512, wrapped in the chat template unless raw.  Free *ret_ids with
 * diffusionz_free_ids. */
DIFFUSIONZ_API int32_t diffusionz_tokenize(const DiffusionZTokenizer *tokenizer, const char *text,
                                           size_t len, int32_t raw, int32_t **ret_ids,
                                           size_t *ret_count);
DIFFUSIONZ_API void diffusionz_free_ids(int32_t *ids);

/* The last failure of this thread as a sentence; "" if none.  Borrowed until the next call. */
DIFFUSIONZ_API const char *diffusionz_last_error(void);
/* The version of LibTorch and which instructions the CPU path uses here, as one line of text. */
DIFFUSIONZ_API void diffusionz_describe(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
