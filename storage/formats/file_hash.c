/* file_hash.c - see file_hash.h. */
#include "storage/formats/file_hash.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "schemas/digest.h"
#include "storage/formats/regular.h"

#define READ_BYTES (1 << 20)
/* Files; the least recently used one is replaced.  Far more than a heartbeat names: who asks for
 * all of these in turn reads none of them again. */
#define KNOWN_MAX 1024

_Static_assert(KILN_FILE_HASH_MAX == 2 * KILN_SHA256_SIZE + 1, "hex digits and a NUL");

struct known_file {
    struct stat st;
    char hex[KILN_FILE_HASH_MAX]; /* "": a free place */
    uint64_t asked;               /* the table's clock at the last request */
};

/* One table for the process. */
static struct {
    pthread_mutex_t mutex;
    struct known_file files[KNOWN_MAX];
    uint64_t clock;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Held while a file is read, so that no file is read twice; nobody waits for it who asks for a file
 * in the table. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

/* False for a file that cannot be read or was changed meanwhile, and if *ends became not 0. */
static bool hash_file(int fd, const struct stat *before, const _Atomic int *ends,
                      char hex[KILN_FILE_HASH_MAX])
{
    struct stat after;
    uint8_t digest[KILN_SHA256_SIZE], *room = malloc(READ_BYTES);
    EVP_MD_CTX *sum = EVP_MD_CTX_new();
    bool ok = room && sum && EVP_DigestInit_ex(sum, EVP_sha256(), NULL) == 1;
    for (ssize_t n = 1; ok && n != 0;) {
        n = read(fd, room, READ_BYTES);
        ok = n < 0 ? errno == EINTR : EVP_DigestUpdate(sum, room, (size_t)n) == 1;
        ok = ok && !(ends && atomic_load(ends) != 0);
    }
    ok = ok && EVP_DigestFinal_ex(sum, digest, NULL) == 1 && fstat(fd, &after) == 0 &&
         kiln_regular_same(before, &after);
    if (ok)
        kiln_hex(digest, sizeof digest, hex);
    EVP_MD_CTX_free(sum);
    free(room);
    return ok;
}

/* Whether the table has the file in this state. */
static bool recall(const struct stat *st, char hex[KILN_FILE_HASH_MAX])
{
    bool found = false;
    pthread_mutex_lock(&known.mutex);
    for (size_t i = 0; i < KNOWN_MAX && !found; i++) {
        struct known_file *file = &known.files[i];
        found = file->hex[0] && kiln_regular_same(&file->st, st);
        if (found) {
            file->asked = ++known.clock;
            memcpy(hex, file->hex, KILN_FILE_HASH_MAX);
        }
    }
    pthread_mutex_unlock(&known.mutex);
    return found;
}

static void keep(const struct stat *st, const char hex[KILN_FILE_HASH_MAX])
{
    pthread_mutex_lock(&known.mutex);
    struct known_file *oldest = &known.files[0];
    for (size_t i = 1; i < KNOWN_MAX; i++)
        if (known.files[i].asked < oldest->asked)
            oldest = &known.files[i];
    oldest->st = *st;
    oldest->asked = ++known.clock;
    memcpy(oldest->hex, hex, KILN_FILE_HASH_MAX);
    pthread_mutex_unlock(&known.mutex);
}

bool kiln_file_hash(const char *path, uint64_t max, char hex[KILN_FILE_HASH_MAX])
{
    return kiln_file_hash_until(path, max, NULL, hex);
}

bool kiln_file_hash_until(const char *path, uint64_t max, const _Atomic int *ends,
                          char hex[KILN_FILE_HASH_MAX])
{
    struct stat st;
    int fd;
    if (kiln_regular_open(path, &fd, &st, NULL) != 0)
        return false;
    const bool fits = (uint64_t)st.st_size <= max;
    bool ok = fits && recall(&st, hex);
    if (!ok && fits) {
        pthread_mutex_lock(&reading);
        ok = recall(&st, hex);
        if (!ok && (ok = hash_file(fd, &st, ends, hex)))
            keep(&st, hex);
        pthread_mutex_unlock(&reading);
    }
    close(fd);
    return ok;
}

static int is_weights(const struct dirent *d)
{
    const size_t len = strlen(d->d_name), end = strlen(".safetensors");
    return d->d_name[0] != '.' && len > end && strcmp(d->d_name + len - end, ".safetensors") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

bool kiln_folder_hash(const char *dir, char hex[KILN_FILE_HASH_MAX])
{
    char path[PATH_MAX], line[KILN_FILE_HASH_MAX + sizeof(((struct dirent *)0)->d_name) + 4];
    struct dirent **files = NULL;
    uint8_t digest[KILN_SHA256_SIZE];
    const int count = scandir(dir, &files, is_weights, by_bytes);
    EVP_MD_CTX *sum = EVP_MD_CTX_new();
    bool ok = count > 0 && sum && EVP_DigestInit_ex(sum, EVP_sha256(), NULL) == 1;
    for (int i = 0; i < count; i++) {
        char own[KILN_FILE_HASH_MAX];
        const int len = snprintf(path, sizeof path, "%s/%s", dir, files[i]->d_name);
        ok = ok && len > 0 && (size_t)len < sizeof path && kiln_file_hash(path, UINT64_MAX, own);
        if (ok) {
            const int size = snprintf(line, sizeof line, "%s  %s\n", own, files[i]->d_name);
            ok = EVP_DigestUpdate(sum, line, (size_t)size) == 1;
        }
        free(files[i]);
    }
    free(files);
    ok = ok && EVP_DigestFinal_ex(sum, digest, NULL) == 1;
    if (ok)
        kiln_hex(digest, sizeof digest, hex);
    EVP_MD_CTX_free(sum);
    return ok;
}
