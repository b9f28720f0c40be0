/* json_scan.h - the two token scanners of json.c: where a string and a number end. */
#ifndef KILN_JSON_SCAN_H
#define KILN_JSON_SCAN_H

#include <stdbool.h>

/* From behind the opening quote to the closing one.  On a fault *ret_fault says what is wrong at
 * the returned place. */
const char *kiln_json_scan_string(const char *at, const char *end, bool *ret_escaped,
                                  const char **ret_fault);
/* From the first character to behind the last. */
const char *kiln_json_scan_number(const char *at, const char *end, const char **ret_fault);

#endif
