/* values.c - one value of a job line by its row in the table of keys.
 *
 * A refusal always has the same three parts, "KEY is WHAT; it must be RULE": the rule comes
 * from the table, where it is written beside the limits, and what was given is shown as it was
 * typed, cut to a length that fits a terminal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/draft.h"
#include "schemas/names.h"
#include "schemas/text/utf8.h"

/* How a refused value is shown: numbers as written, texts cut short. */
static void show(const struct kiln_json_value *value, char out[80])
{
    size_t len = value->len < 40 ? value->len : kiln_utf8_whole(value->text, 40);
    if (value->type == KILN_JSON_NUMBER)
        snprintf(out, 80, "%.*s", (int)len, value->text);
    else if (value->type == KILN_JSON_STRING)
        snprintf(out, 80, "\"%.*s%s\"", (int)len, value->text, len < value->len ? "..." : "");
    else
        snprintf(out, 80, "%s", kiln_json_type_name(value->type));
}

int kiln_draft_wrong(const struct kiln_draft *draft, enum kiln_job_key key, struct kiln_error *err)
{
    const struct kiln_job_key_row *row = &kiln_job_keys[key];
    char shown[80];
    show(&draft->values[key], shown);
    return kiln_fail(err, KILN_BAD_INPUT, "%s is %s; it must be %s", row->name, shown, row->help);
}

int kiln_draft_whole(const struct kiln_draft *draft, enum kiln_job_key key, int64_t fallback,
                     int64_t *ret, struct kiln_error *err)
{
    const struct kiln_job_key_row *row = &kiln_job_keys[key];
    const struct kiln_json_value *value = &draft->values[key];
    int64_t number = fallback;
    if (kiln_draft_has(draft, key) &&
        (value->type != KILN_JSON_NUMBER || !kiln_json_i64(value, &number) ||
         (double)number < row->min || (double)number > row->max))
        return kiln_draft_wrong(draft, key, err);
    *ret = number;
    return 0;
}

int kiln_draft_number(const struct kiln_draft *draft, enum kiln_job_key key, double *ret,
                      struct kiln_error *err)
{
    const struct kiln_job_key_row *row = &kiln_job_keys[key];
    const struct kiln_json_value *value = &draft->values[key];
    double number = 0;
    if (kiln_draft_has(draft, key) &&
        (value->type != KILN_JSON_NUMBER || !kiln_json_double(value, &number) ||
         number < row->min || number > row->max))
        return kiln_draft_wrong(draft, key, err);
    *ret = number == 0 ? 0 : number; /* -0 is 0 */
    return 0;
}

int kiln_draft_choice(const struct kiln_draft *draft, enum kiln_job_key key, int *ret,
                      struct kiln_error *err)
{
    *ret = 0;
    if (!kiln_draft_has(draft, key))
        return 0;
    for (int i = 0; kiln_job_keys[key].choices[i]; i++) {
        if (kiln_json_equals(&draft->values[key], kiln_job_keys[key].choices[i])) {
            *ret = i;
            return 0;
        }
    }
    return kiln_draft_wrong(draft, key, err);
}

int kiln_draft_bool(const struct kiln_draft *draft, enum kiln_job_key key, bool fallback, bool *ret,
                    struct kiln_error *err)
{
    enum kiln_json_type type = draft->values[key].type;
    *ret = fallback;
    if (!kiln_draft_has(draft, key))
        return 0;
    if (type != KILN_JSON_TRUE && type != KILN_JSON_FALSE)
        return kiln_draft_wrong(draft, key, err);
    *ret = type == KILN_JSON_TRUE;
    return 0;
}

/* An id comes back in file names, tables and pages: nothing in it may steer those. */
static int check_id(const struct kiln_job_key_row *row, const char *text, size_t len,
                    struct kiln_error *err)
{
    for (size_t i = 0, length; i < len; i += length) {
        length = kiln_utf8_length(text + i, len - i);
        length = length ? length : 1;
        int code = kiln_utf8_steering(text + i, length);
        if (code >= 0)
            return kiln_fail(err, KILN_BAD_INPUT, "%s: byte %zu begins U+%04X; it must be %s",
                             row->name, i + 1, (unsigned)code, row->help);
    }
    return 0;
}

int kiln_draft_text(const struct kiln_draft *draft, enum kiln_job_key key, const char *fallback,
                    char **ret, struct kiln_error *err)
{
    const struct kiln_job_key_row *row = &kiln_job_keys[key];
    const struct kiln_json_value *value = &draft->values[key];
    size_t len;
    if (!kiln_draft_has(draft, key)) {
        *ret = fallback ? strdup(fallback) : NULL;
        return fallback && !*ret ? kiln_fail(err, KILN_NO_MEMORY, "%s: no memory", row->name) : 0;
    }
    if (value->type != KILN_JSON_STRING)
        return kiln_draft_wrong(draft, key, err);
    char *text = kiln_json_string_copy(value, &len);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "%s: no memory", row->name);
    bool good = (double)len >= row->min && (double)len <= row->max;
    int code = 0;
    if (!good && len > 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "%s is %zu bytes of UTF-8; it must be %s", row->name,
                         len, row->help);
    else if (!good || (row->type == KILN_JOB_NAME && !kiln_name_valid(text, len, KILN_NAME_MAX)))
        code = kiln_draft_wrong(draft, key, err);
    else if (key == KILN_JOB_KEY_CUSTOM_ID)
        code = check_id(row, text, len, err);
    if (code)
        free(text);
    else
        *ret = text;
    return code;
}
