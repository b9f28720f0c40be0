/* desk.c - see desk.h. */
#include "scheduler/embedding/desk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/embedding/memo.h"
#include "schemas/clock.h"

#define TOGETHER KILN_EMBEDDING_TOGETHER

struct text {
    struct kiln_memo_key key;
    char *at;
};

struct kiln_desk {
    const struct kiln_embedding_model *model;
    size_t dims;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct kiln_memo *memo;
    int8_t *rows;                       /* [TOGETHER][dims], the thread's */
    struct text queue[KILN_DESK_TEXTS]; /* a ring */
    size_t first, count;
    struct text pass[TOGETHER]; /* that the thread embeds now */
    size_t pass_count;
    struct kiln_error fault; /* of a text that failed last */
    uint64_t embedded;
    bool stop;
};

/* --- the thread ------------------------------------------------------------------------------- */

/* Embeds texts one by one after a pass that failed, so that one of them does not take the others
 * along.  done[i]: row i is there. */
static void embed_each(struct kiln_desk *desk, const char *const *texts, size_t count, int8_t *rows,
                       bool *done, struct kiln_error *fault)
{
    for (size_t i = 0; i < count; i++) {
        struct kiln_error why;
        done[i] = kiln_embedding_model_rows(desk->model, true, &texts[i], 1, rows + i * desk->dims,
                                            &why) == 0;
        if (!done[i])
            *fault = why;
    }
}

static void embed_pass(struct kiln_desk *desk)
{
    int8_t *rows = desk->rows;
    const char *texts[TOGETHER];
    bool done[TOGETHER];
    struct kiln_error fault = {0};
    const size_t count = desk->pass_count;
    for (size_t i = 0; i < count; i++) {
        texts[i] = desk->pass[i].at;
        done[i] = true;
    }
    pthread_mutex_unlock(&desk->lock);
    if (kiln_embedding_model_rows(desk->model, true, texts, count, rows, &fault))
        embed_each(desk, texts, count, rows, done, &fault);
    pthread_mutex_lock(&desk->lock);
    for (size_t i = 0; i < count; i++) {
        if (done[i])
            kiln_memo_put(desk->memo, desk->pass[i].key, rows + i * desk->dims);
        else
            desk->fault = fault;
        desk->embedded += done[i];
        free(desk->pass[i].at);
    }
    desk->pass_count = 0;
}

static void *serve(void *arg)
{
    struct kiln_desk *desk = arg;
    pthread_mutex_lock(&desk->lock);
    while (!desk->stop) {
        if (desk->count == 0) {
            pthread_cond_wait(&desk->changed, &desk->lock);
            continue;
        }
        while (desk->pass_count < TOGETHER && desk->count > 0) {
            desk->pass[desk->pass_count++] = desk->queue[desk->first];
            desk->first = (desk->first + 1) % KILN_DESK_TEXTS;
            desk->count--;
        }
        embed_pass(desk);
        pthread_cond_broadcast(&desk->changed);
    }
    pthread_mutex_unlock(&desk->lock);
    return NULL;
}

/* --- opening ---------------------------------------------------------------------------------- */

