/* digest.h - SHA-256 by OpenSSL, initialised once for many short texts. */
#ifndef KILN_DIGEST_H
#define KILN_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KILN_SHA256_SIZE 32

void kiln_sha256(const void *bytes, size_t len, uint8_t ret[KILN_SHA256_SIZE]);
/* A seed for another purpose than that of `seed`: the first 8 bytes, big endian, of
 * SHA-256(purpose, NUL, seed in decimal).  purpose: at most KILN_PURPOSE_MAX bytes. */
#define KILN_PURPOSE_MAX 40
uint64_t kiln_seed_for(const char *purpose, uint64_t seed);
/* Lower-case hex digits of count bytes and a NUL: 2 * count + 1 characters. */
void kiln_hex(const uint8_t *bytes, size_t count, char *out);
/* The other way.  Returns false if hex is not 2 * count lower-case digits and a NUL; ret may have
 * been written to then. */
bool kiln_unhex(const char *hex, size_t count, uint8_t *ret);

#endif
