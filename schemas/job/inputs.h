/* inputs.h - the keys of files that jobs need, in the object store: pictures that runs start from,
 * and LoRAs.
 *
 * Such a file is stored once, under the SHA-256 of its bytes.  A job line on the bus can name no
 * picture otherwise, so it never names a file of the scheduler's or a worker's machine.
 */
#ifndef KILN_INPUTS_H
#define KILN_INPUTS_H

#include <stdbool.h>
#include <stddef.h>

#define KILN_INPUTS_PREFIX "inputs/"
#define KILN_INPUT_KEY_FORM "\"inputs/<sha256>.<webp|png|jpg>\""
#define KILN_INPUT_KEY_MAX 80 /* bytes with the NUL */

/* Whether a key is "inputs/", 64 hex digits in lower case, and ".webp", ".png" or ".jpg". */
bool kiln_input_key_valid(const char *key);

#define KILN_LORAS_PREFIX "loras/"
#define KILN_LORA_SHA256_MAX 65 /* hex digits and a NUL */
#define KILN_LORA_KEY_MAX 88    /* bytes with the NUL */

/* Whether text is 64 hex digits in lower case. */
bool kiln_sha256_valid(const char *text);
/* "loras/<sha256>.safetensors" of valid digits. */
void kiln_lora_key(const char *sha256, char out[KILN_LORA_KEY_MAX]);
bool kiln_lora_key_valid(const char *key);
/* The length of NAME if this is NAME.safetensors, the name of a LoRA's file in a directory, and
 * NAME a valid name; else 0. */
size_t kiln_lora_stem(const char *file);

#endif
