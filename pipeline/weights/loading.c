/* loading.c - calls the callback of the thread; see loading.h. */
#include "pipeline/weights/loading.h"

#include <stdio.h>

static _Thread_local struct {
    DiffusionZWatch *watch;
    void *arg;
} callback;

void kiln_loading_watch(DiffusionZWatch *watch, void *arg)
{
    callback.watch = watch;
    callback.arg = arg;
}

void kiln_loading_note(const char *what, uint64_t bytes, uint64_t of)
{
    if (callback.watch)
        callback.watch(callback.arg, what, bytes, of);
}

void kiln_loading_note_device(int device)
{
    char what[32];
    snprintf(what, sizeof what, device < 0 ? "the CPU" : "device cuda:%d", device);
    kiln_loading_note(what, 0, 0);
}
