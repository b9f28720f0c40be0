/* load_watch.h - logs what a model waits for while it loads.
 *
 * Otherwise a worker would be silent while a file server or a driver hangs.
 */
#ifndef KILN_LOAD_WATCH_H
#define KILN_LOAD_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define KILN_LOAD_SAY_MS 30000.0 /* between two lines */

struct kiln_load_watch {
    pthread_mutex_t mutex;
    char what[1024]; /* a file, a folder or a device */
    uint64_t bytes, of;
    bool moved; /* since the last line */
    double since_ms, said_ms;
};

void kiln_load_watch_init(struct kiln_load_watch *watch, double now_ms);
void kiln_load_watch_release(struct kiln_load_watch *watch);

/* The DiffusionZWatch of the thread that loads; arg is the watch. */
void kiln_load_watch_note(void *arg, const char *what, uint64_t bytes, uint64_t of);
/* Logs the progress every KILN_LOAD_SAY_MS, as a warning if nothing arrived since the last line.
 * Any other thread. */
void kiln_load_watch_say(struct kiln_load_watch *watch, double now_ms);

#endif
