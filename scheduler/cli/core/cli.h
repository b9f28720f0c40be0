/* cli.h - what every verb of the command `kiln` shares.
 *
 * A verb is a row of a table (verb_tables.h) and a function in a file of its own.  command.c takes
 * the global options out of the command line, loads the settings, reads the verb's own options and
 * calls the function.  It returns an exit status (sysexits.h): `return kiln_report(cli, &err)` for
 * an error, kiln_usage() for a wrong command line.
 *
 * Data goes to stdout, ids alone on their lines; every message goes to stderr through the
 * functions below.  Nothing here keeps global state.
 */
#ifndef KILN_CLI_H
#define KILN_CLI_H

#include <jansson.h>
#include <stdbool.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "schemas/text/utc.h"

struct kiln_args;
struct kiln_bus;
struct kiln_cli;
struct kiln_ledger;

/* One option of a verb, beside the global ones. */
struct kiln_option {
    const char *name;  /* without the dashes; NULL ends the array */
    const char *value; /* what stands for its value in the help; NULL: a switch */
    const char *help;
};

/* Which settings a verb starts with. */
enum kiln_settings {
    KILN_SETTINGS_FILE, /* flags > environment > file; a --config that is not there is an error */
    KILN_SETTINGS_BARE, /* flags > environment: the verb finds its own file */
    KILN_SETTINGS_LENIENT, /* as FILE, but wrong settings only fill config_error */
    KILN_SETTINGS_NONE,    /* none, and the arguments are not read either */
};

typedef int kiln_verb_function(struct kiln_cli *cli, const struct kiln_args *args);

struct kiln_verb {
    const char *name;
    const char *spelling;              /* another one that is accepted too; or NULL */
    const char *args;                  /* "BATCH [--timeout S]" */
    const char *summary;               /* one line */
    const char *more;                  /* further help, NULL for none */
    const char *examples;              /* lines, each a command and what it does */
    const struct kiln_option *options; /* NULL for none */
    const struct kiln_option *also;    /* a second table, of another verb it includes; or NULL */
    int words[2];                      /* how many stand behind the options: at least, at most */
    enum kiln_settings settings;
    /* Ended by NULL: the first words behind which nothing is read as an option; or NULL. */
    const char *const *untouched;
    /* The program beside this one that has the verb and gets the whole command line; run is NULL
     * then, but in that program. */
    const char *program;
    kiln_verb_function *run;
};

struct kiln_cli {
    /* The rows of all verbs, in the order of the help; NULL after the last. */
    const struct kiln_verb *(*verb_at)(size_t number);
    const struct kiln_verb *verb;
    struct kiln_config *config;     /* NULL only for KILN_SETTINGS_NONE */
    struct kiln_error config_error; /* LENIENT: what was wrong; code 0 if nothing */
    char *config_path;              /* the file that was read, or NULL; --config for BARE verbs */
    bool json, quiet;
    bool silent;   /* nobody reads stderr: a program that is no command gets the results alone */
    bool progress; /* stderr is a terminal and quiet is off */
    bool tty_out;  /* stdout is a terminal: headings and colours for people */
    int columns;   /* of that terminal, which listings fit; 0: there is none */
    bool color_out, color_err; /* a terminal, and NO_COLOR is not set */
};

/* --- arguments of a verb ---------------------------------------------------------------------- */
#define KILN_GIVEN_MAX 256  /* options of one command line */
#define KILN_WORDS_MAX 1000 /* words beside them */
struct kiln_args {
    struct {
        const struct kiln_option *option;
        const char *value;
    } given[KILN_GIVEN_MAX];
    int given_count;
    char **rest; /* the arguments that are not options, in order; for a verb that reads its options
                    itself everything that was typed, the verb's name first */
    int rest_count;
};
/* Reads argv by cli->verb's options; --name VALUE and --name=VALUE, "--" ends them.  Moves the
 * rest to the front of argv.  Between min and max words must be left.  0, or an exit status after
 * it has said what is wrong (an unknown option with the nearest known one). */
int kiln_args_parse(struct kiln_cli *cli, int argc, char **argv, int min, int max,
                    struct kiln_args *ret) KILN_MUST_CHECK;
/* The last value of an option, "" for a switch that was given, NULL if it was not. */
const char *kiln_arg(const struct kiln_args *args, const char *name);
/* Refuses options that a subcommand does not take.  options: those that it takes, each between
 * blanks; what: its name in the message.  0 or an exit status. */
int kiln_args_only(struct kiln_cli *cli, const struct kiln_args *args, const char *options,
                   const char *what) KILN_MUST_CHECK;
/* A whole number in [min, max]; fallback when the option was not given.  0 or an exit status. */
int kiln_arg_int(struct kiln_cli *cli, const struct kiln_args *args, const char *name, long min,
                 long max, long fallback, long *ret) KILN_MUST_CHECK;
