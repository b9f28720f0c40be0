/* background.h - a thread of the gallery that works beside its server, with pauses between its
 * steps, and can be ended within a time limit.
 *
 *     static void *run(void *arg)
 *     {
 *         struct thing *thing = arg;
 *         for (int ms = 0; kiln_background_pause(&thing->background, ms);)
 *             ms = step(thing) ? 0 : 1000;
 *         return NULL;
 *     }
 */
#ifndef KILN_GALLERY_BACKGROUND_H
#define KILN_GALLERY_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>

#include "schemas/error.h"

struct kiln_background {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending, woken;
};

/* Starts run(arg).  KILN_NO_MEMORY: "no thread to WHAT". */
int kiln_background_start(struct kiln_background *background, void *(*run)(void *), void *arg,
                          const char *what, struct kiln_error *err) KILN_MUST_CHECK;
/* In the thread: waits for so long, or until it is woken.  False: it must end. */
bool kiln_background_pause(struct kiln_background *background, int ms);
/* Any thread: ends the pause that is going on, or the next one. */
void kiln_background_wake(struct kiln_background *background);
/* Asks the thread to end and waits up to stop_s.  False: it hangs in a call, and lives on until the
 * process ends; nothing that it uses may be freed. */
bool kiln_background_stop(struct kiln_background *background, int stop_s) KILN_MUST_CHECK;

#endif
