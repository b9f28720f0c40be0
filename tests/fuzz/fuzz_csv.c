/* fuzz_csv.c - any bytes as a CSV file of a header line and records: what comes out is always one
 * whole JSON object of known keys. */
#include <jansson.h>
#include <string.h>

#include "scheduler/cli/jobs/enqueue/input_value.h"
#include "tests/fuzz/fuzz.h"

static void check_record(const struct kiln_csv *csv, const char *text, size_t len)
{
    struct kiln_text out = {0};
    struct kiln_error err = {0};
    if (kiln_csv_record(csv, text, len, &out, &err) == 0) {
        bool raw_list = memchr(text, '[', len) != NULL; /* lists are passed on as they were typed */
        json_t *object =
            json_loadb(out.at, out.len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
        bool range =
            memchr(text, 'e', len) || memchr(text, 'E', len) || len > 300; /* beyond a double */
        fuzz_require(json_is_object(object) || raw_list || range);
        json_decref(object);
    } else {
        fuzz_require(err.text[0]);
    }
    kiln_text_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *newline = size ? memchr(text, '\n', size) : NULL;
    struct kiln_csv csv, all = {.column_count = KILN_JOB_KEYS};
    struct kiln_error err = {0};
    size_t header = newline ? (size_t)(newline - text) : size;
    for (int key = 0; key < KILN_JOB_KEYS; key++)
        all.columns[key] = (enum kiln_job_key)key;
    if (kiln_csv_header(&csv, text, header, &err) == 0) {
        fuzz_require(csv.column_count >= 1 && csv.column_count <= KILN_JOB_KEYS);
        if (newline)
            check_record(&csv, newline + 1, size - header - 1);
    } else {
        fuzz_require(err.text[0]);
    }
    if (kiln_csv_complete(text, size))
        check_record(&all, text, size);
    return 0;
}
