/* messages.c - what people read on stderr, and the one way to stdout for JSON.
 *
 * A message is one line that names its subject; a second, indented line says what can be done.  -q
 * silences advice and progress, never an error.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/text_safe.h"
#include "schemas/clock.h"
#include "storage/bus/bus.h"
#include "storage/ledger/ledger.h"

/* One write a line, so that lines of several programs on one terminal do not mix.  Messages quote
 * what people typed.  On a terminal they go on behind the indent of what can be done. */
static void print_line(const char *before, const char *fmt, va_list args)
{
    char text[KILN_ERROR_TEXT_MAX * 2], line[sizeof text];
    struct kiln_text whole = {0}, shown = {0};
    vsnprintf(text, sizeof text, fmt, args);
    kiln_text_printf(&whole, "%s%s\n", before, kiln_safe_line(text, line, sizeof line));
    kiln_text_fit(&shown, whole.at ? whole.at : "", kiln_terminal_columns(STDERR_FILENO), 6);
    if (shown.at)
        fwrite(shown.at, 1, shown.len, stderr);
    kiln_text_release(&whole);
    kiln_text_release(&shown);
}

void kiln_say(const struct kiln_cli *cli, const char *fmt, ...)
{
    if (cli->quiet || cli->silent)
        return;
    va_list args;
    va_start(args, fmt);
    print_line("", fmt, args);
    va_end(args);
}

void kiln_warn(const struct kiln_cli *cli, const char *fmt, ...)
{
    if (cli->silent)
        return;
    va_list args;
    va_start(args, fmt);
    print_line(cli->color_err ? "\033[1mkiln:\033[0m " : "kiln: ", fmt, args);
    va_end(args);
}

/* What to try next, for the codes where that is the same every time. */
static const char *advice(const struct kiln_cli *cli, int code)
{
    bool looked = cli->verb && cli->verb->settings != KILN_SETTINGS_BARE; /* for a settings file */
    switch (code) {
    case KILN_UNAVAILABLE:
    case KILN_TIMEOUT:
        return cli->config_path && !looked ? "`kiln doctor` checks every server of the settings"
               : cli->config_path
                   ? "`kiln doctor` checks every server of the settings; `kiln up` starts a "
                     "private stack that was stopped"
               : looked ? "no settings file was found: `kiln up` starts a private stack here, "
                          "or name a file with --config FILE"
                        : NULL;
    case KILN_CONFIG:
        return "`kiln help config` shows every setting and where its value came from";
    case KILN_INTERNAL:
        return "this is a bug in Kiln; please report it with the line above";
    default:
        return NULL;
    }
}

int kiln_report(const struct kiln_cli *cli, const struct kiln_error *err)
{
    kiln_warn(cli, "%s", err->text);
    const char *next = advice(cli, err->code);
    if (next)
        kiln_say(cli, "      %s", next);
    return kiln_code_exit(err->code);
}

int kiln_usage(const struct kiln_cli *cli, const char *fmt, ...)
{
    va_list args;
    if (cli->silent)
        return EX_USAGE;
    va_start(args, fmt);
    print_line(cli->color_err ? "\033[1mkiln:\033[0m " : "kiln: ", fmt, args);
    va_end(args);
    if (cli->verb)
        kiln_say(cli, "      `kiln help %s` shows its options", cli->verb->name);
    return EX_USAGE;
}

/* --- questions -------------------------------------------------------------------------------- */

bool kiln_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

static bool ask(const char *question)
{
    char line[16];
    struct kiln_text whole = {0}, shown = {0};
    kiln_text_printf(&whole, "%s  Go on? [y/N] ", question);
    kiln_text_fit(&shown, whole.at ? whole.at : "", kiln_terminal_columns(STDERR_FILENO), 0);
    fputs(shown.at ? shown.at : question, stderr);
    kiln_text_release(&whole);
    kiln_text_release(&shown);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}

bool kiln_confirm(const struct kiln_cli *cli, bool yes, const char *question)
{
    if (yes || kiln_can_ask())
        return yes || ask(question);
    kiln_warn(cli, "%s  Nothing was changed. Add --yes to proceed", question);
    return false;
}

