/* input_jobs.c - chooses the format, and turns each record of the file into a job line.
 *
 * Text and CSV become JSON job lines, which the one validator reads.  So every format has the same
 * rules, messages and templates.  The detour costs a fraction of a microsecond a line.
 */
#include "scheduler/cli/jobs/enqueue/input_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/jobs/enqueue/input_lines.h"
#include "scheduler/cli/jobs/enqueue/input_value.h"
#include "scheduler/cli/jobs/enqueue/openai.h"
#include "schemas/limits.h"
#include "schemas/text/utf8.h"

#define MODELS_MAX 160

struct kiln_input {
    struct kiln_lines *lines;
    enum kiln_format format;
    struct kiln_csv csv;
    bool has_header;
    struct kiln_text record; /* CSV: lines of one record */
    struct kiln_text job;    /* the job line that was made */
    char models[MODELS_MAX]; /* of requests, passed over, each once */
    uint32_t others;         /* as of kiln_openai_line */
};

int kiln_format_by_name(const char *name)
{
    return strcmp(name, "jsonl") == 0  ? KILN_FORMAT_JSONL
           : strcmp(name, "text") == 0 ? KILN_FORMAT_TEXT
           : strcmp(name, "csv") == 0  ? KILN_FORMAT_CSV
                                       : -1;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* By name, else by the first byte that is no blank. */
static int guess_format(struct kiln_input *input, struct kiln_error *err)
{
    const char *name = kiln_lines_name(input->lines), *text;
    size_t len, at = 0;
    int code = kiln_lines_peek(input->lines, &text, &len, err);
    if (code)
        return code;
    while (at < len &&
           (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n'))
        at++;
    bool json_name =
        ends_with(name, ".jsonl") || ends_with(name, ".ndjson") || ends_with(name, ".json");
    if (ends_with(name, ".txt"))
        input->format = KILN_FORMAT_TEXT;
    else if (ends_with(name, ".csv"))
        input->format = KILN_FORMAT_CSV;
    else if (json_name || (at < len && text[at] == '{'))
        input->format = KILN_FORMAT_JSONL;
    else
        input->format = KILN_FORMAT_TEXT;
    if (ends_with(name, ".tsv"))
        return kiln_fail(err, KILN_CORRUPT, "%s is a table with tabs; save it as CSV, with commas",
                         name);
    if (json_name && at < len && text[at] == '[')
        return kiln_fail(
            err, KILN_CORRUPT,
            "%s is one JSON list; a job file has one object a line (convert it with jq -c '.[]')",
            name);
    return 0;
}

/* --- text ---------------------------------------------------------------------------------- */

static int make_text_job(struct kiln_input *input, const char *text, size_t len,
                         struct kiln_error *err)
{
    size_t bad;
    if (memchr(text, '\0', len))
        return kiln_fail(err, KILN_BAD_INPUT, "a NUL byte at byte %zu",
                         (size_t)((const char *)memchr(text, '\0', len) - text) + 1);
    if (!kiln_utf8_valid(text, len, &bad))
        return kiln_fail(err, KILN_BAD_INPUT, "not valid UTF-8 at byte %zu", bad + 1);
    kiln_text_clear(&input->job);
    kiln_text_puts(&input->job, "{");
    kiln_input_member(KILN_JOB_KEY_PROMPT, text, len, &input->job);
    kiln_text_puts(&input->job, "}");
    return input->job.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a line") : 0;
}

/* --- a request of an OpenAI batch file ----------------------------------------------------- */

/* Whether a list with ", " between has the name. */
static bool lists(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += len)
        if ((at == list || at[-1] == ' ') && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

static int make_openai_job(struct kiln_input *input, const char *text, size_t len,
                           struct kiln_error *err)
{
    struct kiln_openai_passed passed;
    char *list = input->models;
    const size_t used = strlen(list);
    kiln_text_clear(&input->job);
    int code = kiln_openai_line(text, len, &input->job, &passed, err);
    if (code)
        return code;
    input->others |= passed.others;
    if (passed.model[0] && !lists(list, passed.model) &&
        used + strlen(passed.model) + 3 < sizeof input->models)
        snprintf(list + used, sizeof input->models - used, "%s%s", used ? ", " : "", passed.model);
    return 0;
}

bool kiln_input_passed_over(const struct kiln_input *input, bool models,
                            char ret[KILN_PASSED_OVER_MAX])
{
    char others[KILN_OPENAI_OTHERS_TEXT_MAX];
    const char *first = models ? input->models : "";
    kiln_openai_others(input->others, others);
    snprintf(ret, KILN_PASSED_OVER_MAX, "%s%s%s", first, first[0] && others[0] ? ", " : "", others);
    return first[0] != '\0';
}

/* --- CSV ----------------------------------------------------------------------------------- */

/* Gathers lines until the quotes are closed; *ret_text NULL at the end of the file. */
static int read_record(struct kiln_input *input, const char **ret_text, size_t *ret_len,
                       uint64_t *ret_line, struct kiln_error *err)
{
    const char *line;
    size_t len;
    *ret_text = NULL;
    int code = kiln_lines_next(input->lines, &line, &len, err);
    *ret_line = kiln_lines_number(input->lines);
    if (code || !line)
        return code;
    if (kiln_csv_complete(line, len)) {
        *ret_text = line;
        *ret_len = len;
        return 0;
    }
    kiln_text_clear(&input->record);
    do {
        kiln_text_add(&input->record, line, len);
        kiln_text_puts(&input->record, "\n");
        code = kiln_lines_next(input->lines, &line, &len, err);
        if (code)
            return code;
        if (!line)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "a quote is opened and not closed: the file is refused from here to "
                             "its end");
        if (input->record.len + len > KILN_LINE_MAX)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "a quote is opened and not closed within %d bytes: the lines to %llu "
                             "are refused with it",
                             KILN_LINE_MAX, (unsigned long long)kiln_lines_number(input->lines));
    } while (kiln_csv_complete(line, len)); /* an odd number of quotes closes it */
    kiln_text_add(&input->record, line, len);
    if (input->record.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a record");
    *ret_text = input->record.at;
    *ret_len = input->record.len;
    return 0;
}

/* The first record that is not blank is the header. */
static int next_csv(struct kiln_input *input, const char **ret_text, size_t *ret_len,
                    uint64_t *ret_line, struct kiln_error *err)
{
    for (;;) {
        const char *text;
        size_t len;
        int code = read_record(input, &text, &len, ret_line, err);
        if (code || !text) {
            *ret_text = NULL;
            return code;
        }
        const char *inside = text;
        size_t inside_len = len;
        kiln_input_trim(&inside, &inside_len);
        if (inside_len == 0)
            continue;
        if (!input->has_header) {
            /* A header that cannot be read makes the whole file unreadable. */
            code = kiln_csv_header(&input->csv, text, len, err);
            if (code)
                return kiln_fail(err, code == KILN_BAD_INPUT ? KILN_CORRUPT : code, "%s:%llu: %s",
                                 kiln_lines_name(input->lines), (unsigned long long)*ret_line,
                                 err->text);
            input->has_header = true;
            continue;
        }
        kiln_text_clear(&input->job);
        code = kiln_csv_record(&input->csv, text, len, &input->job, err);
        if (!code && input->job.failed)
            code = kiln_fail(err, KILN_NO_MEMORY, "no memory for a record");
        *ret_text = input->job.at;
        *ret_len = input->job.len;
        return code;
    }
}

/* --- all ----------------------------------------------------------------------------------- */

static int next_line(struct kiln_input *input, const char **ret_text, size_t *ret_len,
                     uint64_t *ret_line, struct kiln_error *err)
{
    for (;;) {
        const char *line;
        size_t len;
        int code = kiln_lines_next(input->lines, &line, &len, err);
        *ret_line = kiln_lines_number(input->lines);
        *ret_text = NULL;
        if (code || !line)
            return code;
        const char *text = line;
        kiln_input_trim(&text, &len);
        if (len == 0 || (input->format == KILN_FORMAT_TEXT && *text == '#'))
            continue;
        *ret_text = text;
        *ret_len = len;
        if (input->format == KILN_FORMAT_JSONL && !kiln_openai_is(text, len))
            return 0;
        code = input->format == KILN_FORMAT_JSONL ? make_openai_job(input, text, len, err)
                                                  : make_text_job(input, text, len, err);
        *ret_text = input->job.at;
        *ret_len = input->job.len;
        return code;
    }
}

int kiln_input_next(struct kiln_input *input, const char **ret_text, size_t *ret_len,
                    uint64_t *ret_line, struct kiln_error *err)
{
    return input->format == KILN_FORMAT_CSV ? next_csv(input, ret_text, ret_len, ret_line, err)
                                            : next_line(input, ret_text, ret_len, ret_line, err);
}

int kiln_input_rewind(struct kiln_input *input, struct kiln_error *err)
{
    input->has_header = false;
    return kiln_lines_rewind(input->lines, err);
}

const char *kiln_input_name(const struct kiln_input *input)
{
    return kiln_lines_name(input->lines);
}

int kiln_input_open(const char *path, enum kiln_format format, bool again, struct kiln_input **ret,
                    struct kiln_error *err)
{
    struct kiln_input *input = calloc(1, sizeof *input);
    if (!input)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", path);
    input->format = format;
    int code = kiln_lines_open(path, again, &input->lines, err);
    if (!code && format == KILN_FORMAT_AUTO)
        code = guess_format(input, err);
    if (code)
        kiln_input_close(input);
    else
        *ret = input;
    return code;
}

int kiln_input_open_fd(const char *name, int fd, enum kiln_format format, struct kiln_input **ret,
                       struct kiln_error *err)
{
    struct kiln_input *input = calloc(1, sizeof *input);
    if (!input)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", name);
    input->format = format;
    int code = kiln_lines_open_fd(name, fd, &input->lines, err);
    if (code)
        kiln_input_close(input);
    else
        *ret = input;
    return code;
}

int kiln_input_open_text(const char *name, const char *text, size_t len, struct kiln_input **ret,
                         struct kiln_error *err)
{
    struct kiln_input *input = calloc(1, sizeof *input);
    if (!input)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read %s", name);
    input->format = KILN_FORMAT_JSONL;
    int code = kiln_lines_open_text(name, text, len, &input->lines, err);
    if (code)
        kiln_input_close(input);
    else
        *ret = input;
    return code;
}

void kiln_input_close(struct kiln_input *input)
{
    if (!input)
        return;
    kiln_lines_close(input->lines);
    kiln_text_release(&input->record);
    kiln_text_release(&input->job);
    free(input);
}
