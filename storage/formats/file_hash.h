/* file_hash.h - the SHA-256 of files that are asked for again and again.
 *
 * A file is read once for each state of it (device, inode, size, times); a repeated request costs a
 * stat.  Any thread may ask: one file is read at a time, and who asks for one that was read before
 * does not wait.
 */
#ifndef KILN_FILE_HASH_H
#define KILN_FILE_HASH_H

#include <stdbool.h>

#define KILN_FILE_HASH_MAX 65 /* hex digits and a NUL */

/* False for a file that cannot be read, is changed meanwhile, or is larger than any LoRA may be
 * (KILN_LORA_BYTES_MAX): whoever waits for the hash of 100 GB waits for minutes. */
bool kiln_file_hash(const char *path, char hex[KILN_FILE_HASH_MAX]);

#endif
