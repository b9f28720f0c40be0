/* loading.h - reports the progress of opening a model; behind diffusionz_watch().
 *
 * The callback belongs to the thread that opens the model, so that two contexts share no state and
 * the loaders need no extra parameter.
 */
#ifndef KILN_LOADING_H
#define KILN_LOADING_H

#include <stdint.h>

#include "pipeline/diffusionz_batch.h"

/* Sets the callback of this thread; NULL: none. */
void kiln_loading_watch(DiffusionZWatch *watch, void *arg);

/* Reports that `what` is being read, and how many of its bytes have come; of 0: unknown. */
void kiln_loading_note(const char *what, uint64_t bytes, uint64_t of);
void kiln_loading_note_device(int device);

#endif
