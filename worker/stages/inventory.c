/* inventory.c - the thread that looks which LoRA files are on this machine, for the heartbeats.
 *
 * The scheduler prefers a worker that has a file over one that must fetch it.  The files of the
 * disk cache come first, the last used ones before others, then those of lora_dir by name.  A file
 * of lora_dir is read once for its hash (storage/formats/file_hash.h), which its first job needs
 * anyway. Nothing waits for this thread: a slow disk delays the list and nothing else.  Until all
 * files have been read once the worker tells no list, so that none counts as missing by mistake.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/limits.h"
#include "schemas/names.h"
#include "storage/formats/file_hash.h"
#include "worker/stages/lora_files.h"
#include "worker/state/worker.h"

#define LOOK_MS 2000
#define SUFFIX ".safetensors"

struct inventory {
    uint64_t files[KILN_HEARTBEAT_FILES_MAX];
    uint32_t count;
};

static int is_lora(const struct dirent *entry)
{
    const size_t len = strlen(entry->d_name), suffix = sizeof SUFFIX - 1;
    return len > suffix && strcmp(entry->d_name + len - suffix, SUFFIX) == 0 &&
           kiln_name_valid(entry->d_name, len - suffix, KILN_NAME_MAX);
}

static bool ends(const struct kiln_worker *worker)
{
    return kiln_worker_drain(worker) != KILN_DRAIN_NO;
}

/* Up to the bound, so that of a huge directory no more files are read. */
static void add_own(const struct kiln_worker *worker, struct inventory *inventory)
{
    char dir[KILN_LORA_PATH_MAX], path[2 * KILN_LORA_PATH_MAX], hex[KILN_FILE_HASH_MAX];
    struct dirent **entries = NULL;
    kiln_config_lora_dir(worker->config, dir, sizeof dir);
    const int count = dir[0] ? scandir(dir, &entries, is_lora, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        free(entries[i]);
        if (!ends(worker) && inventory->count < KILN_HEARTBEAT_FILES_MAX &&
            kiln_file_hash(path, KILN_LORA_BYTES_MAX, hex))
            inventory->files[inventory->count++] = kiln_lora_digits(hex);
    }
    free(entries);
}

void *kiln_inventory(void *arg)
{
    struct kiln_worker *worker = arg;
    struct inventory inventory;
    while (!ends(worker)) {
        inventory.count =
            kiln_lora_disk_list(worker->lora_disk, inventory.files, KILN_HEARTBEAT_FILES_MAX);
        add_own(worker, &inventory);
        if (!ends(worker))
            kiln_board_files(&worker->board, inventory.files, inventory.count);
        kiln_worker_pause(worker, LOOK_MS);
    }
    atomic_fetch_sub(&worker->threads, 1);
    return NULL;
}
