/* fetch.c - copies objects of the store into files, several at a time.
 *
 *     caller --add--> ring of QUEUE_MAX tasks --take--> fetchers, each with a store of its own
 *
 * The lock guards the ring, the first error, the damages and the counts; a fetcher holds it only to
 * take a task and to report its result.  A damaged object is not an error.  After an error the
 * fetchers still take tasks, without running them, so that a caller never waits for room forever.
 */
#include "scheduler/cli/jobs/export/fetch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/digest.h"
#include "schemas/room.h"
#include "storage/formats/replace.h"
#include "storage/objects/store.h"

#define QUEUE_MAX 256
#define THREADS_MAX 16

/* --- damaged objects -------------------------------------------------------------------------- */
static int add_damage(struct kiln_damages *damages, uint64_t job, const char *role, const char *why,
                      struct kiln_error *err)
{
    struct kiln_damage *at = kiln_room(damages->at, damages->count, &damages->room, sizeof *at);
    if (at)
        damages->at = at;
    char *copy = strdup(why);
    if (!at || !copy) {
        free(copy);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the list of damaged objects");
    }
    at += damages->count++;
    *at = (struct kiln_damage){.job = job, .why = copy};
    snprintf(at->role, sizeof at->role, "%s", role);
    return 0;
}

static int by_object(const void *a, const void *b)
{
    const struct kiln_damage *x = a, *y = b;
    return x->job != y->job ? (x->job > y->job) - (x->job < y->job) : strcmp(x->role, y->role);
}

struct kiln_damage *kiln_damages_find(struct kiln_damages *damages, uint64_t job, const char *role)
{
    struct kiln_damage wanted = {.job = job};
    snprintf(wanted.role, sizeof wanted.role, "%s", role);
    return damages->count ? bsearch(&wanted, damages->at, damages->count, sizeof wanted, by_object)
                          : NULL;
}

void kiln_damages_release(struct kiln_damages *damages)
{
    for (size_t i = 0; i < damages->count; i++)
        free(damages->at[i].why);
    free(damages->at);
    *damages = (struct kiln_damages){0};
}

/* --- downloads -------------------------------------------------------------------------------- */
struct task {
    uint64_t job;
    struct kiln_object_row object;
    char below[256]; /* the directory of the export */
};

struct kiln_fetch {
    const struct kiln_config *config;
    const char *dir;
    pthread_t threads[THREADS_MAX];
    int thread_count;
    pthread_mutex_t lock;
    pthread_cond_t room, work;
    struct task *queue; /* a ring of QUEUE_MAX */
    unsigned head, count;
    bool closed;
    struct kiln_error error; /* the first one; later tasks are dropped */
    struct kiln_damages damages;
    uint64_t fetched, kept;
};

static void hex_of(const void *data, size_t size, char out[65])
{
    uint8_t digest[KILN_SHA256_SIZE];
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, out);
}

/* Whether the file is already there with the object's bytes. */
static bool is_there(const struct kiln_fetch *fetch, const struct task *task)
{
    struct stat st;
    int fd = kiln_open_below(fetch->dir, task->below);
    if (fd < 0)
        return false;
    bool same = fstat(fd, &st) == 0 && (uint64_t)st.st_size == task->object.bytes;
    FILE *file = same ? fdopen(fd, "r") : NULL;
    void *data = malloc(task->object.bytes + 1);
    same = file && data && fread(data, 1, task->object.bytes, file) == task->object.bytes;
    if (same) {
        char hex[65];
        hex_of(data, task->object.bytes, hex);
        same = strcmp(hex, task->object.sha256) == 0;
    }
    free(data);
    if (file)
        fclose(file);
    else
        close(fd);
    return same;
}

/* The bytes must have the size and the SHA-256 of the ledger. */
static int get_whole(struct kiln_store *store, const struct kiln_object_row *object, void **ret,
                     struct kiln_error *err)
{
    void *data = NULL;
    size_t size = 0;
    char hex[65];
    int rc = kiln_store_get(store, object->key, object->bytes, &data, &size, err);
    if (rc == KILN_FULL)
        return kiln_fail(err, KILN_CORRUPT,
                         "the object is larger than the %llu bytes in the ledger",
                         (unsigned long long)object->bytes);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, rc, "the store has no such object");
    if (rc)
        return rc;
    hex_of(data, size, hex);
    if (size != object->bytes || strcmp(hex, object->sha256) != 0) {
        free(data);
        return kiln_fail(err, KILN_CORRUPT, "the object's bytes differ from the ledger");
    }
    *ret = data;
    return 0;
}

/* Waits for a task; false when there will be none.  *ret_failed: an error came before. */
static bool take(struct kiln_fetch *fetch, struct task *ret, bool *ret_failed)
{
    pthread_mutex_lock(&fetch->lock);
    while (fetch->count == 0 && !fetch->closed)
        pthread_cond_wait(&fetch->work, &fetch->lock);
    bool any = fetch->count > 0;
    if (any) {
        *ret = fetch->queue[fetch->head % QUEUE_MAX];
        fetch->head++;
        fetch->count--;
        pthread_cond_signal(&fetch->room);
    }
    *ret_failed = fetch->error.code != 0;
    pthread_mutex_unlock(&fetch->lock);
    return any;
}

