/* near.c - see near.h.
 *
 * Rows are in no order; a new picture takes the row of one that went.
 */
#include "scheduler/gallery/alike/near.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vectors/scan.h"
#include "scheduler/policy/slots.h" /* kiln_hash_u64 */
#include "schemas/places.h"
#include "schemas/room.h"
#include "storage/formats/pictures/pdq.h"

#define WORDS (KILN_FINGERPRINT_HASH_BYTES / 8)
#define BLOCK 4096 /* hashes that are compared at a time */

struct hash {
    uint64_t words[WORDS];
};

struct kiln_near {
    pthread_rwlock_t lock;
    struct hash *hashes;
    uint64_t *jobs;
    size_t hash_room, job_room;
    struct kiln_places by_job;
    uint32_t rows;        /* up to the last one that was in use; those of job 0 are free */
    uint32_t free, count; /* the first free row, and how many are in use */
};

int kiln_near_new(struct kiln_near **ret, struct kiln_error *err)
{
    struct kiln_near *near = calloc(1, sizeof *near);
    if (!near)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the hashes of the gallery");
    near->free = KILN_PLACES_NONE;
    pthread_rwlock_init(&near->lock, NULL);
    *ret = near;
    return 0;
}

void kiln_near_free(struct kiln_near *near)
{
    if (!near)
        return;
    pthread_rwlock_destroy(&near->lock);
    kiln_places_release(&near->by_job);
    free(near->hashes), free(near->jobs);
    free(near);
}

bool kiln_near_tells(const struct kiln_fingerprint *print)
{
    return print->quality >= KILN_PDQ_QUALITY_MIN;
}

/* --- rows ------------------------------------------------------------------------------------- */
static uint32_t find(const struct kiln_near *near, uint64_t job)
{
    uint32_t place = kiln_hash_u64(job), row;
    while ((row = kiln_places_look(&near->by_job, &place)) != KILN_PLACES_NONE)
        if (near->jobs[row] == job)
            break;
    return row;
}

static bool hash_at(const void *things, uint32_t row, uint32_t *ret)
{
    const struct kiln_near *near = things;
    *ret = kiln_hash_u64(near->jobs[row]);
    return near->jobs[row] != 0;
}

/* Room for a picture: in a row and in the table. */
static bool grow(struct kiln_near *near)
{
    if (near->free == KILN_PLACES_NONE) {
        struct hash *hashes = kiln_room(near->hashes, near->rows, &near->hash_room, sizeof *hashes);
        near->hashes = hashes ? hashes : near->hashes;
        uint64_t *jobs = kiln_room(near->jobs, near->rows, &near->job_room, sizeof *jobs);
        near->jobs = jobs ? jobs : near->jobs;
        if (!hashes || !jobs)
            return false;
    }
    return kiln_places_fit(&near->by_job, near, near->rows, hash_at);
}

/* The row is the first free one, whose hash says which the next free one is. */
static void remove_row(struct kiln_near *near, uint32_t row)
{
    near->jobs[row] = 0;
    near->hashes[row].words[0] = near->free;
    near->free = row;
    near->count--;
}

static uint32_t take_row(struct kiln_near *near)
{
    const uint32_t row = near->free == KILN_PLACES_NONE ? near->rows++ : near->free;
    if (row == near->free)
        near->free = (uint32_t)near->hashes[row].words[0];
    near->count++;
    return row;
}

static bool put(struct kiln_near *near, const struct kiln_fingerprint *print)
{
    uint32_t row = find(near, print->job);
    if (!kiln_near_tells(print)) {
        if (row != KILN_PLACES_NONE)
            remove_row(near, row);
        return true;
    }
    if (row == KILN_PLACES_NONE) {
        if (near->count == KILN_NEAR_MOST)
            return true;
        if (!grow(near))
            return false;
        row = take_row(near);
        near->jobs[row] = print->job;
        kiln_places_add(&near->by_job, kiln_hash_u64(print->job), row);
    }
    memcpy(&near->hashes[row], print->hash, sizeof near->hashes[row]);
    return true;
}

int kiln_near_put(struct kiln_near *near, const struct kiln_fingerprint *print,
                  struct kiln_error *err)
{
    pthread_rwlock_wrlock(&near->lock);
    const bool done = put(near, print);
    pthread_rwlock_unlock(&near->lock);
    return done ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the hashes of the gallery");
}

void kiln_near_remove(struct kiln_near *near, uint64_t job)
{
    pthread_rwlock_wrlock(&near->lock);
    const uint32_t row = find(near, job);
    if (row != KILN_PLACES_NONE)
        remove_row(near, row);
    pthread_rwlock_unlock(&near->lock);
}

uint32_t kiln_near_count(struct kiln_near *near)
{
    pthread_rwlock_rdlock(&near->lock);
    const uint32_t count = near->count;
    pthread_rwlock_unlock(&near->lock);
    return count;
}

/* --- looking up ------------------------------------------------------------------------------- */
static bool is_before(const struct kiln_near_hit *a, const struct kiln_near_hit *b)
{
    return a->distance != b->distance ? a->distance < b->distance : a->job > b->job;
}

/* Into the first `count` hits, which are in order; returns how many there are then. */
static uint32_t insert(struct kiln_near_hit *hits, uint32_t count, uint32_t most,
                       struct kiln_near_hit hit)
{
    if (count == most && !is_before(&hit, &hits[count - 1]))
        return count;
    uint32_t at = count < most ? count : count - 1;
    for (; at > 0 && is_before(&hit, &hits[at - 1]); at--)
        hits[at] = hits[at - 1];
    hits[at] = hit;
    return count < most ? count + 1 : count;
}

/* In the order of the rows: a gallery takes its pictures from the newest to the oldest, so of many
 * with the same hash each later one finds its place behind all others. */
static uint32_t scan(const struct kiln_near *near, const uint64_t wanted[WORDS], uint64_t own,
                     struct kiln_near_hit *ret, uint32_t most)
{
    uint16_t distances[BLOCK];
    uint32_t picked[BLOCK], count = 0;
    for (uint32_t begin = 0; begin < near->rows; begin += BLOCK) {
        const uint32_t rows = near->rows - begin < BLOCK ? near->rows - begin : BLOCK;
        kiln_scan_hashes(near->hashes[begin].words, rows, WORDS, wanted, distances);
        const int64_t found =
            kiln_scan_below(distances, NULL, rows, KILN_PDQ_NEAR + 1, 0, picked, BLOCK);
        for (int64_t i = 0; i < found; i++) {
            const uint64_t job = near->jobs[begin + picked[i]];
            if (job != 0 && job != own)
                count = insert(ret, count, most, (struct kiln_near_hit){job, distances[picked[i]]});
        }
    }
    return count;
}

uint32_t kiln_near_find(struct kiln_near *near, const struct kiln_fingerprint *print,
                        struct kiln_near_hit *ret, uint32_t most)
{
    uint64_t wanted[WORDS];
    if (!kiln_near_tells(print) || most == 0)
        return 0;
    memcpy(wanted, print->hash, sizeof wanted);
    pthread_rwlock_rdlock(&near->lock);
    const uint32_t count = scan(near, wanted, print->job, ret, most);
    pthread_rwlock_unlock(&near->lock);
    return count;
}
