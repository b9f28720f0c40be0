/* digest.c - fetching the algorithm costs more than hashing a job line, so it is done once. */
#include "schemas/digest.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>

static EVP_MD *sha256;

static void fetch(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

void kiln_sha256(const void *bytes, size_t len, uint8_t ret[KILN_SHA256_SIZE])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fetch);
    /* SHA-256 of memory fails only in a libcrypto without SHA-256 or without memory: a wrong digest
     * would misname objects, so there is nothing to go on with. */
    if (!sha256 || !EVP_Digest(bytes, len, ret, NULL, sha256, NULL))
        abort();
}

void kiln_hex(const uint8_t *bytes, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}
