/* digest.c - fetching the algorithm costs more than hashing a job line, so it is done once. */
#include "schemas/digest.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
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

uint64_t kiln_seed_for(const char *purpose, uint64_t seed)
{
    uint8_t digest[KILN_SHA256_SIZE];
    char text[KILN_PURPOSE_MAX + 24];
    uint64_t ret = 0;
    const int len = snprintf(text, sizeof text, "%s%c%" PRIu64, purpose, '\0', seed);
    if ((size_t)len >= sizeof text)
        abort(); /* another seed would be another picture */
    kiln_sha256(text, (size_t)len, digest);
    for (int i = 0; i < 8; i++)
        ret = ret << 8 | digest[i];
    return ret;
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

bool kiln_unhex(const char *hex, size_t count, uint8_t *ret)
{
    /* One more than the value, so that 0 is not a digit: a gallery reads hundreds of megabytes. */
    static const uint8_t values[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
        ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
        ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16};
    const unsigned char *at = (const unsigned char *)hex;
    for (size_t i = 0; i < count; i++, at += 2) {
        if (!values[at[0]] || !values[at[1]])
            return false;
        ret[i] = (uint8_t)((values[at[0]] - 1) << 4 | (values[at[1]] - 1));
    }
    return *at == '\0';
}
