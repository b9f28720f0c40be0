/* json_file.h - reads a bounded JSON file. */
#ifndef KILN_EMBED_JSON_FILE_H
#define KILN_EMBED_JSON_FILE_H

#include <jansson.h>
#include <stddef.h>

#include "schemas/error.h"

/* The value of a file of at most bytes_max bytes and values_max values, which the caller
 * json_decref's.  KILN_NOT_FOUND; KILN_CORRUPT with the line for what is not JSON. */
int kiln_json_file(const char *path, size_t bytes_max, size_t values_max, json_t **ret,
                   struct kiln_error *err) KILN_MUST_CHECK;

#endif
