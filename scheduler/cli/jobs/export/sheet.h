/* sheet.h - a contact sheet: the pictures of a batch side by side in one WebP file.
 *
 * Rows are as wide as `columns` square pictures and about as high as one; pictures keep their
 * proportions, so a row holds more tall ones and fewer wide ones.
 */
#ifndef KILN_CLI_EXPORT_SHEET_H
#define KILN_CLI_EXPORT_SHEET_H

#include <stdint.h>

#include "schemas/error.h"

#define KILN_SHEET_COLUMNS_MAX 40
#define KILN_SHEET_COLUMNS 6
#define KILN_SHEET_PICTURES 4096 /* at most, of one sheet */

struct kiln_sheet;

/* NULL when memory is short.  columns: 1 to KILN_SHEET_COLUMNS_MAX. */
struct kiln_sheet *kiln_sheet_new(int columns);
void kiln_sheet_free(struct kiln_sheet *sheet); /* accepts NULL */

/* The next picture, width x height of the original; the path of a file of any size of it is copied
 * and read by kiln_sheet_write.  KILN_BAD_INPUT when the sheet is full. */
int kiln_sheet_add(struct kiln_sheet *sheet, const char *path, uint32_t width, uint32_t height,
                   struct kiln_error *err) KILN_MUST_CHECK;

/* Reads the pictures and writes the file, whole or not at all.  KILN_BAD_INPUT when there is no
 * picture or the sheet would be too large for the format. */
int kiln_sheet_write(const struct kiln_sheet *sheet, const char *path,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