/* An amount of bytes: digits, perhaps with a fraction and a unit, such as 500MB, 1.5TB or 2GiB.
 * 0 or an exit status; without the option *ret stays. */
int kiln_arg_bytes(struct kiln_cli *cli, const struct kiln_args *args, const char *name,
                   uint64_t *ret) KILN_MUST_CHECK;
/* --limit of a listing: at most so many rows, 0 for all of them.  0 or an exit status. */
int kiln_arg_limit(struct kiln_cli *cli, const struct kiln_args *args, long *ret) KILN_MUST_CHECK;
/* A job id as printed by kiln.  0 or an exit status. */
int kiln_arg_job(struct kiln_cli *cli, const char *text, uint64_t *ret) KILN_MUST_CHECK;
/* One job or one batch, the word number `at` behind the options: a number is a job, anything else a
 * batch.  --batch NAME says the same for any name. */
struct kiln_target {
    uint64_t job;      /* 0: a batch is meant */
    const char *batch; /* NULL: a job is meant; both unset: neither was named */
};
/* 0 or an exit status: --batch beside a word, a number that is no job id. */
int kiln_arg_target(struct kiln_cli *cli, const struct kiln_args *args, int at,
                    struct kiln_target *ret) KILN_MUST_CHECK;
/* The same where only a batch can be meant, so that its name may be a number; NULL: none was named.
 */
int kiln_arg_batch(struct kiln_cli *cli, const struct kiln_args *args, int at,
                   const char **ret) KILN_MUST_CHECK;

/* --- messages, all on stderr ------------------------------------------------------------------ */
void kiln_say(const struct kiln_cli *cli, const char *fmt, ...) KILN_PRINTF(2, 3); /* not with -q */
void kiln_warn(const struct kiln_cli *cli, const char *fmt, ...) KILN_PRINTF(2, 3); /* always */
/* Prints the error and what to do about it; returns the exit status of its code. */
int kiln_report(const struct kiln_cli *cli, const struct kiln_error *err);
/* Prints the complaint and where the help is; returns EX_USAGE. */
int kiln_usage(const struct kiln_cli *cli, const char *fmt, ...) KILN_PRINTF(2, 3);

/* Asks before something is destroyed, or stopped for everybody.  Whether to go on: yes (the option
 * --yes was given), or a person at a terminal agrees.  Where nobody can be asked it says what --yes
 * would do, and answers no.  A verb whose question was answered with no ends with EX_USAGE. */
bool kiln_confirm(const struct kiln_cli *cli, bool yes, const char *question);
bool kiln_can_ask(void); /* whether a person sits at a terminal */

/* --- output ----------------------------------------------------------------------------------- */
/* How objects are printed: numbers with nine digits, which are milliseconds of eleven days. */
#define KILN_JSON_PRINTED (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9))
/* One line of compact JSON on stdout; takes the reference.  0 or an exit status. */
int kiln_print_json(const struct kiln_cli *cli, json_t *value);
/* Whether stdout still takes output: a long listing stops when its reader has gone. */
bool kiln_stdout_ok(void);
/* Why not: errno as the first kiln_stdout_ok after the failure saw it, or 0; a later fflush finds
 * nothing left to write and does not know any more. */
int kiln_stdout_error(void);
/* "1.5 GB", "2 min 05 s" into out, which is returned; moments are in schemas/text/utc.h. */
const char *kiln_bytes_text(double bytes, char *out, size_t size);
const char *kiln_seconds_text(double seconds, char *out, size_t size);
/* "1 picture", "2 pictures", "1 batch", "0 batches". */
const char *kiln_count_text(uint64_t count, const char *noun, char *out, size_t size);
/* The same with a buffer that lasts as long as the block around them. */
#define KILN_BYTES(bytes) kiln_bytes_text((double)(bytes), (char[32]){""}, 32)
#define KILN_SECONDS(seconds) kiln_seconds_text((seconds), (char[32]){""}, 32)
#define KILN_COUNT(count, noun) kiln_count_text((count), (noun), (char[64]){""}, 64)
double kiln_now_s(void); /* monotonic */
void kiln_sleep_s(double seconds);

/* --- servers ---------------------------------------------------------------------------------- */
/* Opens and checks the ledger of the settings.  The error says which setting led there. */
int kiln_open_ledger(struct kiln_cli *cli, struct kiln_ledger **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* The same for questions only (storage/ledger/read/): the verbs that change nothing. */
int kiln_open_reader(struct kiln_cli *cli, struct kiln_ledger **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* The pool of the settings. */
const char *kiln_pool(const struct kiln_cli *cli);
int kiln_open_bus(struct kiln_cli *cli, struct kiln_bus **ret,
                  struct kiln_error *err) KILN_MUST_CHECK;

#endif
