/* input_csv.h - CSV after RFC 4180: a header that names job keys, then a job a record.
 *
 * Cells may be quoted; a quoted cell may hold commas, doubled quotes and line ends.  An empty cell
 * means that the key is not given.  Every record has as many cells as the header.
 */
#ifndef KILN_INPUT_CSV_H
#define KILN_INPUT_CSV_H

#include "schemas/job/keys.h"
#include "schemas/text/text.h"

struct kiln_csv {
    enum kiln_job_key columns[KILN_JOB_KEYS];
    size_t column_count;
};

/* Whether the quotes of a record are closed; if not, it continues in the next line. */
bool kiln_csv_complete(const char *text, size_t len);
/* Reads the header.  KILN_BAD_INPUT names an unknown column (with the nearest key) or one given
 * twice. */
int kiln_csv_header(struct kiln_csv *csv, const char *text, size_t len,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Appends the record as a JSON object to out. */
int kiln_csv_record(const struct kiln_csv *csv, const char *text, size_t len, struct kiln_text *out,
                    struct kiln_error *err) KILN_MUST_CHECK;

#endif
