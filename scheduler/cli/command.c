/* command.c - a command line: global options, settings, then one verb.
 *
 * Global options may stand before or behind the verb: --json, -q, --help, --version, --config and
 * every setting as a flag (`kiln help config`).  They are taken out here, so a verb sees only its
 * own.  The first word is the verb.  kiln and kiln-bench differ only in their verbs.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/help.h"
#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/stack/stack.h"
#include "scheduler/cli/verb_tables.h"
#include "schemas/spin.h"
#include "storage/daemon/config_flags.h"

extern char **environ;

struct command_line {
    int verb_at; /* index of the verb in argv, 0 when there is none */
    bool help, version;
    const char **left; /* argv[0], then what is not a global option */
    int left_count;
};

/* The switches that every verb has; returns whether text was one. */
static bool take_switch(struct kiln_cli *cli, struct command_line *line, const char *text)
{
    if (strcmp(text, "--json") == 0)
        cli->json = true;
    else if (strcmp(text, "-q") == 0 || strcmp(text, "--quiet") == 0)
        cli->quiet = true;
    else if (strcmp(text, "-h") == 0 || strcmp(text, "--help") == 0)
        line->help = true;
    else if (strcmp(text, "--version") == 0)
        line->version = true;
    else
        return false;
    return true;
}

/* The first word that is neither an option nor the value of one. */
static int find_verb(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            return i;
        static const char *const bare[] = {"--json", "-q", "--quiet", "-h", "--help", "--version"};
        bool takes_value = strchr(argv[i], '=') == NULL;
        for (size_t b = 0; b < sizeof bare / sizeof *bare; b++)
            takes_value = takes_value && strcmp(argv[i], bare[b]) != 0;
        i += takes_value;
    }
    return 0;
}

/* `--version` behind a verb that has an option of this name is that option. */
static bool is_own_version(const struct kiln_cli *cli, const struct command_line *line, int at,
                           const char *text)
{
    const struct kiln_option *o = line->verb_at && at > line->verb_at ? cli->verb->options : NULL;
    while (o && o->name && strcmp(o->name, "version") != 0)
        o++;
    return o && o->name && strcmp(text, "--version") == 0;
}

/* argv without the switches, in line->left; false when memory is short. */
static bool strip_switches(struct kiln_cli *cli, struct command_line *line, int argc, char **argv)
{
    line->left = calloc((size_t)argc + 1, sizeof *line->left);
    if (!line->left)
        return false;
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        ended = ended || strcmp(argv[i], "--") == 0;
        if (i == 0 || ended || is_own_version(cli, line, i, argv[i]) ||
            !take_switch(cli, line, argv[i]))
            line->left[line->left_count++] = argv[i];
    }
    return true;
}

/* The path behind --config, for verbs that find their own file. */
static char *config_flag(int argc, const char *const *argv)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--config=", 9) == 0)
            return strdup(argv[i] + 9);
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            return strdup(argv[i + 1]);
    }
    return NULL;
}

/* Loads the settings the verb asks for; words receives what is left for it. */
static int load_settings(struct kiln_cli *cli, const struct command_line *line, const char **words,
                         int *ret_count, struct kiln_error *err)
{
    char *const *argv = (char *const *)line->left;
    bool lenient = cli->verb->settings == KILN_SETTINGS_LENIENT;
    if (cli->verb->settings == KILN_SETTINGS_FILE || lenient) {
        int rc = kiln_config_flags_loose(line->left_count, argv, words, ret_count, &cli->config,
                                         &cli->config_path, err);
        /* Settings that contradict each other are only reported: `status` and `pause` must still
         * work.  Verbs that start programs refuse them. */
        if (rc == 0 && kiln_config_check(cli->config, err)) {
            if (lenient)
                cli->config_error = *err;
            else
                kiln_warn(cli, "%s", err->text);
        }
        if (rc == 0 || !lenient)
            return rc;
        cli->config_error = *err;
    }
    cli->config_path = config_flag(line->left_count, line->left);
    cli->config = kiln_config_new();
    if (!cli->config)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the settings");
    int rc = lenient ? 0 : kiln_config_environ(cli->config, environ, err);
    return rc ? rc
              : kiln_config_flags_lay(line->left_count, argv, words, ret_count, cli->config, err);
}

/* Whether the flags alone lead to the same error: then the command line must be corrected. */
static bool is_of_flags(const struct command_line *line, const char **words,
                        const struct kiln_error *found)
{
    struct kiln_config *config = kiln_config_new();
    struct kiln_error err = {0};
    int count;
    int rc = !config ? KILN_NO_MEMORY
                     : kiln_config_flags_lay(line->left_count, (char *const *)line->left, words,
                                             &count, config, &err);
    kiln_config_free(config);
    return rc == KILN_CONFIG && strcmp(err.text, found->text) == 0;
}

