/* context.h - what a DiffusionZContext is, shared by the files of the C ABI. */
#ifndef KILN_CONTEXT_H
#define KILN_CONTEXT_H

#include <pthread.h>

#include "pipeline/engine/engine.h"

struct DiffusionZContext {
    pthread_mutex_t lock; /* over all that follows */
    struct kiln_engine *engine;
    /* Writers of these two hold both locks.  A prefetch reads them under this one, so that it does
     * not wait for a running call. */
    pthread_mutex_t under_lock;
    char *under_path; /* LoRA of diffusionz_load_lora; NULL: none */
    float under_weight;
};

/* Behind diffusionz_open and diffusionz_open_random. */
int kiln_context_open(const DiffusionZOptions *options, bool random_weights,
                      DiffusionZContext **ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_context_free(DiffusionZContext *ctx); /* accepts NULL */

/* Begins a batch, holding the lock; kiln_engine_finish needs no lock. */
int kiln_context_begin(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                       DiffusionZOutput *outputs, struct kiln_run **ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Both halves. */
int kiln_context_run(DiffusionZContext *ctx, const DiffusionZBatch *batch,
                     DiffusionZOutput *outputs, DiffusionZTimes *ret_times,
                     struct kiln_error *err) KILN_MUST_CHECK;

/* Hands malloc'ed WebP bytes over to a result; frees them on failure.  KILN_UNSUPPORTED if
 * image_len cannot count them. */
int kiln_context_picture(DiffusionZResult *result, uint8_t *data, size_t size,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* Files an error as this thread's last one; returns its code. */
int kiln_context_note(const struct kiln_error *err);
/* The text of that error; "" if there was none. */
const char *kiln_context_last_error(void);

#endif
