/* background.c - see background.h. */
#include "scheduler/gallery/background.h"

#include <time.h>

#include "schemas/clock.h"

int kiln_background_start(struct kiln_background *background, void *(*run)(void *), void *arg,
                          const char *what, struct kiln_error *err)
{
    pthread_condattr_t monotonic;
    background->ending = background->woken = false;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&background->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&background->lock, NULL);
    if (pthread_create(&background->thread, NULL, run, arg) == 0)
        return 0;
    pthread_cond_destroy(&background->changed);
    pthread_mutex_destroy(&background->lock);
    return kiln_fail(err, KILN_NO_MEMORY, "no thread to %s", what);
}

bool kiln_background_pause(struct kiln_background *background, int ms)
{
    const struct timespec until = kiln_deadline_in(ms);
    pthread_mutex_lock(&background->lock);
    while (!background->ending && !background->woken &&
           pthread_cond_timedwait(&background->changed, &background->lock, &until) == 0)
        continue;
    background->woken = false;
    const bool more = !background->ending;
    pthread_mutex_unlock(&background->lock);
    return more;
}

void kiln_background_wake(struct kiln_background *background)
{
    pthread_mutex_lock(&background->lock);
    background->woken = true;
    pthread_cond_signal(&background->changed);
    pthread_mutex_unlock(&background->lock);
}

bool kiln_background_stop(struct kiln_background *background, int stop_s)
{
    struct timespec until;
    pthread_mutex_lock(&background->lock);
    background->ending = true;
    pthread_cond_signal(&background->changed);
    pthread_mutex_unlock(&background->lock);
    clock_gettime(CLOCK_REALTIME, &until); /* which pthread_timedjoin_np takes */
    until.tv_sec += stop_s;
    if (pthread_timedjoin_np(background->thread, NULL, &until) != 0)
        return false;
    pthread_cond_destroy(&background->changed);
    pthread_mutex_destroy(&background->lock);
    return true;
}
