/* nfc.h - UTF-8 text in Unicode's normal form C as the reference tokenizer does it.
 */
#ifndef KILN_NFC_H
#define KILN_NFC_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

/* NFC of valid UTF-8.  *ret_text is malloc'd and not terminated. */
int kiln_nfc(const uint8_t *text, size_t len, uint8_t **ret_text, size_t *ret_len,
             struct kiln_error *err) KILN_MUST_CHECK;

#endif
