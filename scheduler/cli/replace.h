/* replace.h - a small file is there whole, or as it was before. */
#ifndef KILN_CLI_REPLACE_H
#define KILN_CLI_REPLACE_H

#include <jansson.h>
#include <sys/types.h>

#include "schemas/error.h"

/* Writes PATH.part, waits for the disk and renames it into place.  mode: what the file gets from
 * its first byte on.  KILN_FULL when the disk is full. */
int kiln_replace(const char *path, const char *text, mode_t mode,
                 struct kiln_error *err) KILN_MUST_CHECK;
/* The same with a JSON value, 0644; value NULL (no memory) is an error. */
int kiln_replace_json(const char *path, const json_t *value,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
