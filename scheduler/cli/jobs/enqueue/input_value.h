/* input_value.h - what people type as a value (a CSV cell, --set key=value) as JSON.
 *
 * Numbers stay numbers and words become strings, by the type of the key; what does not fit the
 * type becomes a string, and the validator of job lines says what is wrong with it.
 */
#ifndef KILN_INPUT_VALUE_H
#define KILN_INPUT_VALUE_H

#include "schemas/job/keys.h"
#include "schemas/text/text.h"

/* Takes blanks and tabs off both ends. */
void kiln_input_trim(const char **text, size_t *len);

/* Appends `"key":value`.  text must be UTF-8. */
void kiln_input_member(enum kiln_job_key key, const char *text, size_t len, struct kiln_text *out);

/* What the command line gives every job: KEY=VALUE of --set, or VALUE of an option that has the
 * name of its key. */
struct kiln_set {
    const char *option, *value; /* "set", "loras"; borrowed */
};
/* Turns them into one JSON object, malloc'd; the last of a key counts.  KILN_BAD_INPUT names an
 * option without '=', an unknown key (with the nearest), or a value that is not UTF-8. */
int kiln_input_overrides(const struct kiln_set *sets, size_t count, char **ret,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* --- CSV after RFC 4180: a header that names job keys, then a job a record ----------------------
 *
 * Cells may be quoted; a quoted cell may have commas, doubled quotes and line ends.  An empty cell
 * means that the key is not given.  Every record has as many cells as the header.
 */

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
