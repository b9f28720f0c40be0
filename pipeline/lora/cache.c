/* cache.c - a list of images by set, and the prefetch thread; see cache.h.
 *
 * One mutex guards the list; files are read outside of it.  An entry is in the list while its image
 * is made, so that another thread that needs the set waits instead of making it again.  If that
 * fails, the entry is removed and the waiting thread tries itself, so that it gets the error.
 */
#include "pipeline/lora/cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IMAGES_MAX 256
/* Limit of a wait for an image that another thread makes.  The largest sets take a second; longer
 * means that the files do not answer. */
#define WAIT_S_MAX 60

struct entry {
    struct kiln_lora_image image; /* first: an image pointer is its entry */
    size_t bytes;                 /* of host memory */
    uint64_t used;                /* number of the last acquire */
    unsigned users;
    bool ready;
};

struct kiln_lora_cache {
    const struct kiln_param_table *params;
    int device;
    enum kt_dtype dtype;
    size_t bytes_max;
    int wait_s;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* an image is ready or has failed, there is a request, or the end */
    struct entry *entries[IMAGES_MAX];
    size_t count, bytes, made, found;
    uint64_t takes;

    pthread_t thread;
    bool running, ending, requested;
    struct kiln_lora_stack request;
};

struct kiln_lora_cache *kiln_lora_cache_new(const struct kiln_param_table *params, int device,
                                            enum kt_dtype dtype, size_t bytes_max)
{
    struct kiln_lora_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->params = params;
    c->device = device;
    c->dtype = dtype;
    c->bytes_max = bytes_max;
    c->wait_s = WAIT_S_MAX;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &steady);
    pthread_condattr_destroy(&steady);
    return c;
}

/* --- images ----------------------------------------------------------------------------------- */

/* Makes e's image from its files. */
static int make(const struct kiln_lora_cache *c, struct entry *e, struct kiln_error *err)
{
    struct kiln_lora_image *image = &e->image;
    struct kiln_lora_files files;
    int code = kiln_lora_files_open(&files, &image->stack, c->params, err);
    if (code)
        return code;
    const int64_t class = kiln_lora_class(files.rank);
    if (class == 0)
        code =
            kiln_fail(err, KILN_UNSUPPORTED, "LoRA %s: a rank of %lld in all; at most %d",
                      image->stack.loras[0].path, (long long)files.rank, KILN_LORA_BESIDE_RANK_MAX);
    else
        code = kiln_lora_layout_init(&image->layout, c->params, class, c->dtype, err);
    if (!code) {
        image->memory = kt_staging_new(c->device, image->layout.bytes);
        image->touched = calloc(image->layout.count + 1, sizeof *image->touched);
        if (!image->memory || !image->touched)
            code = kiln_fail(err, KILN_NO_MEMORY, "LoRA %s: no memory for %zu bytes of it",
                             image->stack.loras[0].path, image->layout.bytes);
    }
    if (!code)
        code = kiln_lora_layout_fill(&image->layout, &files, kt_staging_data(image->memory),
                                     image->touched, err);
    kiln_lora_files_close(&files);
    e->bytes = image->layout.bytes;
    if (c->device >= 0) /* page-locked memory comes in powers of two */
        for (e->bytes = 4096; e->bytes < image->layout.bytes;)
            e->bytes *= 2;
    return code;
}

/* --- the list, under the lock ----------------------------------------------------------------- */

static struct entry *find(const struct kiln_lora_cache *c, const struct kiln_lora_stack *stack)
{
    for (size_t i = 0; i < c->count; i++)
        if (kiln_lora_stack_same(&c->entries[i]->image.stack, stack))
            return c->entries[i];
    return NULL;
}

static void remove_entry(struct kiln_lora_cache *c, struct entry *e)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->entries[i] == e) {
            c->entries[i] = c->entries[--c->count];
            c->bytes -= e->ready ? e->bytes : 0;
            break;
        }
    kt_staging_free(e->image.memory);
    free(e->image.touched);
    kiln_lora_layout_release(&e->image.layout);
    kiln_lora_stack_release(&e->image.stack);
    free(e);
}

/* Removes the least recently used images without users. */
static void evict(struct kiln_lora_cache *c, size_t bytes_max, size_t count_max)
{
    while (c->bytes > bytes_max || c->count > count_max) {
        struct entry *oldest = NULL;
        for (size_t i = 0; i < c->count; i++) {
            struct entry *e = c->entries[i];
            if (e->ready && e->users == 0 && (!oldest || e->used < oldest->used))
                oldest = e;
        }
        if (!oldest)
            return;
        remove_entry(c, oldest);
    }
}

/* --- acquire and release ---------------------------------------------------------------------- */

