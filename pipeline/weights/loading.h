/* loading.h - what the opening of a model waits for, told to whoever asked; diffusionz_watch() of
 * diffusionz_batch.h.
 *
 * Opening is one thread's, and so is who is told: no state that two contexts would share, and
 * nobody has to hand a place for it down to the one who reads.
 */
#ifndef KILN_LOADING_H
#define KILN_LOADING_H

#include <stdint.h>

#include "pipeline/diffusionz_batch.h"

/* Tells of openings on this thread; NULL: nobody. */
void kiln_loading_watch(DiffusionZWatch *watch, void *arg);

/* From now on `what` is waited for, of whose bytes so many have come; of 0: not known. */
void kiln_loading_note(const char *what, uint64_t bytes, uint64_t of);
void kiln_loading_note_device(int device);

#endif
