/* inputs.h - the keys of pictures that runs start from, in the object store.
 *
 * Such a picture is stored once, under the SHA-256 of its file.  A job line on the bus can name
 * nothing else, so it never names a file of the scheduler's or a worker's machine.
 */
#ifndef KILN_INPUTS_H
#define KILN_INPUTS_H

#include <stdbool.h>

#define KILN_INPUTS_PREFIX "inputs/"
#define KILN_INPUT_KEY_FORM "\"inputs/<sha256>.<webp|png|jpg>\""
#define KILN_INPUT_KEY_MAX 80 /* bytes with the NUL */

/* Whether a key is "inputs/", 64 hex digits in lower case, and ".webp", ".png" or ".jpg". */
bool kiln_input_key_valid(const char *key);

#endif
