/* render.c - `kiln render` and `kiln tokenize`: kiln-worker does them, with the same arguments.
 *
 * So kiln itself loads no LibTorch and starts in a few milliseconds.  Without --model the model is
 * that of KILN_MODEL or of the settings file, else the demo model; without a size the picture has
 * the size that the model renders best.
 */
#include "scheduler/cli/jobs/render.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/core/programs.h"
#include "scheduler/cli/core/verbs.h"
#include "storage/daemon/config_file.h"

#define WORDS_ADDED 16 /* at most, by all that follows */

/* The value of --name, "" if it is the last word, or NULL. */
static char *named(int argc, char **argv, const char *name)
{
    size_t len = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], name, len) != 0)
            continue;
        if (argv[i][len] == '=')
            return argv[i] + len + 1;
        if (argv[i][len] == '\0')
            return i + 1 < argc ? argv[i + 1] : argv[i] + len;
    }
    return NULL;
}

/* What a setting says, malloc'd; NULL for nothing.  A picture without a queue needs no settings:
 * only a settings file that was named must exist. */
static int setting(const struct kiln_cli *cli, enum kiln_key key, char **ret,
                   struct kiln_error *err)
{
    struct kiln_config *config = NULL;
    int rc = kiln_config_load(cli->config_path, &config, NULL, err);
    *ret = NULL;
    if (rc && cli->config_path)
        return rc;
    if (rc == 0 && kiln_config_text(config, key)[0])
        *ret = strdup(kiln_config_text(config, key));
    kiln_config_free(config);
    return 0;
}

/* The model of a user who named none, malloc'd; NULL if there is none. */
static int default_model(const struct kiln_cli *cli, const char *programs, char **ret,
                         struct kiln_error *err)
{
    int rc = setting(cli, KILN_KEY_MODEL, ret, err);
    if (rc == 0 && !*ret)
        *ret = kiln_demo_model(programs);
    return rc;
}

/* Whether the word after this one is its value, whatever it looks like. */
static bool takes_value(const char *word)
{
    static const char *const bare[] = {"--lossless", "--json", "--help", "--raw", "--allow-empty"};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcmp(word, bare[i]) == 0)
            return false;
    return strncmp(word, "--", 2) == 0 && !strchr(word, '=');
}

/* Takes out of argv what every verb understands and these programs do not: -q, which changes
 * nothing here, and --config. */
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

int kiln_model_words_begin(struct kiln_cli *cli, int argc, char **argv, bool config_is_model,
                           struct kiln_model_words *ret)
{
    char programs[PATH_MAX], *usual = NULL;
    static char model[] = "--model";
    struct kiln_error err;
    if (kiln_program_dir(programs, &err) ||
        (!config_is_model && take_globals(cli, &argc, argv, &err)))
        return kiln_report(cli, &err);
    if (argc + WORDS_ADDED > KILN_GIVEN_MAX)
        return kiln_usage(cli, "more than %d arguments", KILN_GIVEN_MAX - WORDS_ADDED);
    *ret = (struct kiln_model_words){.at = {NULL, argv[0]}, .count = 2, .argc = argc, .argv = argv};
    ret->model = named(argc, argv, model);
    if (config_is_model && !ret->model)
        ret->model = named(argc, argv, "--config");
    if (ret->model)
        return 0;
    if (default_model(cli, programs, &usual, &err))
        return kiln_report(cli, &err);
    if (!usual && !named(argc, argv, "--help") && !named(argc, argv, "-h"))
        return kiln_usage(
            cli,
            "--model DIR is missing: the settings name no model, and there is no demo "
            "model beside %s",
            programs);
    ret->model = usual;
    kiln_model_words_default(ret, model, usual);
    return 0;
}

void kiln_model_words_default(struct kiln_model_words *words, char *name, char *value)
{
    if (!value || named(words->argc, words->argv, name)) {
        free(value);
        return;
    }
    words->at[words->count++] = name;
    words->at[words->count++] = value;
    words->defaults[words->default_count++] = value;
}

void kiln_model_words_end(struct kiln_model_words *words, const struct kiln_cli *cli)
{
    static char json[] = "--json";
    for (int i = 1; i < words->argc; i++)
        words->at[words->count++] = words->argv[i];
    if (cli->json && !named(words->argc, words->argv, json))
        words->at[words->count++] = json;
    words->at[words->count] = NULL;
}

void kiln_model_words_release(struct kiln_model_words *words)
{
    while (words->default_count > 0)
        free(words->defaults[--words->default_count]);
}

int kiln_verb_forward(struct kiln_cli *cli, const struct kiln_args *args)
{
    static char width[] = "--width", height[] = "--height";
    static char lora_dir[] = "--lora-dir", styles_file[] = "--styles";
    char size[24];
    struct kiln_model_words words;
    int status = kiln_model_words_begin(cli, args->rest_count, args->rest, false, &words);
    if (status)
        return status;
    const bool render = strcmp(args->rest[0], "render") == 0;
    char *loras = NULL, *styles = NULL;
    struct kiln_error err;
    if (render && (setting(cli, KILN_KEY_LORA_DIR, &loras, &err) ||
                   setting(cli, KILN_KEY_STYLES, &styles, &err))) {
        free(loras);
        kiln_model_words_release(&words);
        return kiln_report(cli, &err);
    }
    kiln_model_words_default(&words, lora_dir, loras);
    kiln_model_words_default(&words, styles_file, styles);
    /* Models render squares best; a side that the user gives comes later and overrides this. */
    if (render && words.model && !named(words.argc, words.argv, "--size") &&
        kiln_model_size(words.model, size, sizeof size)) {
        *strchr(size, 'x') = '\0';
        words.at[words.count++] = width;
        words.at[words.count++] = size;
        words.at[words.count++] = height;
        words.at[words.count++] = size;
    }
    kiln_model_words_end(&words, cli);
    status = kiln_program_become(cli, "kiln-worker", words.at);
    kiln_model_words_release(&words);
    return status;
}
