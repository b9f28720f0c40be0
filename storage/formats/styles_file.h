/* styles_file.h - reads the file of style presets that the setting `styles` names. */
#ifndef KILN_STYLES_FILE_H
#define KILN_STYLES_FILE_H

#include "schemas/error.h"
#include "schemas/job/styles.h"

/* path "": no presets, and *ret stays as it is.  Else *ret is new; free with kiln_styles_free.
 * KILN_CONFIG for a file that is missing, too large or neither a regular one nor a
 * pipe that ends (user_file.h). */
int kiln_styles_file_read(const char *path, struct kiln_styles **ret,
                          struct kiln_error *err) KILN_MUST_CHECK;

#endif
