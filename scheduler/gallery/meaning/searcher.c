/* searcher.c - see searcher.h. */
#include "scheduler/gallery/meaning/searcher.h"

#include <stdlib.h>

#include "storage/ledger/ledger.h"

#define TOKENS_MS 500 /* for each statement that reads tokens of a search */

static void search(struct kiln_searcher *s, struct kiln_searcher_task *task)
{
    task->code = kiln_meaning_search(s->meaning, s->scratch, s->session, &task->query->filter,
                                     task->query->words, KILN_MIXED_MEANING, task->hits,
                                     &task->found, &task->err);
}

static void *run(void *arg)
{
    struct kiln_searcher *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        struct kiln_searcher_task *task = s->task;
        if (!task) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        search(s, task);
        pthread_mutex_lock(&s->lock);
        s->task = NULL;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void kiln_searcher_begin(struct kiln_searcher *s, struct kiln_searcher_task *task)
{
    if (!s->has_thread) /* there was none before, or this is its first task */
        s->has_thread = pthread_create(&s->thread, NULL, run, s) == 0;
    pthread_mutex_lock(&s->lock);
    s->task = task;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void kiln_searcher_finish(struct kiln_searcher *s)
{
    if (!s->has_thread) {
        search(s, s->task);
        s->task = NULL;
        return;
    }
    pthread_mutex_lock(&s->lock);
    while (s->task)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void kiln_searcher_free(struct kiln_searcher *s)
{
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    kiln_meaning_scratch_free(s->scratch);
    kiln_ledger_close(s->session);
    free(s);
}

int kiln_searcher_new(const struct kiln_config *config, struct kiln_meaning *meaning,
                      struct kiln_searcher **ret, struct kiln_error *err)
{
    struct kiln_searcher *s = calloc(1, sizeof *s);
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a search by meaning");
    s->meaning = meaning;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int code = kiln_meaning_scratch_new(meaning, &s->scratch, err);
    if (code == 0)
        code = kiln_ledger_open_reading(config, "kiln-gallery", TOKENS_MS, &s->session, err);
    if (code != 0) {
        kiln_searcher_free(s);
        return code;
    }
    *ret = s;
    return 0;
}
