/* input_csv.c - cells of a CSV record.
 *
 * This is stricter than RFC 4180: it refuses a quote inside an unquoted cell, text after a closing
 * quote, and a record with too few cells.  A guess that shifts cells by one would make hundreds of
 * wrong pictures.
 */
#include "scheduler/cli/jobs/enqueue/input_csv.h"

#include <string.h>

#include "scheduler/cli/jobs/enqueue/input_value.h"
#include "schemas/text/utf8.h"

bool kiln_csv_complete(const char *text, size_t len)
{
    bool quoted = false; /* a doubled quote flips twice and changes nothing */
    for (size_t i = 0; i < len; i++)
        quoted ^= text[i] == '"';
    return !quoted;
}

/* Copies one cell into *cell; *at then points to the comma after it, or to end. */
static int read_cell(const char **at, const char *end, struct kiln_text *cell,
                     struct kiln_error *err)
{
    kiln_text_clear(cell);
    if (*at == end || **at != '"') {
        const char *comma = memchr(*at, ',', (size_t)(end - *at));
        const char *stop = comma ? comma : end;
        if (memchr(*at, '"', (size_t)(stop - *at)))
            return kiln_fail(
                err, KILN_BAD_INPUT,
                "a '\"' inside a cell that does not begin with one; quote the whole cell "
                "and double the quote");
        kiln_text_add(cell, *at, (size_t)(stop - *at));
        *at = stop;
        return 0;
    }
    (*at)++;
    for (;;) {
        const char *quote = memchr(*at, '"', (size_t)(end - *at));
        if (!quote)
            return kiln_fail(err, KILN_BAD_INPUT, "the closing '\"' of a cell is missing");
        kiln_text_add(cell, *at, (size_t)(quote - *at));
        *at = quote + 1;
        if (*at == end || **at == ',')
            return 0;
        if (**at != '"')
            return kiln_fail(err, KILN_BAD_INPUT, "text after the closing '\"' of a cell");
        kiln_text_add(cell, "\"", 1);
        (*at)++;
    }
}

/* Whether another cell follows; *at steps over the comma. */
static bool next_cell(const char **at, const char *end)
{
    if (*at == end)
        return false;
    (*at)++;
    return true;
}

/* A column must be a key of the job line; other columns are refused, not ignored. */
static int add_column(struct kiln_csv *csv, const char *name, size_t len, struct kiln_error *err)
{
    kiln_input_trim(&name, &len);
    int shown = (int)(len < 64 ? len : 64);
    int key = kiln_job_key_find(name, len);
    if (key < 0) {
        char hint[KILN_JOB_KEY_HINT_MAX];
        kiln_job_key_hint(name, len, hint);
        return kiln_fail(err, KILN_BAD_INPUT,
                         "unknown column \"%.*s\"; %s%s  The first record of a CSV file names job "
                         "keys, separated by commas",
                         shown, name, hint, strchr(hint, '?') ? "" : ".");
    }
    for (size_t i = 0; i < csv->column_count; i++)
        if (csv->columns[i] == (enum kiln_job_key)key)
            return kiln_fail(err, KILN_BAD_INPUT, "column \"%.*s\" is given twice", shown, name);
    csv->columns[csv->column_count++] = (enum kiln_job_key)key;
    return 0;
}

int kiln_csv_header(struct kiln_csv *csv, const char *text, size_t len, struct kiln_error *err)
{
    const char *at = text, *end = text + len;
    struct kiln_text cell = {0};
    int code;
    csv->column_count = 0;
    do {
        code = read_cell(&at, end, &cell, err);
        if (!code && cell.failed)
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a cell");
        if (!code)
            code = add_column(csv, cell.at ? cell.at : "", cell.len, err);
    } while (!code && next_cell(&at, end));
    kiln_text_release(&cell);
    return code;
}

/* An empty cell leaves its key out, so that the default holds. */
static int add_cell(const struct kiln_csv *csv, size_t column, const struct kiln_text *cell,
                    struct kiln_text *out, struct kiln_error *err)
{
    size_t bad;
    if (column >= csv->column_count || cell->len == 0)
        return 0;
    const char *name = kiln_job_keys[csv->columns[column]].name;
    if (memchr(cell->at, '\0', cell->len))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: a NUL byte", name);
    if (!kiln_utf8_valid(cell->at, cell->len, &bad))
        return kiln_fail(err, KILN_BAD_INPUT, "%s: not valid UTF-8 at byte %zu of the cell", name,
                         bad + 1);
    kiln_text_puts(out, out->at[out->len - 1] == '{' ? "" : ",");
    kiln_input_member(csv->columns[column], cell->at, cell->len, out);
    return 0;
}

int kiln_csv_record(const struct kiln_csv *csv, const char *text, size_t len, struct kiln_text *out,
                    struct kiln_error *err)
{
    const char *at = text, *end = text + len;
    struct kiln_text cell = {0};
    size_t count = 0;
    int code;
    kiln_text_puts(out, "{");
    do {
        code = read_cell(&at, end, &cell, err);
        if (!code && (cell.failed || out->failed))
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a cell");
        if (!code)
            code = add_cell(csv, count++, &cell, out, err);
    } while (!code && next_cell(&at, end));
    kiln_text_puts(out, "}");
    kiln_text_release(&cell);
    if (!code && count != csv->column_count)
        code = kiln_fail(err, KILN_BAD_INPUT, "the record has %zu cells, the header has %zu", count,
                         csv->column_count);
    return code;
}
