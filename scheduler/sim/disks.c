/* disks.c - see disks.h. */
#include "scheduler/sim/disks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kiln_disks {
    uint32_t room;
    uint32_t *counts; /* of each worker */
    uint64_t *files;  /* [workers][room], the last used first */
};

struct kiln_disks *kiln_disks_new(uint32_t workers, uint32_t files)
{
    struct kiln_disks *disks = calloc(1, sizeof *disks);
    if (!disks)
        return NULL;
    disks->room = files;
    disks->counts = calloc(workers, sizeof *disks->counts);
    disks->files = calloc((size_t)workers * files, sizeof *disks->files);
    if (disks->counts && disks->files)
        return disks;
    kiln_disks_free(disks);
    return NULL;
}

void kiln_disks_free(struct kiln_disks *disks)
{
    if (!disks)
        return;
    free(disks->counts);
    free(disks->files);
    free(disks);
}

/* The next name of a set and the hash of its file; false behind the last one. */
static bool next_file(const char **at, const char **ret_name, size_t *ret_len, uint64_t *ret_file)
{
    if (!**at)
        return false;
    *ret_name = *at;
    *ret_len = strcspn(*at, "+");
    *ret_file =
        (uint64_t)kiln_hash_bytes(1, *at, *ret_len) << 32 | kiln_hash_bytes(2, *at, *ret_len);
    *at += *ret_len + ((*at)[*ret_len] == '+');
    return true;
}

/* The file becomes the one that was used last; false: it is not there, and with `fetch` it comes,
 * in place of the one that was used longest ago. */
static bool touch(struct kiln_disks *disks, uint32_t worker, uint64_t file, bool fetch)
{
    uint64_t *files = disks->files + (size_t)worker * disks->room;
    uint32_t *count = &disks->counts[worker], at = 0;
    while (at < *count && files[at] != file)
        at++;
    const bool there = at < *count;
    if (!there && !fetch)
        return false;
    if (!there && *count < disks->room)
        ++*count;
    else if (!there)
        at--;
    memmove(files + 1, files, at * sizeof *files);
    files[0] = file;
    return there;
}

/* Those that are there first, so that none of the set makes room for another one of it. */
uint32_t kiln_disks_use(struct kiln_disks *disks, uint32_t worker, const char *set)
{
    const char *name, *at = set;
    size_t len;
    uint64_t file;
    uint32_t missing = 0;
    while (next_file(&at, &name, &len, &file))
        (void)touch(disks, worker, file, false);
    while (next_file(&set, &name, &len, &file))
        missing += !touch(disks, worker, file, true);
    return missing;
}

const uint64_t *kiln_disks_files(const struct kiln_disks *disks, uint32_t worker,
                                 uint32_t *ret_count)
{
    *ret_count = disks->counts[worker];
    return disks->files + (size_t)worker * disks->room;
}

void kiln_disks_set_text(const char *set, char *out, size_t size)
{
    const char *name, *between = "";
    size_t len, at = 0;
    uint64_t file;
    out[0] = '\0';
    while (at < size && next_file(&set, &name, &len, &file)) {
        at += (size_t)snprintf(out + at, size - at, "%s%.*s@%016llx", between, (int)len, name,
                               (unsigned long long)file);
        between = "+";
    }
}
