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

#include "scheduler/cli/jobs/export/directory.h"
#include "schemas/digest.h"
#include "schemas/room.h"
#include "storage/formats/replace.h"
#include "storage/objects/store.h"

#define QUEUE_MAX 256
#define THREADS_MAX 16
#define METADATA_MAX (1 << 20) /* bytes that an export adds to a picture, at most */

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
    struct kiln_fetch_as as;
};

struct kiln_fetch {
    const struct kiln_config *config;
    const char *dir;
    const struct kiln_export_dir *owner;
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

/* The file as it is, at most max bytes; NULL if there is none. */
static uint8_t *read_there(const struct kiln_fetch *fetch, const struct task *task, uint64_t max,
                           size_t *ret_size)
{
    struct stat st;
    int fd = kiln_open_below(fetch->dir, task->below);
    if (fd < 0)
        return NULL;
    bool fits = fstat(fd, &st) == 0 && (uint64_t)st.st_size <= max;
    FILE *file = fits ? fdopen(fd, "r") : NULL;
    uint8_t *data = file ? malloc((size_t)st.st_size + 1) : NULL;
    if (data && fread(data, 1, (size_t)st.st_size, file) != (size_t)st.st_size) {
        free(data);
        data = NULL;
    }
    if (file)
        fclose(file);
    else
        close(fd);
    *ret_size = data ? (size_t)st.st_size : 0;
    return data;
}

static bool is_object(const struct task *task, const uint8_t *data, size_t size)
{
    char hex[65];
    if (size != task->object.bytes)
        return false;
    hex_of(data, size, hex);
    return strcmp(hex, task->object.sha256) == 0;
}

static int convert(const struct task *task, const uint8_t *object, size_t size, uint8_t **ret_data,
                   size_t *ret_size, struct kiln_error *err)
{
    const struct kiln_picture_metadata metadata = {task->as.parameters, task->as.xmp};
    return kiln_picture_convert(task->as.format, object, size, &metadata, ret_data, ret_size, err);
}

/* Whether the file is what would be made of its object, which is in the file without metadata. */
static bool is_annotated(const struct task *task, const uint8_t *data, size_t size)
{
    struct kiln_error none;
    bool same = false;
    for (int xmp = 0; xmp < 2 && !same; xmp++) {
        uint8_t *object = NULL, *again = NULL;
        size_t object_size, again_size;
        if (kiln_webp_strip(data, size, xmp, &object, &object_size, &none) == 0 &&
            is_object(task, object, object_size) &&
            convert(task, object, object_size, &again, &again_size, &none) == 0)
            same = again_size == size && memcmp(again, data, size) == 0;
        free(object);
        free(again);
    }
    return same;
}

/* Whether the file is already there as it should be. */
static bool is_there(const struct kiln_fetch *fetch, const struct task *task)
{
    if (task->as.converted && task->as.format != KILN_PICTURE_WEBP)
        return false;
    size_t size;
    uint8_t *data = read_there(fetch, task,
                               task->object.bytes + (task->as.converted ? METADATA_MAX : 0), &size);
    bool same =
        data && (task->as.converted ? is_annotated(task, data, size) : is_object(task, data, size));
    free(data);
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
    size_t size = task->object.bytes;
    int rc = kept ? 0 : get_whole(store, &task->object, &data, &err);
    /* Then the object itself is bad, not the store as a whole or the file. */
    bool damaged = rc == KILN_NOT_FOUND || rc == KILN_CORRUPT;
    if (data && task->as.converted) {
        uint8_t *made = NULL;
        rc = convert(task, data, size, &made, &size, &err);
        free(data);
        data = rc ? NULL : made;
    }
    if (data)
        rc = kiln_export_dir_may_write(fetch->owner, task->below, &err);
    if (data &&
        rc == 0) /* under a temporary name until it is whole; no fsync: an export can be repeated */
        rc = kiln_part_open_below(&part, fetch->dir, task->below, 0666, &err);
    if (data && rc == 0) {
        rc = kiln_part_write(&part, data, size, &err);
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
    while (task && take(fetch, task, &failed)) { /* after a failure it only empties the queue */
        if (!failed)
            work(fetch, store, task);
        kiln_fetch_as_release(&task->as);
    }
    kiln_store_close(store);
    free(task);
    return NULL;
}

void kiln_fetch_as_release(struct kiln_fetch_as *as)
{
    free(as->parameters);
    free(as->xmp);
    *as = (struct kiln_fetch_as){0};
}

int kiln_fetch_start(const struct kiln_config *config, const char *dir,
                     const struct kiln_export_dir *owner, int threads, struct kiln_fetch **ret,
                     struct kiln_error *err)
{
    struct kiln_fetch *fetch = calloc(1, sizeof *fetch);
    if (!fetch || !(fetch->queue = calloc(QUEUE_MAX, sizeof *fetch->queue))) {
        free(fetch);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to fetch objects");
    }
    fetch->config = config;
    fetch->dir = dir;
    fetch->owner = owner;
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
                   const char *below, struct kiln_fetch_as *as, struct kiln_error *err)
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
        task->as = *as;
        *as = (struct kiln_fetch_as){0};
        pthread_cond_signal(&fetch->work);
    }
    pthread_mutex_unlock(&fetch->lock);
    kiln_fetch_as_release(as);
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
    for (; fetch->count > 0; fetch->count--) /* no fetcher could take them */
        kiln_fetch_as_release(&fetch->queue[fetch->head++ % QUEUE_MAX].as);
    pthread_cond_destroy(&fetch->room);
    pthread_cond_destroy(&fetch->work);
    pthread_mutex_destroy(&fetch->lock);
    free(fetch->queue);
    free(fetch);
    return rc;
}
