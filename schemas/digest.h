/* digest.h - SHA-256 by OpenSSL, initialised once for many short texts. */
#ifndef KILN_DIGEST_H
#define KILN_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define KILN_SHA256_SIZE 32

void kiln_sha256(const void *bytes, size_t len, uint8_t ret[KILN_SHA256_SIZE]);
/* Lower-case hex digits of count bytes and a NUL: 2 * count + 1 characters. */
void kiln_hex(const uint8_t *bytes, size_t count, char *out);

#endif
