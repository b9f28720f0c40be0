/* inventory.c - the thread that looks which LoRA files are on this machine, for the heartbeats.
 *
 * The scheduler prefers a worker that has a file over one that must fetch it.  The files of the
 * disk cache come first, the last used ones before others, then those of lora_dir by name.  A file
 * of lora_dir is read once for its hash (storage/formats/file_hash.h), not again after a restart
 * (own_hashes.h).  Nothing waits for this thread: a slow disk delays the list and nothing else, and
 * a worker that drains reads no file to its end.  Until all files have been read once the worker
 * tells no list, so that none counts as missing by mistake.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/clock.h"
#include "schemas/job/inputs.h"
#include "schemas/limits.h"
#include "storage/formats/file_hash.h"
#include "worker/stages/lora_files.h"
#include "worker/state/own_hashes.h"
#include "worker/state/worker.h"

#define LOOK_MS 2000
/* One file is read at a time: after one that was, a job that waits for the hash of its own goes
 * first. */
#define READ_MS 2.0
#define GIVE_WAY_MS 20

struct inventory {
    uint64_t files[KILN_HEARTBEAT_FILES_MAX];
    uint32_t count;
};

static int is_lora(const struct dirent *entry)
{
    return kiln_lora_stem(entry->d_name) > 0;
}

static bool ends(const struct kiln_worker *worker)
{
    return kiln_worker_drain(worker) != KILN_DRAIN_NO;
}

/* Up to the bound, so that of a huge directory no more files are read. */
static void add_own(struct kiln_worker *worker, struct kiln_own_hashes *own,
                    struct inventory *inventory)
{
    char dir[KILN_LORA_PATH_MAX], path[2 * KILN_LORA_PATH_MAX], hex[KILN_FILE_HASH_MAX];
    struct dirent **entries = NULL;
    kiln_config_lora_dir(worker->config, dir, sizeof dir);
    const int count = dir[0] ? scandir(dir, &entries, is_lora, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        free(entries[i]);
        if (ends(worker) || inventory->count == KILN_HEARTBEAT_FILES_MAX)
            continue;
        struct kiln_own_hash state;
        uint64_t digits = kiln_own_hashes_find(own, path, &state);
        const double began_ms = kiln_monotonic_ms();
        if (!digits && kiln_file_hash_until(path, KILN_LORA_BYTES_MAX, &worker->drain, hex)) {
            digits = kiln_lora_digits(hex);
            kiln_own_hashes_put(own, path, &state, digits);
        }
        if (digits)
            inventory->files[inventory->count++] = digits;
        if (kiln_monotonic_ms() - began_ms > READ_MS)
            kiln_worker_pause(worker, GIVE_WAY_MS);
    }
    free(entries);
}

void *kiln_inventory(void *arg)
{
    struct kiln_worker *worker = arg;
    struct inventory inventory;
    struct kiln_own_hashes own;
    kiln_own_hashes_load(&own, kiln_config_text(worker->config, KILN_KEY_LORA_CACHE_DIR));
    while (!ends(worker)) {
        inventory.count =
            kiln_lora_disk_list(worker->lora_disk, inventory.files, KILN_HEARTBEAT_FILES_MAX);
        add_own(worker, &own, &inventory);
        if (!ends(worker)) {
            kiln_board_files(&worker->board, inventory.files, inventory.count);
            kiln_own_hashes_save(&own);
        }
        kiln_worker_pause(worker, LOOK_MS);
    }
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
