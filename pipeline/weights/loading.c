/* loading.c - see loading.h. */
#include "pipeline/weights/loading.h"

#include <stddef.h>
#include <stdio.h>

static _Thread_local struct {
    DiffusionZWatch *watch;
    void *arg;
} told;

void kiln_loading_watch(DiffusionZWatch *watch, void *arg)
{
    told.watch = watch;
    told.arg = arg;
}

void kiln_loading_note(const char *what, uint64_t bytes, uint64_t of)
{
    if (told.watch)
        told.watch(told.arg, what, bytes, of);
}

void kiln_loading_note_device(int device)
{
    char what[32];
    snprintf(what, sizeof what, device < 0 ? "the CPU" : "device cuda:%d", device);
    kiln_loading_note(what, 0, 0);
}
