/* work.c - see work.h. */
#include "scheduler/gallery/web/work.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "schemas/clock.h"
#include "storage/ledger/ledger.h"

#define LIMIT_S "2" /* KILN_WEB_STATEMENT_MS as a setting */

struct kiln_web_work {
    struct kiln_web_work_limits limits;
    struct kiln_config *config; /* with shorter limits: a person waits */
    kiln_web_answer *answer;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct kiln_web_item *first, *last;
    uint32_t places; /* reserved or waiting */
    bool ending;
    pthread_t threads[KILN_WEB_WORKERS];
    int started;
};

/* The next item, or NULL at the end; waits. */
static struct kiln_web_item *take(struct kiln_web_work *work)
{
    pthread_mutex_lock(&work->lock);
    while (!work->first && !(work->ending && work->places == 0))
        pthread_cond_wait(&work->changed, &work->lock);
    struct kiln_web_item *item = work->first;
    if (item) {
        work->first = item->next;
        work->last = work->first ? work->last : NULL;
        work->places--;
        if (work->ending)
            pthread_cond_broadcast(&work->changed);
    }
    pthread_mutex_unlock(&work->lock);
    return item;
}

static bool is_ending(struct kiln_web_work *work)
{
    pthread_mutex_lock(&work->lock);
    bool ending = work->ending;
    pthread_mutex_unlock(&work->lock);
    return ending;
}

/* The sessions that the item needs, opened when they are first needed: opening sends nothing. */
static int prepare(struct kiln_web_work *work, const struct kiln_web_item *item,
                   struct kiln_web_sessions *sessions, struct kiln_error *err)
{
    if (is_ending(work))
        return kiln_fail(err, KILN_UNAVAILABLE, "the gallery is ending");
    if (kiln_clock_ms() - item->since_ms > work->limits.patience_ms)
        return kiln_fail(err, KILN_FULL, "too many requests are waiting for the ledger");
    int rc = 0;
    if (!sessions->reader)
        rc = kiln_ledger_open_reading(work->config, "kiln-gallery", KILN_WEB_STATEMENT_MS,
                                      &sessions->reader, err);
    if (rc == 0 && item->writes && !sessions->writer)
        rc = kiln_ledger_open(work->config, "kiln-gallery", &sessions->writer, err);
    return rc;
}

static void *run(void *arg)
{
    struct kiln_web_work *work = arg;
    struct kiln_web_sessions sessions = {NULL, NULL};
    for (struct kiln_web_item *item; (item = take(work)) != NULL;) {
        struct kiln_error err = {0};
        int rc = prepare(work, item, &sessions, &err);
        work->answer(work->arg, item, &sessions, rc ? &err : NULL);
    }
    kiln_ledger_close(sessions.reader);
    kiln_ledger_close(sessions.writer);
    return NULL;
}

/* The same settings with the limits of a page. */
static int copy_settings(const struct kiln_config *config, struct kiln_config **ret,
                         struct kiln_error *err)
{
    struct kiln_config *copy = kiln_config_new();
    int rc = copy ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the settings");
    for (int key = 0; rc == 0 && key < KILN_KEY_COUNT; key++)
        rc =
            kiln_config_set(copy, kiln_keys[key].name,
                            key == KILN_KEY_STATEMENT_TIMEOUT_S || key == KILN_KEY_CONNECT_TIMEOUT_S
                                ? LIMIT_S
                                : kiln_config_text(config, (enum kiln_key)key),
                            kiln_config_origin(config, (enum kiln_key)key), err);
    if (rc)
        kiln_config_free(copy);
    else
        *ret = copy;
    return rc;
}

/* The processors of a machine with more than 1,024 cannot be counted this way. */
static int worker_count(int most)
{
    assert(most <= KILN_WEB_WORKERS);
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : most;
    if (count < 2)
        count = 2;
    return count < most ? count : most;
}

int kiln_web_work_new(const struct kiln_config *config, const struct kiln_web_work_limits *limits,
                      kiln_web_answer *answer, void *arg, struct kiln_web_work **ret,
                      struct kiln_error *err)
{
    struct kiln_web_work *work = calloc(1, sizeof *work);
    const int workers = worker_count(limits->workers);
    if (!work)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the queue of requests");
    work->limits = *limits;
    work->answer = answer;
    work->arg = arg;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->changed, NULL);
    int rc = copy_settings(config, &work->config, err);
    for (; rc == 0 && work->started < workers; work->started++)
        if (pthread_create(&work->threads[work->started], NULL, run, work) != 0) {
            rc = kiln_fail(err, KILN_NO_MEMORY, "no thread for the queue of requests");
            break;
        }
    if (rc) {
        kiln_web_work_stop(work);
        kiln_web_work_free(work);
        return rc;
    }
    *ret = work;
    return 0;
}

struct kiln_config *kiln_web_work_config(struct kiln_web_work *work)
{
    return work->config;
}

bool kiln_web_work_reserve(struct kiln_web_work *work)
{
    pthread_mutex_lock(&work->lock);
    bool room = !work->ending && work->places < work->limits.places;
    work->places += room;
    pthread_mutex_unlock(&work->lock);
    return room;
}

void kiln_web_work_push(struct kiln_web_work *work, struct kiln_web_item *item)
{
    item->next = NULL;
    item->since_ms = kiln_clock_ms();
    pthread_mutex_lock(&work->lock);
    if (work->last)
        work->last->next = item;
    else
        work->first = item;
    work->last = item;
    pthread_cond_signal(&work->changed);
    pthread_mutex_unlock(&work->lock);
}

uint32_t kiln_web_work_waiting(struct kiln_web_work *work)
{
    pthread_mutex_lock(&work->lock);
    uint32_t places = work->places;
    pthread_mutex_unlock(&work->lock);
    return places;
}

void kiln_web_work_stop(struct kiln_web_work *work)
{
    pthread_mutex_lock(&work->lock);
    work->ending = true;
    pthread_cond_broadcast(&work->changed);
    pthread_mutex_unlock(&work->lock);
    for (; work->started > 0; work->started--)
        pthread_join(work->threads[work->started - 1], NULL);
}

void kiln_web_work_free(struct kiln_web_work *work)
{
    if (!work)
        return;
    kiln_config_free(work->config);
    pthread_cond_destroy(&work->changed);
    pthread_mutex_destroy(&work->lock);
    free(work);
}