/* --- output ----------------------------------------------------------------------------------- */

int kiln_print_json(const struct kiln_cli *cli, json_t *value)
{
    if (!value) {
        kiln_warn(cli, "no memory for the JSON answer");
        return EX_OSERR;
    }
    char *text = json_dumps(value, KILN_JSON_PRINTED);
    if (text)
        kiln_print_safe(text); /* the escapes are those of JSON */
    bool written = text && fputc('\n', stdout) != EOF && kiln_stdout_ok();
    free(text);
    json_decref(value);
    return written ? 0 : EX_IOERR;
}

static int stdout_error; /* errno of the first write that failed */

bool kiln_stdout_ok(void)
{
    if (!ferror(stdout))
        return true;
    if (!stdout_error)
        stdout_error = errno;
    return false;
}

int kiln_stdout_error(void)
{
    return stdout_error;
}

const char *kiln_bytes_text(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (bytes >= 1000 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1000;
        unit++;
    }
    snprintf(out, size, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

const char *kiln_seconds_text(double seconds, char *out, size_t size)
{
    long whole = seconds < 0 ? 0 : (long)(seconds + 0.5);
    if (seconds < 10)
        snprintf(out, size, "%.1f s", seconds < 0 ? 0 : seconds);
    else if (whole < 60)
        snprintf(out, size, "%ld s", whole);
    else if (whole < 3600)
        snprintf(out, size, "%ld min %02ld s", whole / 60, whole % 60);
    else
        snprintf(out, size, "%ld h %02ld min", whole / 3600, whole % 3600 / 60);
    return out;
}

const char *kiln_count_text(uint64_t count, const char *noun, char *out, size_t size)
{
    size_t len = strlen(noun);
    const char *plural = count == 1                                     ? ""
                         : len > 2 && strcmp(noun + len - 2, "ch") == 0 ? "es"
                                                                        : "s";
    snprintf(out, size, "%" PRIu64 " %s%s", count, noun, plural);
    return out;
}

double kiln_now_s(void)
{
    return kiln_monotonic_ms() / 1e3;
}

void kiln_sleep_s(double seconds)
{
    struct timespec pause = {.tv_sec = (time_t)seconds,
                             .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
}

const char *kiln_pool(const struct kiln_cli *cli)
{
    return kiln_config_text(cli->config, KILN_KEY_POOL);
}

static int open_ledger(struct kiln_cli *cli, bool reading, struct kiln_ledger **ret,
                       struct kiln_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "kiln %s", cli->verb->name);
    struct kiln_ledger *ledger = NULL;
    int rc = reading ? kiln_ledger_open_reading(cli->config, name, 0, &ledger, err)
                     : kiln_ledger_open(cli->config, name, &ledger, err);
    if (rc == 0 && (rc = kiln_ledger_check(ledger, err)) != 0)
        kiln_ledger_close(ledger);
    /* As with the settings of a producer, who only enqueues. */
    if (rc == KILN_UNAVAILABLE && cli->config_path &&
        strcmp(kiln_config_origin(cli->config, KILN_KEY_POSTGRES), "default") == 0)
        return kiln_fail(err, rc,
                         "%s names no database (setting postgres), and none answers at the default "
                         "address: start it, or use the settings of a user who may read the "
                         "ledger, as in --config /etc/kiln/secrets/kiln_reader.conf",
                         cli->config_path);
    if (rc)
        return rc;
    *ret = ledger;
    return 0;
}

int kiln_open_ledger(struct kiln_cli *cli, struct kiln_ledger **ret, struct kiln_error *err)
{
    return open_ledger(cli, false, ret, err);
}

int kiln_open_reader(struct kiln_cli *cli, struct kiln_ledger **ret, struct kiln_error *err)
{
    return open_ledger(cli, true, ret, err);
}

int kiln_open_bus(struct kiln_cli *cli, struct kiln_bus **ret, struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    int rc = kiln_bus_open(cli->config, &bus, err);
    if (rc)
        return rc;
    rc = kiln_bus_ping(bus, err);
    if (rc) {
        kiln_bus_close(bus);
        return rc;
    }
    *ret = bus;
    return 0;
}
