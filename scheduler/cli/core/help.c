/* help.c - the help texts: examples first, then options, nothing written twice.
 *
 * Everything is read from the tables of verbs and kiln_keys, and fitted to the terminal, to COLUMNS
 * or to 80 columns.  scripts/completion/kiln.bash and scripts/deb/man.py read this output with a
 * large COLUMNS: two spaces, the verb, two spaces or more; two spaces and an option.
 */
#include "scheduler/cli/core/help.h"

#include <string.h>
#include <sysexits.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/verbs.h"
#include "schemas/names.h"

#define VERBS_MAX 64

const struct kiln_verb *kiln_verb_find(const struct kiln_cli *cli, const char *name)
{
    const struct kiln_verb *verb;
    for (size_t i = 0; (verb = cli->verb_at(i)); i++)
        if (strcmp(verb->name, name) == 0 || (verb->spelling && strcmp(verb->spelling, name) == 0))
            return verb;
    return NULL;
}

/* Commands, each with what it is good for behind two blanks or more, where that goes on. */
static void print_examples(FILE *out, const char *text)
{
    while (text && *text) {
        int len = (int)strcspn(text, "\n"), hang = 4;
        for (int i = 2; i + 1 < len; i++)
            if (text[i - 1] == ' ' && text[i] == ' ' && text[i + 1] != ' ')
                hang = i + 3;
        kiln_help_print(out, hang, "  %.*s\n", len, text);
        text += len + (text[len] == '\n');
    }
}

static void print_paragraphs(FILE *out, const char *text)
{
    while (text && *text) {
        int len = (int)strcspn(text, "\n");
        kiln_help_print(out, 2, "  %.*s\n", len, text);
        text += len + (text[len] == '\n');
    }
}

void kiln_help_overview(const struct kiln_cli *cli, FILE *out)
{
    fputs("kiln - render files of prompts into a gallery\n\n", out);
    print_examples(out,
                   "kiln run prompts.jsonl --out gallery   prompts to pictures in one command");
    fputs("\nusage: kiln VERB [options]\n\n", out);
    const struct kiln_verb *verb;
    for (size_t i = 0; (verb = cli->verb_at(i)); i++)
        kiln_help_print(out, 13, "  %-10s %s\n", verb->name, verb->summary);
    kiln_help_print(
        out, 0,
        "\nEverywhere: --json, -q (quiet), --config FILE, --help, and every setting as a "
        "flag.\n"
        "`kiln help VERB` shows options and examples, `kiln help config` the settings, `kiln "
        "help job` the keys of a job line.\n"
        "Ids and data go to stdout, messages to stderr; exit codes are those of "
        "sysexits.h.\n");
}

/* One table; a verb may have two. */
static void print_options(FILE *out, const struct kiln_option *table)
{
    for (const struct kiln_option *option = table; option && option->name; option++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
        kiln_help_print(out, 29, "  %-26s %s\n", left, option->help);
    }
}

void kiln_help_verb(FILE *out, const struct kiln_verb *verb)
{
    kiln_help_print(out, 2, "kiln %s - %s\n", verb->name, verb->summary);
    kiln_help_print(out, 4, "\nusage: kiln %s%s%s\n", verb->name, verb->args[0] ? " " : "",
                    verb->args);
    if (verb->examples) {
        fputs("\nexamples:\n", out);
        print_examples(out, verb->examples);
    }
    if (verb->options || verb->also)
        fputs("\noptions:\n", out);
    print_options(out, verb->options);
    print_options(out, verb->also);
    if (verb->more) {
        fputc('\n', out);
        print_paragraphs(out, verb->more);
    }
    kiln_help_print(out, 2,
                    "\nalso: --json, -q, --config FILE, and the settings of `kiln help config`.\n");
}

/* The settings with type, default, value in force and where it came from. */
static void print_config(FILE *out, const struct kiln_config *config)
{
    kiln_help_print(out, 0,
                    "Settings, strongest first: a flag (--batch-max 8), the environment "
                    "(KILN_BATCH_MAX=8), the file (batch_max = 8).  The file is --config, then "
                    "KILN_CONFIG, then ./.kiln/kiln.conf, then /etc/kiln/kiln.conf.\n\n");
    for (int key = 0; key < KILN_KEY_COUNT; key++) {
        const struct kiln_key_row *row = &kiln_keys[key];
        char range[64] = "";
        if (row->type == KILN_TYPE_INT || row->type == KILN_TYPE_NUMBER)
            snprintf(range, sizeof range, " (%.10g..%.10g)", row->min, row->max);
        const bool choice = row->type == KILN_TYPE_CHOICE;
        kiln_help_print(out, 23, "  %-20s %s%s%s%s%s\n", row->name, row->help, choice ? " (" : "",
                        choice ? row->choices : "", choice ? ")" : "", range);
        kiln_help_print(out, 23, "  %-20s default: %s\n", "",
                        row->value[0] ? row->value : "(empty)");
        struct kiln_text value = {0};
        if (config)
            kiln_config_shown(config, (enum kiln_key)key, &value);
        if (value.at && strcmp(value.at, row->value) != 0)
            kiln_help_print(out, 23, "  %-20s now: %s  [%s]\n", "", value.at,
                            kiln_config_origin(config, (enum kiln_key)key));
        kiln_text_release(&value);
    }
}

/* The same table for programs. */
static int config_json(struct kiln_cli *cli)
{
    json_t *settings = json_array();
    for (int key = 0; key < KILN_KEY_COUNT; key++) {
        const struct kiln_key_row *row = &kiln_keys[key];
        struct kiln_text value = {0};
        kiln_config_shown(cli->config, (enum kiln_key)key, &value);
        json_array_append_new(settings,
                              json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", row->name, "default",
                                        row->value, "value", value.at ? value.at : "", "origin",
                                        kiln_config_origin(cli->config, (enum kiln_key)key), "help",
                                        row->help));
        kiln_text_release(&value);
    }
    return kiln_print_json(cli, settings);
}

int kiln_help_unknown(const struct kiln_cli *cli, const char *word)
{
    const char *names[VERBS_MAX];
    int count = 0;
    const struct kiln_verb *verb;
    for (size_t i = 0; (verb = cli->verb_at(i)) && count < VERBS_MAX; i++)
        names[count++] = verb->name;
    const char *near = kiln_nearest(word, strlen(word), names, (size_t)count);
    if (near)
        kiln_warn(cli, "there is no verb '%s'; did you mean 'kiln %s'?", word, near);
    else
        kiln_warn(cli, "there is no verb '%s'; `kiln help` lists them", word);
    return EX_USAGE;
}

int kiln_verb_help(struct kiln_cli *cli, const struct kiln_args *args)
{
    if (args->rest_count == 0) {
        kiln_help_overview(cli, stdout);
        return 0;
    }
    const char *what = args->rest[0];
    if (strcmp(what, "config") == 0) {
        if (cli->json)
            return config_json(cli);
        print_config(stdout, cli->config);
        return 0;
    }
    if (strcmp(what, "job") == 0)
        return kiln_help_job(cli);
    const struct kiln_verb *verb = kiln_verb_find(cli, what);
    if (!verb)
        return kiln_help_unknown(cli, what);
    kiln_help_verb(stdout, verb);
    return 0;
}
