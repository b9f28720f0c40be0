/* load_ring.h - copies a file to a device through a ring of buffers: several threads read, the
 * caller sends each full buffer, and the device copies it while the next ones are read.
 *
 *     file --pread--> buffer --send--> device        wait: until the buffer may be reused
 *
 * One thread that reads a mapping reaches some 4 GB/s, a fifth of a device's bus.  Readers touch
 * only the buffers; the caller's thread alone calls send and wait.
 */
#ifndef KILN_LOAD_RING_H
#define KILN_LOAD_RING_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define KILN_RING_SLOTS 16
#define KILN_RING_CHUNK ((size_t)4 << 20) /* bytes of a buffer */
#define KILN_RING_READERS 8

/* Where the bytes go. */
struct kiln_ring_sink {
    void *ctx;
    /* KILN_RING_CHUNK bytes, the slot's own until the ring is freed. */
    void *(*buffer)(void *ctx, int slot);
    /* Starts copying `size` bytes of the slot's buffer to byte `at` of what is being loaded. */
    void (*send)(void *ctx, int slot, uint64_t at, size_t size);
    /* Waits for the last send from this slot. */
    void (*wait)(void *ctx, int slot);
};

struct kiln_ring;

/* Takes no more threads than there are cores. */
int kiln_ring_new(const struct kiln_ring_sink *sink, struct kiln_ring **ret,
                  struct kiln_error *err) KILN_MUST_CHECK;
void kiln_ring_free(struct kiln_ring *ring); /* sends may still be under way; accepts NULL */

/* Sends bytes [offset, offset+size) of an open file.  Returns when the last send has been started.
 * KILN_IO, or KILN_CORRUPT where the file ends early; what: its name, for the sentence. */
int kiln_ring_load(struct kiln_ring *ring, int fd, uint64_t offset, uint64_t size, const char *what,
                   struct kiln_error *err) KILN_MUST_CHECK;

#endif
