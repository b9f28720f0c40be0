/* error.c - the table of error codes and the two functions that fill an error. */
#include "schemas/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "schemas/text/utf8.h"

struct code_row {
    const char *name;
    const char *sentence;
    int exit_status;
    enum kiln_retry retry;
};

static const struct code_row rows[KILN_CODE_COUNT] = {
    [KILN_OK] = {"ok", "Nothing went wrong.", EX_OK, KILN_RETRY_NEVER},
    [KILN_BAD_INPUT] = {"bad_input", "The input is not valid; correct it and try again.",
                        EX_DATAERR, KILN_RETRY_NEVER},
    [KILN_NOT_FOUND] = {"not_found", "The named thing does not exist.", EX_NOINPUT,
                        KILN_RETRY_NEVER},
    [KILN_EXISTS] = {"exists", "The thing exists already.", EX_CANTCREAT, KILN_RETRY_NEVER},
    [KILN_FULL] = {"full", "A limit or a disk is full; make room or try again later.", EX_TEMPFAIL,
                   KILN_RETRY_LATER},
    [KILN_STALE] = {"stale", "The job belongs to another attempt now; this result was dropped.",
                    EX_TEMPFAIL, KILN_RETRY_ELSEWHERE},
    [KILN_IO] = {"io", "A file could not be read or written.", EX_IOERR, KILN_RETRY_ELSEWHERE},
    [KILN_UNAVAILABLE] = {"unavailable", "A server could not be reached; Kiln retries.",
                          EX_UNAVAILABLE, KILN_RETRY_LATER},
    [KILN_TIMEOUT] = {"timeout", "It took longer than its time limit.", EX_TEMPFAIL,
                      KILN_RETRY_LATER},
    [KILN_DENIED] = {"denied", "The credentials or rights are not sufficient.", EX_NOPERM,
                     KILN_RETRY_REPAIRED},
    [KILN_PROTOCOL] = {"protocol", "A server sent an invalid answer.", EX_PROTOCOL,
                       KILN_RETRY_ELSEWHERE},
    [KILN_NO_MEMORY] = {"no_memory", "There was not enough memory.", EX_OSERR,
                        KILN_RETRY_ELSEWHERE},
    [KILN_CANCELLED] = {"cancelled", "It was cancelled on request.", EX_TEMPFAIL, KILN_RETRY_NEVER},
    [KILN_DEVICE] = {"device", "The compute device or the tensor library failed.", EX_UNAVAILABLE,
                     KILN_RETRY_ELSEWHERE},
    [KILN_CORRUPT] = {"corrupt", "Stored bytes are damaged or cut short.", EX_DATAERR,
                      KILN_RETRY_NEVER},
    [KILN_UNSUPPORTED] = {"unsupported", "The request is valid, but Kiln does not support it.",
                          EX_UNAVAILABLE, KILN_RETRY_NEVER},
    [KILN_CONFIG] = {"config", "A setting is missing or wrong.", EX_CONFIG, KILN_RETRY_REPAIRED},
    [KILN_INTERNAL] = {"internal", "This is a bug in Kiln.", EX_SOFTWARE, KILN_RETRY_NEVER},
    [KILN_POISONED] = {"poisoned", "The job crashed its worker at each try.", EX_SOFTWARE,
                       KILN_RETRY_NEVER},
    [KILN_NOT_FINITE] = {"not_finite", "The picture has values that are not finite numbers.",
                         EX_UNAVAILABLE, KILN_RETRY_ELSEWHERE},
};

static const struct code_row *row_of(int code)
{
    static const struct code_row unknown = {"unknown", "An unknown error code.", EX_SOFTWARE,
                                            KILN_RETRY_NEVER};
    return code >= 0 && code < KILN_CODE_COUNT ? &rows[code] : &unknown;
}

const char *kiln_code_name(int code)
{
    return row_of(code)->name;
}
const char *kiln_code_sentence(int code)
{
    return row_of(code)->sentence;
}
int kiln_code_exit(int code)
{
    return row_of(code)->exit_status;
}
enum kiln_retry kiln_code_retry(int code)
{
    return row_of(code)->retry;
}
bool kiln_code_retryable(int code)
{
    enum kiln_retry retry = kiln_code_retry(code);
    return retry == KILN_RETRY_LATER || retry == KILN_RETRY_ELSEWHERE;
}

int kiln_code_by_name(const char *name)
{
    for (int code = 0; code < KILN_CODE_COUNT; code++)
        if (strcmp(rows[code].name, name) == 0)
            return code;
    return -1;
}

/* A sentence that was cut ends with a whole character, and text from elsewhere becomes valid UTF-8:
 * it goes into the ledger, into JSON and to a terminal. */
static void clean(char text[KILN_ERROR_TEXT_MAX], int len)
{
    if (len >= KILN_ERROR_TEXT_MAX)
        text[kiln_utf8_whole(text, KILN_ERROR_TEXT_MAX - 1)] = '\0';
    kiln_utf8_clean(text, strlen(text));
}

int kiln_fail(struct kiln_error *err, int code, const char *fmt, ...)
{
    if (err) {
        char text[KILN_ERROR_TEXT_MAX]; /* an argument may point into err->text */
        va_list args;
        va_start(args, fmt);
        int len = vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
        clean(text, len);
        err->code = code;
        memcpy(err->text, text, sizeof text);
    }
    return code;
}

int kiln_fail_in(struct kiln_error *err, const char *fmt, ...)
{
    if (!err)
        return KILN_INTERNAL;
    char what[KILN_ERROR_TEXT_MAX / 2];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return kiln_fail(err, err->code, "%s: %s", what, err->text);
}
