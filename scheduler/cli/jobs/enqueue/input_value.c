/* input_value.c - typed text to JSON. */
#include "scheduler/cli/jobs/enqueue/input_value.h"

#include <string.h>
#include <strings.h>

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

/* A value that does not fit the key's type becomes a string, which the validator then refuses. */
static void put_value(enum kiln_job_key key, const char *text, size_t len, struct kiln_text *out)
{
    enum kiln_job_key_type type = kiln_job_keys[key].type;
    bool number = type == KILN_JOB_WHOLE || type == KILN_JOB_NUMBER || type == KILN_JOB_SEED;
    bool list = type == KILN_JOB_LORAS || type == KILN_JOB_SIZE || type == KILN_JOB_STYLE ||
                type == KILN_JOB_SIGMAS;
    const char *fault = NULL, *end = text + len;
    number = number && len > 0 && (*text == '-' || (*text >= '0' && *text <= '9')) &&
             kiln_json_scan_number(text, end, &fault) == end && !fault;
    if (number)
        kiln_text_add(out, text, len);
    else if (type == KILN_JOB_BOOL && is_word(text, len, "true"))
        kiln_text_puts(out, "true"); /* spreadsheets write TRUE */
    else if (type == KILN_JOB_BOOL && is_word(text, len, "false"))
        kiln_text_puts(out, "false");
    else if (list && len > 0 && *text == '[')
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
    return 0;
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
