/* render.c - `kiln render`, `kiln tokenize`, `kiln bench quality` and `kiln bench engine` are
 * kiln-worker's: the same arguments go to it.
 *
 * So kiln itself stays free of LibTorch and starts in a few milliseconds.  Who names no model gets
 * that of KILN_MODEL or of the settings file, else the demo model; who names no size gets the one
 * that the model draws best.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/core/verbs.h"
#include "storage/daemon/config_file.h"

/* The value of --name, "" if it is the last word, or NULL. */
static const char *named(int argc, char **argv, const char *name)
{
    size_t len = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], name, len) != 0)
            continue;
        if (argv[i][len] == '=')
            return argv[i] + len + 1;
        if (argv[i][len] == '\0')
            return i + 1 < argc ? argv[i + 1] : "";
    }
    return NULL;
}

static bool asks_help(int argc, char **argv)
{
    return named(argc, argv, "--help") || named(argc, argv, "-h");
}

/* The model of whoever named none, malloc'd; NULL if there is none.  A picture without a queue
 * needs no settings: only a file that was named has to be one. */
static int usual_model(const struct kiln_cli *cli, const char *programs, char **ret,
                       struct kiln_error *err)
{
    struct kiln_config *config = NULL;
    int rc = kiln_config_load(cli->config_path, &config, NULL, err);
    if (rc && cli->config_path)
        return rc;
    *ret = NULL;
    if (rc == 0 && kiln_config_text(config, KILN_KEY_MODEL)[0])
        *ret = strdup(kiln_config_text(config, KILN_KEY_MODEL));
    kiln_config_free(config);
    if (!*ret)
        *ret = kiln_demo_model(programs);
    return 0;
}

/* The command line of kiln-worker as it grows. */
struct words {
    char *at[KILN_GIVEN_MAX];
    int count, argc;
    char **argv; /* what the user typed */
};
#define WORDS_ADDED 16 /* at most, by all that follows */

static void add(struct words *words, char *name, char *value)
{
    words->at[words->count++] = name;
    words->at[words->count++] = value;
}

/* Adds what lies with this program unless the user named another; takes the value. */
static void add_usual(struct words *words, char *name, char *value)
{
    if (value && !named(words->argc, words->argv, name))
        add(words, name, value);
    else
        free(value);
}

/* Whether the word behind this one is its value and no option, whatever it looks like. */
static bool takes_value(const char *word)
{
    static const char *const bare[] = {"--lossless", "--json", "--help", "--raw"};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcmp(word, bare[i]) == 0)
            return false;
    return strncmp(word, "--", 2) == 0 && !strchr(word, '=');
}

/* What every verb understands and kiln-worker does not is taken out of argv: -q, of which nothing
 * that is said here takes notice, and --config. */
static int take_globals(struct kiln_cli *cli, int *argc, char **argv, struct kiln_error *err)
{
    const char *path = NULL;
    int left = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < *argc)
            path = argv[++i];
        else if (strncmp(argv[i], "--config=", 9) == 0)
            path = argv[i] + 9;
        else if (strcmp(argv[i], "-q") != 0 && strcmp(argv[i], "--quiet") != 0) {
            argv[left++] = argv[i];
            if (takes_value(argv[i]) && i + 1 < *argc)
                argv[left++] = argv[++i];
        }
    }
    *argc = left;
    char *copy = path ? strdup(path) : NULL;
    if (path && !copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the settings");
    if (copy) {
        free(cli->config_path);
        cli->config_path = copy;
    }
    return 0;
}

int kiln_verb_render(struct kiln_cli *cli, int argc, char **argv)
{
    char programs[PATH_MAX], path[PATH_MAX], size[24];
    static char engine[] = "bench-engine"; /* as kiln-worker calls it */
    struct kiln_error err;
    bool measures = strcmp(argv[0], "engine") == 0; /* its --config is of another kind */
    if (kiln_program_dir(programs, &err) || (!measures && take_globals(cli, &argc, argv, &err)))
        return kiln_report(cli, &err);
    struct words words = {.argc = argc, .argv = argv};
    kiln_join(path, programs, "kiln-worker");
    if (argc + WORDS_ADDED > KILN_GIVEN_MAX)
        return kiln_usage(cli, "more than %d arguments", KILN_GIVEN_MAX - WORDS_ADDED);
    add(&words, path, measures ? engine : argv[0]);
    const char *model = named(argc, argv, "--model");
    if (measures && !model)
        model = named(argc, argv, "--config");
    char *usual = NULL;
    if (!model && usual_model(cli, programs, &usual, &err))
        return kiln_report(cli, &err);
    if (usual)
        add(&words, "--model", usual);
    model = model ? model : usual;
    if (!model && !asks_help(argc, argv))
        return kiln_usage(cli,
                          "--model DIR is missing: the settings name no model, and the demo model "
                          "does not lie beside %s",
                          programs);
    if (strcmp(argv[0], "quality") == 0) {
        add_usual(&words, "--judge", kiln_judge_model(programs));
        add_usual(&words, "--lists", kiln_quality_lists(programs));
    }
    /* Models are square by nature; what is named comes later, and so replaces it. */
    if (strcmp(argv[0], "render") == 0 && model && kiln_model_size(model, size, sizeof size)) {
        *strchr(size, 'x') = '\0';
        add(&words, "--width", size);
        add(&words, "--height", size);
    }
    static char json[] = "--json";
    char **rest = words.at + words.count;
    memcpy(rest, argv + 1, (size_t)(argc - 1) * sizeof *argv);
    rest += argc - 1;
    if (cli->json && !named(argc, argv, json))
        *rest++ = json;
    *rest = NULL;
    signal(SIGPIPE, SIG_DFL);
    execv(path, words.at);
    kiln_warn(cli, "start %s: %s", path, strerror(errno));
    for (int i = 3; i < words.count; i += 2)
        if (words.at[i] != size)
            free(words.at[i]);
    return EX_UNAVAILABLE;
}
