/* args.c - the options of a verb, by its table.
 *
 * Options and words may stand in any order, as people type them; "--" ends the options and a single
 * "-" is a word (stdin).  Values are kept in the order given, because some options may be repeated
 * (--set) and the others let the last one win, so a line from the history can be corrected at its
 * end. Nothing is copied: values and words point into argv.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/cli.h"
#include "schemas/names.h"

#define OPTIONS_MAX 48

/* name is not terminated: it may end at a "=". */
static const struct kiln_option *find_in(const struct kiln_option *table, const char *name,
                                         size_t len)
{
    for (const struct kiln_option *o = table; o && o->name; o++)
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    return NULL;
}

static const struct kiln_option *find_option(const struct kiln_verb *verb, const char *name,
                                             size_t len)
{
    const struct kiln_option *option = find_in(verb->options, name, len);
    return option ? option : find_in(verb->also, name, len);
}

/* Appends the names of a table to names[OPTIONS_MAX + ...]; returns the new count. */
static int add_names(const struct kiln_option *table, const char **names, int count)
{
    for (const struct kiln_option *o = table; o && o->name && count < OPTIONS_MAX; o++)
        names[count++] = o->name;
    return count;
}

/* Names the nearest option of the verb, the global ones and the settings, all of which could be
 * meant. */
static int refuse_option(const struct kiln_cli *cli, const char *text)
{
    char word[64];
    const char *name = text + strspn(text, "-");
    size_t len = strcspn(name, "=");
    if (len >= sizeof word)
        return kiln_usage(cli, "unknown option %.60s...", text);
    memcpy(word, name, len);
    word[len] = '\0';
    const char *names[OPTIONS_MAX + KILN_KEY_COUNT] = {"json", "quiet", "help", "version",
                                                       "config"};
    int count = add_names(cli->verb->options, names, 5);
    count = add_names(cli->verb->also, names, count);
    for (int key = 0; key < KILN_KEY_COUNT; key++)
        names[count++] = kiln_keys[key].name;
    const char *near = kiln_nearest(word, len, names, (size_t)count);
    if (near && strcmp(near, word) == 0 && name[len] == '=') /* alone, main.c takes it */
        return kiln_usage(cli, "--%s takes no value", word);
    if (near)
        return kiln_usage(cli, "unknown option %.*s; did you mean --%s?", (int)(name + len - text),
                          text, near);
    return kiln_usage(cli, "unknown option %s", text);
}

/* Reads the option at argv[*at]; *at moves on if its value is the next argument. */
static int take_option(struct kiln_cli *cli, int argc, char **argv, int *at, struct kiln_args *args)
{
    const char *name = argv[*at] + 2;
    size_t len = strcspn(name, "=");
    const struct kiln_option *option = find_option(cli->verb, name, len);
    if (!option || strncmp(argv[*at], "--", 2) != 0)
        return refuse_option(cli, argv[*at]);
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    if (!option->value && value)
        return kiln_usage(cli, "--%s takes no value", option->name);
    if (option->value && !value) {
        if (*at + 1 >= argc)
            return kiln_usage(cli, "--%s needs a value: %s", option->name, option->value);
        value = argv[++*at];
    }
    if (args->given_count == KILN_GIVEN_MAX)
        return kiln_usage(cli, "more than %d options", KILN_GIVEN_MAX);
    args->given[args->given_count].option = option;
    args->given[args->given_count++].value = value ? value : "";
    return 0;
}

int kiln_args_parse(struct kiln_cli *cli, int argc, char **argv, int min, int max,
                    struct kiln_args *ret)
{
    memset(ret, 0, sizeof *ret);
    int kept = 0;
    bool ended = false;
    for (int i = 1; i < argc; i++) {
        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (ended || argv[i][0] != '-' || argv[i][1] == '\0') { /* "-" is stdin */
            argv[1 + kept++] = argv[i];
        } else {
            int status = take_option(cli, argc, argv, &i, ret);
            if (status)
                return status;
        }
    }
    ret->rest = argv + 1;
    ret->rest_count = kept;
    if (kept < min)
        return kiln_usage(cli, "an argument is missing: kiln %s %s", cli->verb->name,
                          cli->verb->args);
    if (kept > max)
        return kiln_usage(cli, "unexpected argument '%s'", argv[1 + max]);
    return 0;
}