/* Keeps the first error. */
static void fail(struct kiln_fetch *fetch, const struct kiln_error *err)
{
    pthread_mutex_lock(&fetch->lock);
    if (!fetch->error.code)
        fetch->error = *err;
    pthread_mutex_unlock(&fetch->lock);
}

/* Runs one task and counts its result. */
static void work(struct kiln_fetch *fetch, struct kiln_store *store, const struct task *task)
{
    struct kiln_error err, none;
    struct kiln_part part;
    bool kept = is_there(fetch, task);
    void *data = NULL;
    int rc = kept ? 0 : get_whole(store, &task->object, &data, &err);
    /* Then the object itself is bad, not the store as a whole or the file. */
    bool damaged = rc == KILN_NOT_FOUND || rc == KILN_CORRUPT;
    if (data) /* under a temporary name until it is whole; no fsync: an export can be repeated */
        rc = kiln_part_open_below(&part, fetch->dir, task->below, 0666, &err);
    if (data && rc == 0) {
        rc = kiln_part_write(&part, data, task->object.bytes, &err);
        if (rc)
            kiln_part_drop(&part);
        else
            rc = kiln_part_keep(&part, false, &err);
    }
    free(data);
    pthread_mutex_lock(&fetch->lock);
    fetch->fetched += !rc && !kept;
    fetch->kept += !rc && kept;
    if (damaged && add_damage(&fetch->damages, task->job, task->object.role, err.text, &none) == 0)
        rc = 0;
    pthread_mutex_unlock(&fetch->lock);
    if (rc)
        fail(fetch, &err);
}

/* One thread: opens its store, works until the queue is closed and empty. */
static void *fetcher(void *arg)
{
    struct kiln_fetch *fetch = arg;
    struct kiln_store *store = NULL;
    struct kiln_error err;
    struct task *task = malloc(sizeof *task);
    int rc = task ? kiln_store_open(fetch->config, &store, &err)
                  : kiln_fail(&err, KILN_NO_MEMORY, "no memory to fetch");
    if (rc)
        fail(fetch, &err);
    bool failed;
    while (task && take(fetch, task, &failed)) /* after a failure it only empties the queue */
        if (!failed)
            work(fetch, store, task);
    kiln_store_close(store);
    free(task);
    return NULL;
}

int kiln_fetch_start(const struct kiln_config *config, const char *dir, int threads,
                     struct kiln_fetch **ret, struct kiln_error *err)
{
    struct kiln_fetch *fetch = calloc(1, sizeof *fetch);
    if (!fetch || !(fetch->queue = calloc(QUEUE_MAX, sizeof *fetch->queue))) {
        free(fetch);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to fetch objects");
    }
    fetch->config = config;
    fetch->dir = dir;
    pthread_mutex_init(&fetch->lock, NULL);
    pthread_cond_init(&fetch->room, NULL);
    pthread_cond_init(&fetch->work, NULL);
    for (int i = 0; i < threads && i < THREADS_MAX; i++)
        if (pthread_create(&fetch->threads[fetch->thread_count], NULL, fetcher, fetch) == 0)
            fetch->thread_count++;
    if (fetch->thread_count == 0) {
        free(fetch->queue);
        free(fetch);
        return kiln_fail(err, KILN_NO_MEMORY, "no thread could be started to fetch objects");
    }
    *ret = fetch;
    return 0;
}

int kiln_fetch_add(struct kiln_fetch *fetch, uint64_t job, const struct kiln_object_row *object,
                   const char *below, struct kiln_error *err)
{
    pthread_mutex_lock(&fetch->lock);
    while (fetch->count == QUEUE_MAX && !fetch->error.code)
        pthread_cond_wait(&fetch->room, &fetch->lock);
    int rc = fetch->error.code;
    if (rc) {
        if (err)
            *err = fetch->error;
    } else {
        struct task *task = &fetch->queue[(fetch->head + fetch->count++) % QUEUE_MAX];
        task->job = job;
        task->object = *object;
        snprintf(task->below, sizeof task->below, "%s", below);
        pthread_cond_signal(&fetch->work);
    }
    pthread_mutex_unlock(&fetch->lock);
    return rc;
}

int kiln_fetch_finish(struct kiln_fetch *fetch, uint64_t *ret_fetched, uint64_t *ret_kept,
                      struct kiln_damages *damages, struct kiln_error *err)
{
    pthread_mutex_lock(&fetch->lock);
    fetch->closed = true;
    pthread_cond_broadcast(&fetch->work);
    pthread_mutex_unlock(&fetch->lock);
    for (int i = 0; i < fetch->thread_count; i++)
        pthread_join(fetch->threads[i], NULL);
    int rc = fetch->error.code;
    if (rc && err)
        *err = fetch->error;
    const struct kiln_damage *found = fetch->damages.at;
    for (size_t i = 0; rc == 0 && i < fetch->damages.count; i++)
        rc = add_damage(damages, found[i].job, found[i].role, found[i].why, err);
    if (damages->count)
        qsort(damages->at, damages->count, sizeof *damages->at, by_object);
    kiln_damages_release(&fetch->damages);
    *ret_fetched = fetch->fetched;
    *ret_kept = fetch->kept;
    pthread_cond_destroy(&fetch->room);
    pthread_cond_destroy(&fetch->work);
    pthread_mutex_destroy(&fetch->lock);
    free(fetch->queue);
    free(fetch);
    return rc;
}
