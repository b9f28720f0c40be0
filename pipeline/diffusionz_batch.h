/* diffusionz_batch.h - what a worker needs beyond diffusionz_c_api.h: batches, raw pixels,
 * latents, cancel and progress.  Same library, same context type, same rules.
 *
 * A call runs the items of one assignment: all of one size, step count and LoRA set; prompts and
 * seeds differ.  An item's pixels do not depend on its neighbours.  Work is in two halves, so
 * that a worker can encode and upload the last pictures while the next are being denoised.
 */
#ifndef DIFFUSIONZ_BATCH_H
#define DIFFUSIONZ_BATCH_H

#include <stddef.h>

#include "pipeline/diffusionz_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum diffusionz_dtype { DIFFUSIONZ_AUTO = 0, DIFFUSIONZ_FP32, DIFFUSIONZ_BF16, DIFFUSIONZ_FP8 };

/* How LoRAs are put in place.  By itself the library merges them on the CPU, and on a GPU where
 * there is room for a second copy of the weights; else they are computed beside the weights. */
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

typedef struct DiffusionZItem {
    const char *prompt, *negative_prompt; /* lent for the call; negative NULL = "" */
    uint64_t seed;
    /* NULL, or read (atomically) before each step of this item and before its decode: nonzero stops
     * it.  A GPU has been asked for up to two steps more by then.  A picture that is done stays. */
    const int32_t *cancel;
} DiffusionZItem;

#define DIFFUSIONZ_SMALLER_MAX 2 /* smaller sizes of a picture in one call */

typedef struct DiffusionZBatch {
    const DiffusionZItem *items;
    int32_t item_count;
    int32_t width, height, num_steps;
    float guidance_scale;
    const DiffusionZLora *loras; /* the set of this call; the sum of their deltas */
    int32_t lora_count;
    int32_t keep_trajectory; /* also return the state before every step */
    int32_t skip_decode;     /* latents only: kind "latent-cache" */
    /* NULL, or set (atomically) as steps end: those of all items together, divided by the number of
     * items, of which some run together and some one after the other.  It never falls; num_steps in
     * the end. */
    int32_t *progress;
    /* Longest sides in pixels, 1 .. 2048 each, of the smaller sizes that are wanted too: made from
     * the full picture on the device that has drawn it, by area averaging (kernels/downscale.h). */
    const int32_t *smaller;
    int32_t smaller_count; /* 0 .. DIFFUSIONZ_SMALLER_MAX */
} DiffusionZBatch;

typedef struct DiffusionZOutput {
    int32_t error_code; /* of this item; KILN_CANCELLED if its flag was seen */
    char *error_msg;    /* NULL on success */
    uint8_t *rgb;       /* [height][width][3]; NULL with skip_decode */
    float *latent;      /* [channels][h][w], final, before the VAE */
    float *trajectory;  /* [steps][channels][h][w] entering each step; NULL if not kept */
    double *sigmas;     /* [steps] of the trajectory; NULL if not kept */
    int32_t latent_channels, latent_height, latent_width; /* 16, height/8, width/8 for Z-Image */
    /* [h][w][3] of each size of the batch, in its order; h and w are kiln_downscale_fit's.  NULL
     * where the picture is not larger than that, and with skip_decode. */
    uint8_t *smaller[DIFFUSIONZ_SMALLER_MAX];
} DiffusionZOutput;

/* Where a batch had its LoRAs from: they were in place, or none were wanted; they lay ready in host
 * memory; their files had to be read, or waited for, while nothing was drawn. */
enum diffusionz_lora_from { DIFFUSIONZ_LORA_KEPT = 0, DIFFUSIONZ_LORA_READY, DIFFUSIONZ_LORA_READ };

/* The first four add up to the call's, or to what lies between begin and finish without what the
 * device still had to do of the batch before.  On a GPU items are decoded beside the steps of the
 * next ones: that is within denoise_ms, and decode_ms is what was left to wait for after the last
 * step.
 * Texts of the next batch (diffusionz_prefetch) are work of this call: on the CPU within text_ms.
 */