/* Makes an image that is not in the list.  Releases the lock meanwhile. */
static int make_new(struct kiln_lora_cache *c, const struct kiln_lora_stack *stack,
                    struct entry **ret, struct kiln_error *err)
{
    evict(c, c->bytes_max, IMAGES_MAX - 1);
    struct entry *e = c->count < IMAGES_MAX ? calloc(1, sizeof *e) : NULL;
    if (!e)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for one more set of LoRAs");
    int code = kiln_lora_stack_copy(stack, &e->image.stack, err);
    if (code) {
        free(e);
        return code;
    }
    c->entries[c->count++] = e;
    e->users = 1;
    pthread_mutex_unlock(&c->lock);
    code = make(c, e, err);
    pthread_mutex_lock(&c->lock);
    pthread_cond_broadcast(&c->changed);
    if (code) {
        remove_entry(c, e);
        return code;
    }
    e->ready = true;
    c->bytes += e->bytes;
    c->made++;
    *ret = e;
    evict(c, c->bytes_max, IMAGES_MAX);
    return 0;
}

void kiln_lora_cache_wait_limit(struct kiln_lora_cache *c, int seconds)
{
    pthread_mutex_lock(&c->lock);
    c->wait_s = seconds;
    pthread_mutex_unlock(&c->lock);
}

int kiln_lora_cache_acquire(struct kiln_lora_cache *c, const struct kiln_lora_stack *stack,
                            const struct kiln_lora_image **ret, struct kiln_error *err)
{
    struct entry *e;
    struct timespec until;
    int code = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    pthread_mutex_lock(&c->lock);
    until.tv_sec += c->wait_s;
    while ((e = find(c, stack)) && !e->ready && !code)
        code = pthread_cond_timedwait(&c->changed, &c->lock, &until) == ETIMEDOUT;
    if (e && !e->ready) {
        code = kiln_fail(err, KILN_TIMEOUT, "LoRA %s: its files are still being read after %d s",
                         stack->loras[0].path, c->wait_s);
    } else if (e) {
        code = 0;
        e->users++;
        c->found++;
    } else {
        code = make_new(c, stack, &e, err);
    }
    if (!code) {
        e->used = ++c->takes;
        *ret = &e->image;
    }
    pthread_mutex_unlock(&c->lock);
    return code;
}

bool kiln_lora_cache_ready(struct kiln_lora_cache *c, const struct kiln_lora_stack *stack)
{
    pthread_mutex_lock(&c->lock);
    const struct entry *e = find(c, stack);
    bool ready = e && e->ready;
    pthread_mutex_unlock(&c->lock);
    return ready;
}

void kiln_lora_cache_release(struct kiln_lora_cache *c, const struct kiln_lora_image *image)
{
    struct entry *e = (struct entry *)image;
    pthread_mutex_lock(&c->lock);
    e->users--;
    evict(c, c->bytes_max, IMAGES_MAX);
    pthread_mutex_unlock(&c->lock);
}

struct kiln_lora_cache_counts kiln_lora_cache_count(struct kiln_lora_cache *c)
{
    pthread_mutex_lock(&c->lock);
    struct kiln_lora_cache_counts counts = {c->count, c->bytes, c->made, c->found};
    pthread_mutex_unlock(&c->lock);
    return counts;
}

/* --- prefetch --------------------------------------------------------------------------------- */

/* Makes the image of each request, until the end. */
static void *prefetch_main(void *arg)
{
    struct kiln_lora_cache *c = arg;
    const struct kiln_lora_image *image;
    struct kiln_error err;
    pthread_mutex_lock(&c->lock);
    while (!c->ending) {
        if (!c->requested) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        struct kiln_lora_stack stack = c->request;
        c->request.count = 0;
        c->requested = false;
        pthread_mutex_unlock(&c->lock);
        if (kiln_lora_cache_acquire(c, &stack, &image, &err) == 0)
            kiln_lora_cache_release(c, image);
        kiln_lora_stack_release(&stack);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

void kiln_lora_cache_prefetch(struct kiln_lora_cache *c, const struct kiln_lora_use *uses,
                              size_t count)
{
    struct kiln_lora_stack stack;
    struct kiln_error err;
    if (count == 0 || kiln_lora_stack_read(uses, count, &stack, &err))
        return;
    pthread_mutex_lock(&c->lock);
    kiln_lora_stack_release(&c->request);
    c->request = stack;
    c->requested = true;
    if (!c->running)
        c->running = pthread_create(&c->thread, NULL, prefetch_main, c) == 0;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void kiln_lora_cache_free(struct kiln_lora_cache *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (c->running)
        pthread_join(c->thread, NULL);
    while (c->count > 0)
        remove_entry(c, c->entries[0]);
    kiln_lora_stack_release(&c->request);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c);
}