int kiln_desk_open(const struct kiln_embedding_model *model, struct kiln_desk **ret,
                   struct kiln_error *err)
{
    struct kiln_desk *desk = calloc(1, sizeof *desk);
    pthread_condattr_t monotonic;
    if (!desk)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the router's embedder");
    desk->model = model;
    desk->dims = kiln_embedding_model_dims(model);
    size_t rows = (size_t)KILN_DESK_MEMO_BYTES / (desk->dims + 64);
    rows = rows > 4 * KILN_DESK_TEXTS ? rows : 4 * KILN_DESK_TEXTS;
    desk->memo = kiln_memo_new(rows, desk->dims);
    desk->rows = malloc(TOGETHER * desk->dims);
    pthread_mutex_init(&desk->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&desk->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    desk->started =
        desk->memo && desk->rows && pthread_create(&desk->thread, NULL, serve, desk) == 0;
    if (!desk->started) {
        kiln_desk_close(desk);
        return kiln_fail(err, KILN_NO_MEMORY,
                         "the thread of the router's embedder cannot be started");
    }
    *ret = desk;
    return 0;
}

void kiln_desk_close(struct kiln_desk *desk)
{
    if (!desk)
        return;
    if (desk->started) {
        pthread_mutex_lock(&desk->lock);
        desk->stop = true;
        pthread_cond_broadcast(&desk->changed);
        pthread_mutex_unlock(&desk->lock);
        pthread_join(desk->thread, NULL);
    }
    for (size_t i = 0; i < desk->count; i++)
        free(desk->queue[(desk->first + i) % KILN_DESK_TEXTS].at);
    kiln_memo_free(desk->memo);
    free(desk->rows);
    pthread_cond_destroy(&desk->changed);
    pthread_mutex_destroy(&desk->lock);
    free(desk);
}

/* --- the intake's side ------------------------------------------------------------------------ */

static bool same(struct kiln_memo_key a, struct kiln_memo_key b)
{
    return a.high == b.high && a.low == b.low;
}

/* Whether the text waits or is embedded now. */
static bool pending(const struct kiln_desk *desk, struct kiln_memo_key key)
{
    for (size_t i = 0; i < desk->pass_count; i++)
        if (same(desk->pass[i].key, key))
            return true;
    for (size_t i = 0; i < desk->count; i++)
        if (same(desk->queue[(desk->first + i) % KILN_DESK_TEXTS].key, key))
            return true;
    return false;
}

/* Waits for a change; false: it is past `until`, and nobody has had the lock meanwhile if it was. */
static bool wait(struct kiln_desk *desk, const struct timespec *until)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const bool past = now.tv_sec > until->tv_sec ||
                      (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
    return !past && pthread_cond_timedwait(&desk->changed, &desk->lock, until) == 0;
}

static int timeout(size_t left, size_t count, int limit_ms, struct kiln_error *err)
{
    return kiln_fail(err, KILN_TIMEOUT,
                     "the router's embedder has not finished %zu of %zu texts within %.3g s", left,
                     count, limit_ms / 1000.0);
}

static int ask(struct kiln_desk *desk, const char *text, struct kiln_memo_key key,
               struct kiln_error *err)
{
    char *copy = strdup(text);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt");
    desk->queue[(desk->first + desk->count) % KILN_DESK_TEXTS] = (struct text){key, copy};
    desk->count++;
    pthread_cond_broadcast(&desk->changed);
    return 0;
}

/* What neither the memo nor the queue has by now has failed. */
static int collect(struct kiln_desk *desk, const struct kiln_memo_key *keys, size_t count,
                   const struct timespec *until, int limit_ms, struct kiln_error *err)
{
    for (size_t next = 0;;) {
        while (next < count && kiln_memo_find(desk->memo, keys[next]))
            next++;
        if (next == count)
            return 0;
        if (!pending(desk, keys[next]))
            return kiln_fail(err, KILN_UNAVAILABLE, "the router's embedder failed: %s",
                             desk->fault.text);
        if (!wait(desk, until))
            return timeout(count - next, count, limit_ms, err);
    }
}

int kiln_desk_prepare(struct kiln_desk *desk, const char *const *texts, size_t count,
                      int limit_ms, struct kiln_error *err)
{
    struct kiln_memo_key *keys = calloc(count + 1, sizeof *keys);
    if (!keys || count > KILN_DESK_TEXTS) {
        free(keys);
        return kiln_fail(err, count > KILN_DESK_TEXTS ? KILN_FULL : KILN_NO_MEMORY,
                         "no memory for %zu texts of the router's embedder", count);
    }
    for (size_t i = 0; i < count; i++)
        keys[i] = kiln_memo_key(texts[i]);
    const struct timespec until = kiln_deadline_in(limit_ms);
    int rc = 0;
    pthread_mutex_lock(&desk->lock);
    for (size_t i = 0; i < count && !rc;) {
        if (kiln_memo_find(desk->memo, keys[i]) || pending(desk, keys[i]))
            i++;
        else if (desk->count < KILN_DESK_TEXTS)
            rc = ask(desk, texts[i], keys[i], err);
        else if (!wait(desk, &until))
            rc = timeout(count - i, count, limit_ms, err);
    }
    rc = rc ? rc : collect(desk, keys, count, &until, limit_ms, err);
    pthread_mutex_unlock(&desk->lock);
    free(keys);
    return rc;
}

bool kiln_desk_find(struct kiln_desk *desk, const char *text, int8_t *row)
{
    const struct kiln_memo_key key = kiln_memo_key(text);
    pthread_mutex_lock(&desk->lock);
    const int8_t *found = kiln_memo_find(desk->memo, key);
    if (found)
        memcpy(row, found, desk->dims);
    pthread_mutex_unlock(&desk->lock);
    return found != NULL;
}

uint64_t kiln_desk_embedded(struct kiln_desk *desk)
{
    pthread_mutex_lock(&desk->lock);
    const uint64_t embedded = desk->embedded;
    pthread_mutex_unlock(&desk->lock);
    return embedded;
}
