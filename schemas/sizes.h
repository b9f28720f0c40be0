/* sizes.h - picture sizes by name: "1344x768", "16:9", "16:9 xl", "16:9 max".
 *
 * An aspect stands for the model's own resolution of that shape; the listed shape nearest to
 * the asked ratio is taken if it is within 5 %, so 4:3 and 9:7 are both 1152x896.
 */
#ifndef KILN_SIZES_H
#define KILN_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

/* Resolves text[0..len).  KILN_BAD_INPUT says what it held and what is allowed. */
int kiln_size_parse(const char *text, size_t len, uint32_t *ret_width, uint32_t *ret_height,
                    struct kiln_error *err) KILN_MUST_CHECK;

/* Checks one side ("width", "height"): range and multiple; names the nearest allowed value. */
int kiln_side_check(const char *name, int64_t side, struct kiln_error *err) KILN_MUST_CHECK;

#endif
