/* lora_files.h - which bytes the LoRA files of a batch have: a name may get another file at any
 * time.
 *
 * A file is read once for each state that it is in (device, inode, size, times), so asking again
 * costs a stat.  Any thread may ask; the first one reads, and others wait for it.
 */
#ifndef KILN_LORA_FILES_H
#define KILN_LORA_FILES_H

#include <stdbool.h>

#include "worker/stages/lora_paths.h"

/* "NAME:SHA256+NAME:SHA256" in order of the names, "" for no LoRAs.  False, and *out is "", where a
 * file cannot be read. */
bool kiln_lora_files_text(const struct kiln_lora_paths *paths,
                          const struct kiln_assignment *assignment, char out[KILN_LORA_FILES_MAX]);

#endif
