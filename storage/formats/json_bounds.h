/* json_bounds.h - limits the memory that parsing a JSON text can take, before it is parsed; and
 * reads a JSON file within such limits.
 *
 * A parser turns "[],[],[],..." into forty times its size, so a limit on bytes does not limit
 * memory. The parser checks the syntax.
 */
#ifndef KILN_JSON_BOUNDS_H
#define KILN_JSON_BOUNDS_H

#include <jansson.h>
#include <stddef.h>

#include "schemas/error.h"

/* what names the text in errors.  KILN_CORRUPT for brackets nested deeper than depth_max,
 * KILN_UNSUPPORTED for more than values_max brackets, commas and colons. */
int kiln_json_bounds(const char *text, size_t len, size_t depth_max, size_t values_max,
                     const char *what, struct kiln_error *err) KILN_MUST_CHECK;

/* The value of a file, which the caller json_decref's.  KILN_NOT_FOUND, KILN_BAD_INPUT for more
 * than bytes_max bytes; KILN_CORRUPT, with the line, for what is not JSON or has a key twice. */
int kiln_json_file(const char *path, size_t bytes_max, size_t depth_max, size_t values_max,
                   json_t **ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
