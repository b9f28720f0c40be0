/* load_ring.c - several threads read ahead; see load_ring.h.
 *
 * Chunks are numbered over the ring's life; chunk n uses slot n % KILN_RING_SLOTS.  The state is
 * three numbers:
 *
 *     sent <= taken <= requested <= sent + KILN_RING_SLOTS
 *
 * Chunks below `sent` have gone to the device.  Chunks up to `taken` are being read or have been.
 * Chunks up to `requested` wait for a reader.  The caller requests and sends, in order; readers
 * take. One mutex guards the numbers and the slots; nobody holds it while reading, sending or
 * waiting for the device.
 */
#include "pipeline/weights/load_ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One chunk: what to read, and how that went. */
struct slot {
    int fd;
    uint64_t offset, at; /* in the file; of what is being loaded */
    size_t size;
    bool done;
    int error; /* errno, or -1 where the file ended */
};

struct kiln_ring {
    struct kiln_ring_sink sink;
    struct slot slots[KILN_RING_SLOTS];
    uint64_t requested, taken, sent;
    bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t readers[KILN_RING_READERS];
    int reader_count;
};

/* --- readers ---------------------------------------------------------------------------------- */

/* 0, errno, or -1 at the end of the file. */
static int read_chunk(const struct slot *slot, char *buffer)
{
    for (size_t got = 0; got < slot->size;) {
        ssize_t n = pread(slot->fd, buffer + got, slot->size - got, (off_t)(slot->offset + got));
        if (n == 0)
            return -1;
        if (n < 0 && errno != EINTR)
            return errno;
        got += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void *reader_main(void *arg)
{
    struct kiln_ring *ring = arg;
    pthread_mutex_lock(&ring->lock);
    for (;;) {
        while (!ring->stop && ring->taken == ring->requested)
            pthread_cond_wait(&ring->work, &ring->lock);
        if (ring->stop)
            break;
        int at = (int)(ring->taken++ % KILN_RING_SLOTS);
        struct slot *slot = &ring->slots[at];
        pthread_mutex_unlock(&ring->lock);
        int error = read_chunk(slot, ring->sink.buffer(ring->sink.ctx, at));
        pthread_mutex_lock(&ring->lock);
        slot->error = error;
        slot->done = true;
        pthread_cond_signal(&ring->done);
    }
    pthread_mutex_unlock(&ring->lock);
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------------- */

int kiln_ring_new(const struct kiln_ring_sink *sink, struct kiln_ring **ret, struct kiln_error *err)
{
    struct kiln_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read weights");
    ring->sink = *sink;
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->work, NULL);
    pthread_cond_init(&ring->done, NULL);
    int error = 0;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const long count = cores < 1 ? 1 : cores < KILN_RING_READERS ? cores : KILN_RING_READERS;
    for (long i = 0; i < count && !error; i++) {
        error = pthread_create(&ring->readers[ring->reader_count], NULL, reader_main, ring);
        ring->reader_count += error == 0;
    }
    if (ring->reader_count == 0) {
        kiln_ring_free(ring);
        return kiln_fail(err, KILN_NO_MEMORY, "no thread to read weights: %s", strerror(error));
    }
    *ret = ring;
    return 0;
}

void kiln_ring_free(struct kiln_ring *ring)
{
    if (!ring)
        return;
    pthread_mutex_lock(&ring->lock);
    ring->stop = true;
    pthread_cond_broadcast(&ring->work);
    pthread_mutex_unlock(&ring->lock);
    for (int i = 0; i < ring->reader_count; i++)
        pthread_join(ring->readers[i], NULL);
    pthread_cond_destroy(&ring->done);
    pthread_cond_destroy(&ring->work);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

/* --- loading ---------------------------------------------------------------------------------- */

/* Gives the readers one more chunk, when its slot is free of the device. */
static void request(struct kiln_ring *ring, const struct slot *chunk)
{
    int at = (int)(ring->requested % KILN_RING_SLOTS);
    if (ring->requested >= KILN_RING_SLOTS)
        ring->sink.wait(ring->sink.ctx, at);
    pthread_mutex_lock(&ring->lock);
    ring->slots[at] = *chunk;
    ring->requested++;
    pthread_cond_signal(&ring->work);
    pthread_mutex_unlock(&ring->lock);
}

/* Waits for the oldest chunk and sends it, unless its reading or an earlier one has failed. */
static int send_oldest(struct kiln_ring *ring, bool failed)
{
    int at = (int)(ring->sent % KILN_RING_SLOTS);
    struct slot *slot = &ring->slots[at];
    pthread_mutex_lock(&ring->lock);
    while (!slot->done)
        pthread_cond_wait(&ring->done, &ring->lock);
    pthread_mutex_unlock(&ring->lock);
    if (!slot->error && !failed)
        ring->sink.send(ring->sink.ctx, at, slot->at, slot->size);
    ring->sent++;
    return slot->error;
}

int kiln_ring_load(struct kiln_ring *ring, int fd, uint64_t offset, uint64_t size, const char *what,
                   struct kiln_error *err)
{
    int error = 0;
    uint64_t at = 0;
    while (at < size || ring->sent < ring->requested) {
        while (at < size && !error && ring->requested < ring->sent + KILN_RING_SLOTS) {
            size_t part = size - at < KILN_RING_CHUNK ? (size_t)(size - at) : KILN_RING_CHUNK;
            request(ring, &(struct slot){.fd = fd, .offset = offset + at, .at = at, .size = part});
            at += part;
        }
        if (ring->sent == ring->requested)
            break;
        int failed = send_oldest(ring, error != 0);
        error = error ? error : failed;
    }
    if (error < 0)
        return kiln_fail(err, KILN_CORRUPT, "%s ends early: it was cut while it was read", what);
    if (error)
        return kiln_fail(err, KILN_IO, "read %s: %s", what, strerror(error));
    return 0;
}