typedef struct DiffusionZTimes {
    double lora_ms, text_ms, denoise_ms, decode_ms;
    double device_ms;  /* since the last batch was finished: the device was drawing, by its own
                        * clock (torch/clock.h) */
    int32_t lora_from; /* enum diffusionz_lora_from */
    /* Different texts of the batch: those whose features were there, of earlier batches or made
     * ahead; and those that had to be encoded before it could begin. */
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
/* What this thread's openings wait for from now on is told to watch, by this thread: a file, folder
 * or device, and how many of its bytes have come; of 0: not known.  watch NULL: no longer. */
typedef void DiffusionZWatch(void *arg, const char *what, uint64_t bytes, uint64_t of);
DIFFUSIONZ_API void diffusionz_watch(DiffusionZWatch *watch, void *arg);

/* How many seconds the calls of this process wait for a device that is silent before they take it
 * for broken, 600 at first; less than 1 changes nothing.  Returns what it was.  For who has a watch
 * of its own that ends sooner. */
DIFFUSIONZ_API int32_t diffusionz_patience(int32_t seconds);

/* Runs the batch; outputs[item_count] is the caller's and is filled.  Returns 0 if the batch ran
 * (items may still have failed one by one) or a code, and no outputs, when nothing ran or the
 * device was lost. */
DIFFUSIONZ_API int32_t diffusionz_run_batch(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                                            DiffusionZOutput *outputs, DiffusionZTimes *ret_times);
/* The same in two halves, for a queue that never leaves the device without work.  Begin returns
 * when all has been asked for and the device is at the last steps; what the batch points to, but
 * for outputs and progress, is lent until then.  With 0 comes a run, which finish waits for and
 * frees, once, before the context goes: on any thread, while the next batch is begun.  Its code is
 * that of diffusionz_run_batch, but outputs are filled whatever it is: where the device was lost,
 * with the pictures that had come from it before, and with an error for each of the others. */
typedef struct kiln_run DiffusionZRun;
DIFFUSIONZ_API int32_t diffusionz_begin_batch(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                                              DiffusionZOutput *outputs, DiffusionZRun **ret);
DIFFUSIONZ_API int32_t diffusionz_finish_batch(DiffusionZRun *run, DiffusionZTimes *ret_times);
/* Prepares what a batch will need soon: the files of its LoRAs are read by a thread of the
 * context's own; its prompts are encoded by the batch that runs, when all of its own steps have
 * been asked for.  Returns at once, and may be called on any thread while a batch runs.  Of several
 * LoRA sets the last one counts, of texts as many as a batch may have; what is wrong with a file or
 * a text is said when the batch runs. */
DIFFUSIONZ_API int32_t diffusionz_prefetch(DiffusionZContext *ctx, const DiffusionZBatch *next);
/* Frees what the outputs point to, not the array. */
DIFFUSIONZ_API void diffusionz_release_outputs(DiffusionZOutput *outputs, int32_t count);

/* The first 16 hex digits of a SHA-256 over the model's config and weights' headers, and the
 * directory's name: how latents and images name their model.  Borrowed from the context. */
DIFFUSIONZ_API const char *diffusionz_model_hash(const DiffusionZContext *ctx);
DIFFUSIONZ_API const char *diffusionz_model_name(const DiffusionZContext *ctx);

/* What this context has found that it must do without, and why, as a sentence; "" for nothing.  It
 * draws the same, slower.  Borrowed from the context until its next batch. */
DIFFUSIONZ_API const char *diffusionz_note(const DiffusionZContext *ctx);

/* A model's tokenizer alone: no context, no device, and of the directory only that folder.  *ret is
 * freed with diffusionz_free_tokenizer; any threads may use it at once. */
typedef struct kiln_tokenizer DiffusionZTokenizer;
DIFFUSIONZ_API int32_t diffusionz_open_tokenizer(const char *model_path, DiffusionZTokenizer **ret);
DIFFUSIONZ_API void diffusionz_free_tokenizer(DiffusionZTokenizer *tokenizer);
/* Ids of one text, at most 512, wrapped in the chat template unless raw; *ret_ids is freed with
 * diffusionz_free_ids. */
DIFFUSIONZ_API int32_t diffusionz_tokenize(const DiffusionZTokenizer *tokenizer, const char *text,
                                           size_t len, int32_t raw, int32_t **ret_ids,
                                           size_t *ret_count);
DIFFUSIONZ_API void diffusionz_free_ids(int32_t *ids);

/* The last failure of this thread as a sentence; "" if none.  Borrowed until the next call. */
DIFFUSIONZ_API const char *diffusionz_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
