/* own_hashes.c - see own_hashes.h. */
#include "worker/state/own_hashes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "schemas/text/text.h"
#include "storage/formats/regular.h"
#include "storage/formats/replace.h"

#define HEAD "kiln lora_dir hashes 1\n"
#define FILE_MAX (KILN_HEARTBEAT_FILES_MAX * 160) /* bytes */

static void path_of(const struct kiln_own_hashes *own, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.*s/" KILN_OWN_HASHES_NAME, PATH_MAX - 32, own->dir);
}

static uint64_t ns(struct timespec at)
{
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* The state of a file; false: there is none. */
static bool look(const char *path, struct kiln_own_hash *ret)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    *ret = (struct kiln_own_hash){.device = (uint64_t)st.st_dev,
                                  .inode = (uint64_t)st.st_ino,
                                  .size = (uint64_t)st.st_size,
                                  .mtime_ns = ns(st.st_mtim),
                                  .ctime_ns = ns(st.st_ctim)};
    return true;
}

static bool is_same(const struct kiln_own_hash *a, const struct kiln_own_hash *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

static struct kiln_own_hash *find(struct kiln_own_hashes *own, const struct kiln_own_hash *state)
{
    for (uint32_t i = 0; i < own->count; i++)
        if (is_same(&own->at[i], state))
            return &own->at[i];
    return NULL;
}

void kiln_own_hashes_load(struct kiln_own_hashes *own, const char *dir)
{
    char path[PATH_MAX], *text = NULL;
    size_t len;
    struct kiln_error none;
    own->count = 0;
    own->changed = false;
    snprintf(own->dir, sizeof own->dir, "%s", dir);
    path_of(own, path);
    if (kiln_regular_read(path, FILE_MAX, &text, &len, &none))
        return;
    char *rest = text, *line;
    bool good = strncmp(text, HEAD, strlen(HEAD)) == 0 && strlen(text) == len;
    rest += good ? strlen(HEAD) : 0;
    while (good && (line = strsep(&rest, "\n")) != NULL && *line) {
        struct kiln_own_hash at = {0};
        int end = 0;
        good = own->count < KILN_HEARTBEAT_FILES_MAX &&
               sscanf(line,
                      "%20" SCNu64 " %20" SCNu64 " %20" SCNu64 " %20" SCNu64 " %20" SCNu64
                      " %16" SCNx64 "%n",
                      &at.device, &at.inode, &at.size, &at.mtime_ns, &at.ctime_ns, &at.digits,
                      &end) == 6 &&
               line[end] == '\0';
        if (good)
            own->at[own->count++] = at;
    }
    own->count = good ? own->count : 0;
    free(text);
}

uint64_t kiln_own_hashes_find(struct kiln_own_hashes *own, const char *path,
                              struct kiln_own_hash *ret_state)
{
    *ret_state = (struct kiln_own_hash){0};
    struct kiln_own_hash *found = look(path, ret_state) ? find(own, ret_state) : NULL;
    if (!found)
        return 0;
    found->asked = true;
    return found->digits;
}

void kiln_own_hashes_put(struct kiln_own_hashes *own, const char *path,
                         const struct kiln_own_hash *state, uint64_t digits)
{
    struct kiln_own_hash now;
    if (digits == 0 || own->count == KILN_HEARTBEAT_FILES_MAX || !look(path, &now) ||
        !is_same(&now, state) || find(own, &now))
        return;
    now.digits = digits;
    now.asked = true;
    own->at[own->count++] = now;
    own->changed = true;
}

void kiln_own_hashes_save(struct kiln_own_hashes *own)
{
    struct kiln_text out = {0};
    struct kiln_error none;
    char path[PATH_MAX];
    uint32_t kept = 0;
    kiln_text_puts(&out, HEAD);
    for (uint32_t i = 0; i < own->count; i++) {
        struct kiln_own_hash at = own->at[i];
        own->changed |= !at.asked;
        if (!at.asked)
            continue;
        at.asked = false;
        own->at[kept++] = at;
        kiln_text_printf(
            &out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
            at.device, at.inode, at.size, at.mtime_ns, at.ctime_ns, at.digits);
    }
    own->count = kept;
    path_of(own, path);
    if (own->changed && !out.failed) {
        (void)mkdir(own->dir, 0755);
        (void)!kiln_replace_bytes(path, out.at, out.len, 0644, &none);
    }
    own->changed = false;
    kiln_text_release(&out);
}
