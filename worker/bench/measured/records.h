/* records.h - the file of --records: what was measured, so that a long bench can go on after an
 * end.
 *
 * The first line, the heading, says what the results depend on.  Each further line is one result,
 * written as soon as it is measured.  A line that an end cut short is passed over.
 */
#ifndef KILN_MEASURED_RECORDS_H
#define KILN_MEASURED_RECORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "schemas/error.h"
#include "worker/bench/measured/occasion.h"

struct kiln_records {
    const char *path; /* borrowed; NULL: results are kept nowhere */
    FILE *file;
};

/* Called with each result of the file; line is lent for the call. */
typedef void kiln_records_take(void *arg, const json_t *line);

/* A report may be made on another machine than its records: it is of the device in their heading,
 * which this puts into *at before the file is opened. */
void kiln_records_device(const char *path, struct kiln_measured_at *at);
/* Opens or creates the file and reads it to its end.  heading is taken over; NULL is no memory.
 * KILN_BAD_INPUT if the file has another heading; `depends` is what it says then that a heading
 * consists of.  read_only: the file must exist, and is never written. */
int kiln_records_open(struct kiln_records *records, const char *path, json_t *heading,
                      const char *depends, bool read_only, kiln_records_take *take, void *arg,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* Appends a result, which is taken over. */
int kiln_records_put(struct kiln_records *records, json_t *line,
                     struct kiln_error *err) KILN_MUST_CHECK;
void kiln_records_close(struct kiln_records *records);

#endif
