/* log.c - builds a line in one buffer and writes it with one write(2), so that lines of several
 * threads (and processes on one stderr) never mix.
 *
 * The settings are written once, before threads, and only read afterwards: no lock.  A line
 * that cannot be built or written is lost; there is nobody left to tell.
 */
#include "schemas/telemetry/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "schemas/telemetry/metrics.h"
#include "schemas/text/text.h"
#include "schemas/text/utc.h"
#include "schemas/text/utf8.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static struct {
    char program[32];
    enum kiln_level level;
    bool json;
} log_settings = {"kiln", KILN_LOG_INFO, false};

void kiln_log_setup(const char *program, enum kiln_level level, bool json)
{
    snprintf(log_settings.program, sizeof log_settings.program, "%s", program);
    log_settings.level = level;
    log_settings.json = json;
}

void kiln_log_level(enum kiln_level level)
{
    __atomic_store_n(&log_settings.level, level, __ATOMIC_RELAXED);
}

enum kiln_level kiln_level_by_name(const char *name)
{
    for (int level = KILN_LOG_ERROR; level <= KILN_LOG_DEBUG; level++)
        if (strcmp(name, level_names[level]) == 0)
            return (enum kiln_level)level;
    return KILN_LOG_INFO;
}

/* One conversion to a decimal number and nothing else: "%u", "%.1f", "%" PRIu64.  The format says
 * so and not the value: a worker may be named 7. */
static bool is_number(const char *fmt, const char *value)
{
    size_t len = strlen(fmt);
    const char *digits = value + (value[0] == '-');
    if (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9')
        return false; /* "%02d": no number in JSON */
    return len >= 2 && fmt[0] == '%' && strchr("diufge", fmt[len - 1]) &&
           strspn(fmt + 1, "0123456789.lhzj") == len - 2 &&
           strspn(value, "+-0123456789.e") == strlen(value);
}

struct kiln_field kiln_f(const char *key, const char *fmt, ...)
{
    struct kiln_field field;
    va_list args;
    snprintf(field.key, sizeof field.key, "%s", key);
    va_start(args, fmt);
    vsnprintf(field.value, sizeof field.value, fmt, args);
    va_end(args);
    field.number = is_number(fmt, field.value);
    return field;
}

static const char *stamp(char *out, size_t size)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return kiln_time_text((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, out, size);
}

/* A value that could be taken for two, or for the end of the line, is written as a JSON string. */
static void add_value(struct kiln_text *line, const char *value)
{
    bool plain = *value != '\0';
    for (size_t i = 0, len = strlen(value), length; i < len && plain; i += length) {
        length = kiln_utf8_length(value + i, len - i);
        plain =
            length > 0 && kiln_utf8_steering(value + i, length) < 0 && !strchr(" \"=\\", value[i]);
    }
    if (plain)
        kiln_text_puts(line, value);
    else
        kiln_text_json(line, value, strlen(value));
}

static void add_member(struct kiln_text *line, const char *key, const char *value, bool number)
{
    kiln_text_puts(line, line->len > 1 ? "," : "");
    kiln_text_json(line, key, strlen(key));
    kiln_text_puts(line, ":");
    if (number)
        kiln_text_puts(line, value);
    else
        kiln_text_json(line, value, strlen(value));
}

static void write_all(const char *at, size_t len)
{
    while (len > 0) {
        ssize_t written = write(STDERR_FILENO, at, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nobody can be told that the log cannot be written */
        at += written;
        len -= (size_t)written;
    }
}

void kiln_log_fields(enum kiln_level level, const char *event, const struct kiln_field *fields,
                     size_t count)
{
    if (level > __atomic_load_n(&log_settings.level, __ATOMIC_RELAXED))
        return;
    kiln_metric_add(KILN_METRIC_LOG_LINES, level, 1);
    struct kiln_text line = {0};
    char time_text[48];
    stamp(time_text, sizeof time_text);
    if (log_settings.json) {
        kiln_text_puts(&line, "{");
        add_member(&line, "time", time_text, false);
        add_member(&line, "level", level_names[level], false);
        add_member(&line, "program", log_settings.program, false);
        add_member(&line, "event", event, false);
        for (size_t i = 0; i < count; i++)
            add_member(&line, fields[i].key, fields[i].value, fields[i].number);
        kiln_text_puts(&line, "}\n");
    } else {
        kiln_text_printf(&line, "%s %s %s %s", time_text, level_names[level], log_settings.program,
                         event);
        for (size_t i = 0; i < count; i++) {
            kiln_text_printf(&line, " %s=", fields[i].key);
            add_value(&line, fields[i].value);
        }
        kiln_text_puts(&line, "\n");
    }
    if (!line.failed)
        write_all(line.at, line.len);
    kiln_text_release(&line);
}
