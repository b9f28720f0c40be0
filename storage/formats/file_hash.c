/* file_hash.c - see file_hash.h. */
#include "storage/formats/file_hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "schemas/digest.h"
#include "schemas/limits.h"
#include "storage/formats/regular.h"

#define READ_BYTES (1 << 20)
#define KNOWN_MAX 256 /* files; the least recently used one is replaced */

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

/* False for a file that cannot be read or was changed meanwhile. */
static bool hash_file(int fd, const struct stat *before, char hex[KILN_FILE_HASH_MAX])
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
         kiln_regular_same(before, &after);
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
        if (file->hex[0] && kiln_regular_same(&file->st, st))
            return file;
        if (file->asked < oldest->asked)
            oldest = file;
    }
    oldest->hex[0] = '\0';
    return oldest;
}

bool kiln_file_hash(const char *path, char hex[KILN_FILE_HASH_MAX])
{
    struct stat st;
    int fd;
    if (kiln_regular_open(path, &fd, &st, NULL) != 0)
        return false;
    if ((uint64_t)st.st_size > KILN_LORA_BYTES_MAX) {
        close(fd);
        return false;
    }
    pthread_mutex_lock(&known.mutex);
    struct known_file *file = place_of(&st);
    if (file->hex[0] || hash_file(fd, &st, file->hex)) {
        file->st = st;
        file->asked = ++known.clock;
    }
    memcpy(hex, file->hex, KILN_FILE_HASH_MAX);
    pthread_mutex_unlock(&known.mutex);
    close(fd);
    return hex[0] != '\0';
}