const char *kiln_arg(const struct kiln_args *args, const char *name)
{
    for (int i = args->given_count - 1; i >= 0; i--)
        if (strcmp(args->given[i].option->name, name) == 0)
            return args->given[i].value;
    return NULL;
}

int kiln_args_only(struct kiln_cli *cli, const struct kiln_args *args, const char *options,
                   const char *what)
{
    for (int i = 0; i < args->given_count; i++) {
        const char *name = args->given[i].option->name;
        char blanks[64];
        snprintf(blanks, sizeof blanks, " %s ", name);
        if (!strstr(options, blanks))
            return kiln_usage(cli, "`%s` takes no --%s", what, name);
    }
    return 0;
}

int kiln_arg_int(struct kiln_cli *cli, const struct kiln_args *args, const char *name, long min,
                 long max, long fallback, long *ret)
{
    const char *text = kiln_arg(args, name);
    if (!text) {
        *ret = fallback;
        return 0;
    }
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max)
        return kiln_usage(cli, "--%s '%s' is not a whole number from %ld to %ld", name, text, min,
                          max);
    *ret = value;
    return 0;
}

/* In any locale the point is a point. */
static bool bytes_parse(const char *text, uint64_t *ret)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                 {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    double value = 0, part = 1;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (*at - '0');
    if (at == text || at - text > 18)
        return false;
    if (*at == '.') {
        if (at[1] < '0' || at[1] > '9')
            return false;
        for (at++; *at >= '0' && *at <= '9'; at++)
            value += (*at - '0') * (part /= 10);
    }
    at += *at == ' ';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(at, units[i].name) == 0 && value * units[i].bytes < 9e18) {
            *ret = (uint64_t)(value * units[i].bytes);
            return true;
        }
    return false;
}

int kiln_arg_bytes(struct kiln_cli *cli, const struct kiln_args *args, const char *name,
                   uint64_t *ret)
{
    const char *text = kiln_arg(args, name);
    if (!text || bytes_parse(text, ret))
        return 0;
    return kiln_usage(cli, "--%s: '%s' is not an amount of bytes, such as 500MB, 1.5TB or 2GiB",
                      name, text);
}

int kiln_arg_limit(struct kiln_cli *cli, const struct kiln_args *args, long *ret)
{
    return kiln_arg_int(cli, args, "limit", 1, 1000000000, 0, ret);
}

int kiln_arg_job(struct kiln_cli *cli, const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || text[0] < '0' || text[0] > '9' || *end || value == 0 || value > INT64_MAX)
        return kiln_usage(cli,
                          "'%s' is not a job id; `kiln jobs BATCH` lists them, `kiln show BATCH` "
                          "shows a batch",
                          text);
    *ret = value;
    return 0;
}

int kiln_arg_batch(struct kiln_cli *cli, const struct kiln_args *args, int at, const char **ret)
{
    const char *word = at < args->rest_count ? args->rest[at] : NULL;
    const char *option = kiln_arg(args, "batch");
    if (word && option)
        return kiln_usage(cli, "'%s' and --batch %s: name one of them", word, option);
    *ret = word ? word : option;
    return 0;
}

int kiln_arg_target(struct kiln_cli *cli, const struct kiln_args *args, int at,
                    struct kiln_target *ret)
{
    *ret = (struct kiln_target){0};
    int status = kiln_arg_batch(cli, args, at, &ret->batch);
    if (status || at >= args->rest_count || args->rest[at][strspn(args->rest[at], "0123456789")])
        return status;
    ret->batch = NULL;
    return kiln_arg_job(cli, args->rest[at], &ret->job);
}
