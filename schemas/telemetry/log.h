/* log.h - one line an event on stderr, key=value or JSON.
 *
 *     kiln_log(KILN_LOG_INFO, "job_done", kiln_f("job", "%llu", id), kiln_f("ms", "%.1f", ms));
 *
 * Never a prompt at info level.  Thread-safe: one write(2) a line.
 */
#ifndef KILN_LOG_H
#define KILN_LOG_H

#include "schemas/error.h"

enum kiln_level { KILN_LOG_ERROR, KILN_LOG_WARNING, KILN_LOG_INFO, KILN_LOG_DEBUG };

/* Called once by main, before threads.  program ("kiln-worker") is copied. */
void kiln_log_setup(const char *program, enum kiln_level level, bool json);
/* Changes the level alone; any thread, any time. */
void kiln_log_level(enum kiln_level level);
enum kiln_level kiln_level_by_name(const char *name); /* unknown = info */

struct kiln_field {
    char key[24];
    char value[KILN_ERROR_TEXT_MAX];
    bool
        number; /* the format is one numeric conversion, and the value no infinity: JSON as it is */
};

/* One field with a formatted value. */
struct kiln_field kiln_f(const char *key, const char *fmt, ...) KILN_PRINTF(2, 3);

void kiln_log_fields(enum kiln_level level, const char *event, const struct kiln_field *fields,
                     size_t count);

#define kiln_log(level, event, ...)                                                                \
    kiln_log_fields(level, event, (const struct kiln_field[]){__VA_ARGS__},                        \
                    sizeof((const struct kiln_field[]){__VA_ARGS__}) / sizeof(struct kiln_field))

#endif