static int run_verb(struct kiln_cli *cli, struct command_line *line)
{
    struct kiln_args args;
    struct kiln_error err;
    int count = 0;
    const char **words = calloc((size_t)line->left_count + 1, sizeof *words);
    if (!words)
        return EX_OSERR;
    int status;
    if (load_settings(cli, line, words, &count, &err))
        status = is_of_flags(line, words, &err) ? kiln_usage(cli, "%s", err.text)
                                                : kiln_report(cli, &err);
    else if (kiln_devices_flag(cli->config, &err))
        status = kiln_usage(cli, "%s", err.text);
    else if (count == 0 || kiln_verb_find(cli, words[0]) != cli->verb)
        status = kiln_usage(cli, "put options after the verb: kiln %s --...", cli->verb->name);
    else {
        if (kiln_config_stray(cli->config))
            kiln_say(cli, "kiln: %s", kiln_config_stray(cli->config));
        const int *limits = cli->verb->words;
        status = kiln_args_parse(cli, count, (char **)words, limits[0], limits[1], &args);
        status = status ? status : cli->verb->run(cli, &args);
    }
    free(words);
    return status;
}

/* The first argument that is neither a switch nor a setting, NULL if there is none. */
static const char *find_stray(struct kiln_cli *cli, struct command_line *line, int argc,
                              char **argv)
{
    struct kiln_error err;
    struct kiln_config *config = kiln_config_new();
    const char **words = calloc((size_t)argc + 1, sizeof *words), *stray = NULL;
    int count = 0;
    if (config && words && strip_switches(cli, line, argc, argv) &&
        kiln_config_flags_lay(line->left_count, (char *const *)line->left, words, &count, config,
                              &err) == 0)
        stray = words[0];
    free(words);
    kiln_config_free(config);
    return stray;
}

/* What was typed has no verb in it. */
static int without_verb(struct kiln_cli *cli, struct command_line *line, int argc, char **argv)
{
    if (line->version) {
        printf("kiln %s\n", KILN_VERSION);
        return 0;
    }
    const char *stray = line->help ? NULL : find_stray(cli, line, argc, argv);
    if (stray)
        return kiln_usage(cli, "unknown option %s; `kiln help` lists verbs and options", stray);
    kiln_help_overview(cli, line->help ? stdout : stderr);
    return line->help ? 0 : EX_USAGE;
}

/* Help of a verb needs no settings, so a broken file cannot hide it. */
static int dispatch(struct kiln_cli *cli, struct command_line *line, int argc, char **argv)
{
    if (line->verb_at == 0)
        return without_verb(cli, line, argc, argv);
    cli->verb = kiln_verb_find(cli, argv[line->verb_at]);
    if (!cli->verb)
        return kiln_help_unknown(cli, argv[line->verb_at]);
    if (!cli->verb->run)
        return kiln_program_become(cli, cli->verb->program, argv);
    const char *next = line->verb_at + 1 < argc ? argv[line->verb_at + 1] : "";
    bool untouched = cli->verb->settings == KILN_SETTINGS_NONE;
    for (size_t i = 0; cli->verb->untouched && cli->verb->untouched[i]; i++)
        untouched = untouched || strcmp(cli->verb->untouched[i], next) == 0;
    if (untouched) {
        cli->config_path = config_flag(line->verb_at, (const char *const *)argv);
        const struct kiln_args typed = {.rest = argv + line->verb_at,
                                        .rest_count = argc - line->verb_at};
        return cli->verb->run(cli, &typed);
    }
    if (!strip_switches(cli, line, argc, argv))
        return EX_OSERR;
    if (line->help) {
        kiln_help_verb(stdout, cli->verb);
        return 0;
    }
    return run_verb(cli, line);
}

int kiln_command(int argc, char **argv, const struct kiln_verb *(*verb_at)(size_t number))
{
    signal(SIGPIPE, SIG_IGN);  /* a server that hangs up is an error to report, not a death */
    (void)kiln_spin_briefly(); /* for the workers that it starts */
    struct kiln_cli cli = {.verb_at = verb_at};
    struct command_line line = {.verb_at = find_verb(argc, argv)};
    for (int i = 1; i < argc && (line.verb_at == 0 || i < line.verb_at); i++)
        (void)take_switch(&cli, &line, argv[i]);
    for (int i = 1; i < argc; i++) /* before anything is said */
        cli.quiet = cli.quiet || strcmp(argv[i], "-q") == 0 || strcmp(argv[i], "--quiet") == 0;
    const char *no_color = getenv("NO_COLOR");
    bool color = !(no_color && no_color[0]);
    cli.columns = kiln_terminal_columns(STDOUT_FILENO);
    cli.tty_out = cli.columns > 0;
    cli.color_out = color && cli.tty_out;
    cli.color_err = color && isatty(STDERR_FILENO);
    cli.progress = isatty(STDERR_FILENO) && !cli.quiet;
    int status = dispatch(&cli, &line, argc, argv);
    kiln_config_free(cli.config);
    free(cli.config_path);
    free(line.left);
    /* A full disk must not look like success; a reader that has gone (`| head`) is no error to
     * name. */
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    int why = kiln_stdout_error() ? kiln_stdout_error() : errno;
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT}; /* a write in mid-output failed */
    if (!why)
        why = poll(&out, 1, 0) > 0 && (out.revents & POLLERR) ? EPIPE : EIO;
    if (why != EPIPE)
        fprintf(stderr, "kiln: write to stdout: %s\n", strerror(why));
    return status ? status : EX_IOERR;
}
