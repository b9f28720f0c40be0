/* input_value.c - typed text to JSON, and the cells of a CSV record.
 *
 * CSV is stricter than RFC 4180: it refuses a quote inside an unquoted cell, text after a closing
 * quote, and a record with too few cells.  A guess that shifts cells by one would make hundreds of
 * wrong pictures.
 */
#include "scheduler/cli/jobs/enqueue/input_value.h"

#include <string.h>
#include <strings.h>

#include "schemas/text/json.h"
#include "schemas/text/json_scan.h"
#include "schemas/text/utf8.h"

void kiln_input_trim(const char **text, size_t *len)
{
    while (*len > 0 && (**text == ' ' || **text == '\t')) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t'))
        (*len)--;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

/* Whether the text is meant as a JSON list: no value that is written as a word begins so. */
static bool is_list(enum kiln_job_key key, const char *text, size_t len)
{
    enum kiln_job_key_type type = kiln_job_keys[key].type;
    return len > 0 && *text == '[' &&
           (type == KILN_JOB_LORAS || type == KILN_JOB_SIZE || type == KILN_JOB_STYLE ||
            type == KILN_JOB_SIGMAS);
}

/* A list must be one JSON array to its end.  A line feed would end the job line. */
static int check_list(enum kiln_job_key key, const char *text, size_t len, struct kiln_error *err)
{
    struct kiln_json_reader reader;
    struct kiln_json_value value;
    struct kiln_error why;
    bool more = true;
    kiln_input_trim(&text, &len);
    if (!is_list(key, text, len))
        return 0;
    int code = memchr(text, '\n', len) ? kiln_fail(&why, KILN_BAD_INPUT, "it has a line break")
                                       : kiln_json_open(&reader, text, len, KILN_JSON_ARRAY, &why);
    while (!code && more)
        code = kiln_json_next(&reader, NULL, &value, &more, &why);
    return code ? kiln_fail(err, code, "%s: the list that begins with '[' cannot be read: %s",
                            kiln_job_keys[key].name, why.text)
                : 0;
}

/* A value that does not fit the key's type becomes a string, which the validator then refuses.  A
 * list may come from a form: what follows its end would be other keys. */
static void put_value(enum kiln_job_key key, const char *text, size_t len, struct kiln_text *out)
{
    enum kiln_job_key_type type = kiln_job_keys[key].type;
    bool number = type == KILN_JOB_WHOLE || type == KILN_JOB_NUMBER || type == KILN_JOB_SEED;
    const char *fault = NULL, *end = text + len;
    struct kiln_error why;
    number = number && len > 0 && (*text == '-' || (*text >= '0' && *text <= '9')) &&
             kiln_json_scan_number(text, end, &fault) == end && !fault;
    if (number)
        kiln_text_add(out, text, len);
    else if (type == KILN_JOB_BOOL && is_word(text, len, "true"))
        kiln_text_puts(out, "true"); /* spreadsheets write TRUE */
    else if (type == KILN_JOB_BOOL && is_word(text, len, "false"))
        kiln_text_puts(out, "false");
    else if (is_list(key, text, len) && check_list(key, text, len, &why) == 0)
        kiln_text_add(out, text, len);
    else
        kiln_text_json(out, text, len);
}

void kiln_input_member(enum kiln_job_key key, const char *text, size_t len, struct kiln_text *out)
{
    if (kiln_job_keys[key].type != KILN_JOB_TEXT)
        kiln_input_trim(&text, &len);
    kiln_text_printf(out, "\"%s\":", kiln_job_keys[key].name);
    put_value(key, text, len, out);
}

static int read_set(const struct kiln_set *set, const char **values, struct kiln_error *err)
{
    const char *word = set->option, *value = set->value;
    size_t len = strlen(word);
    if (strcmp(set->option, "set") == 0) {
        const char *equals = strchr(set->value, '=');
        if (!equals)
            return kiln_fail(err, KILN_BAD_INPUT, "--set %.64s: '=' is missing; write KEY=VALUE",
                             set->value);
        word = set->value;
        len = (size_t)(equals - word);
        value = equals + 1;
    }
    int key = kiln_job_key_find(word, len);
    if (key < 0) {
        char hint[KILN_JOB_KEY_HINT_MAX];
        kiln_job_key_hint(word, len, hint);
        return kiln_fail(err, KILN_BAD_INPUT, "--set: unknown key \"%.*s\"; %s",
                         (int)(len < 64 ? len : 64), word, hint);
    }
    if (!kiln_utf8_valid(value, strlen(value), NULL))
        return kiln_fail(err, KILN_BAD_INPUT, "--%s: the value of %s is not valid UTF-8",
                         set->option, kiln_job_keys[key].name);
    values[key] = value;
    return check_list((enum kiln_job_key)key, value, strlen(value), err);
}

int kiln_input_overrides(const struct kiln_set *sets, size_t count, char **ret,
                         struct kiln_error *err)
{
    const char *values[KILN_JOB_KEYS] = {NULL};
    struct kiln_text out = {0};
    for (size_t i = 0; i < count; i++) {
        int code = read_set(&sets[i], values, err);
        if (code)
            return code;
    }
    kiln_text_puts(&out, "{");
    for (int key = 0; key < KILN_JOB_KEYS; key++) {
        if (!values[key])
            continue;
        kiln_text_puts(&out, out.len > 1 ? "," : "");
        kiln_input_member((enum kiln_job_key)key, values[key], strlen(values[key]), &out);
    }
    kiln_text_puts(&out, "}");
    *ret = kiln_text_take(&out);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for --set");
}

/* --- CSV ---------------------------------------------------------------------------------------
 */

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
    int code = check_list(csv->columns[column], cell->at, cell->len, err);
    if (code)
        return code;
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
        code = kiln_fail(err, KILN_BAD_INPUT, "the record has %zu cell%s, the header has %zu",
                         count, count == 1 ? "" : "s", csv->column_count);
    return code;
}
