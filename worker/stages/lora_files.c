/* lora_files.c - see lora_files.h. */
#include "worker/stages/lora_files.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "schemas/digest.h"
#include "storage/formats/regular.h"

#define READ_BYTES (1 << 20)
#define KNOWN_MAX 256 /* files; the least recently used one is replaced */
#define HEX_MAX (2 * KILN_SHA256_SIZE + 1)

/* The intake has checked the names, so they cannot leave the directory. */
void kiln_lora_paths_fill(struct kiln_lora_paths *p, const struct kiln_config *config,
                          const struct kiln_assignment *assignment)
{
    const char *dir = kiln_config_text(config, KILN_KEY_LORA_DIR);
    p->count = (int32_t)assignment->lora_count;
    for (uint32_t i = 0; i < assignment->lora_count; i++) {
        snprintf(p->paths[i], KILN_LORA_PATH_MAX, "%s%s/%s.safetensors",
                 dir[0] ? dir : kiln_config_text(config, KILN_KEY_MODEL), dir[0] ? "" : "/loras",
                 assignment->loras[i].name);
        p->loras[i].path = p->paths[i];
        p->loras[i].weight = (float)assignment->loras[i].scale;
    }
}

/* --- hashes ----------------------------------------------------------------------------------- */

struct known_file {
    struct stat st;
    char hex[HEX_MAX]; /* "": a free place */
    uint64_t asked;    /* the table's clock at the last request */
};

/* One table for the process. */
static struct {
    pthread_mutex_t mutex;
    struct known_file files[KNOWN_MAX];
    uint64_t clock;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ctime too: whoever rewrites a file can set its mtime back. */
static bool same_state(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* False for a file that cannot be read or was changed meanwhile. */
static bool hash_file(int fd, const struct stat *before, char hex[HEX_MAX])
{
    struct stat after;
    uint8_t digest[KILN_SHA256_SIZE], *room = malloc(READ_BYTES);
    EVP_MD_CTX *sum = EVP_MD_CTX_new();
    bool ok = room && sum && EVP_DigestInit_ex(sum, EVP_sha256(), NULL) == 1;
    for (ssize_t n = 1; ok && n != 0;) {
        n = read(fd, room, READ_BYTES);
        ok = n < 0 ? errno == EINTR : EVP_DigestUpdate(sum, room, (size_t)n) == 1;
    }
    ok = ok && EVP_DigestFinal_ex(sum, digest, NULL) == 1 && fstat(fd, &after) == 0 &&
         same_state(before, &after);
    if (ok)
        kiln_hex(digest, sizeof digest, hex);
    EVP_MD_CTX_free(sum);
    free(room);
    return ok;
}

/* The row of a file in this state, or the row to use for it. */
static struct known_file *place_of(const struct stat *st)
{
    struct known_file *oldest = &known.files[0];
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        struct known_file *file = &known.files[i];
        if (file->hex[0] && same_state(&file->st, st))
            return file;
        if (file->asked < oldest->asked)
            oldest = file;
    }
    oldest->hex[0] = '\0';
    return oldest;
}

static bool hash_of(const char *path, char hex[HEX_MAX])
{
    struct stat st;
    int fd;
    if (kiln_regular_open(path, &fd, &st, NULL) != 0)
        return false;
    pthread_mutex_lock(&known.mutex);
    struct known_file *file = place_of(&st);
    if (file->hex[0] || hash_file(fd, &st, file->hex)) {
        file->st = st;
        file->asked = ++known.clock;
    }
    memcpy(hex, file->hex, HEX_MAX);
    pthread_mutex_unlock(&known.mutex);
    close(fd);
    return hex[0] != '\0';
}

/* The LoRA whose name comes next behind `after`, or -1. */
static int next_by_name(const struct kiln_assignment *assignment, const char *after)
{
    int next = -1;
    for (uint32_t i = 0; i < assignment->lora_count; i++) {
        const char *name = assignment->loras[i].name;
        if (strcmp(name, after) > 0 && (next < 0 || strcmp(name, assignment->loras[next].name) < 0))
            next = (int)i;
    }
    return next;
}

bool kiln_lora_files_text(const struct kiln_lora_paths *paths,
                          const struct kiln_assignment *assignment, char out[KILN_LORA_FILES_MAX])
{
    char hex[HEX_MAX];
    size_t len = 0;
    const char *name = "";
    out[0] = '\0';
    for (int i; (i = next_by_name(assignment, name)) >= 0;) {
        name = assignment->loras[i].name;
        if (!hash_of(paths->paths[i], hex)) {
            out[0] = '\0';
            return false;
        }
        len += (size_t)snprintf(out + len, KILN_LORA_FILES_MAX - len, "%s%s:%s", len ? "+" : "",
                                name, hex);
    }
    return true;
}
