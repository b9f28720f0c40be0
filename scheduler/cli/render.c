/* render.c - `kiln render` and `kiln tokenize` are kiln-worker's: the same arguments go to it.
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

#include "scheduler/cli/cli.h"
#include "scheduler/cli/paths.h"
#include "scheduler/cli/verbs.h"
#include "storage/config_file.h"

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

/* The model of whoever named none, malloc'd; NULL if there is none.  Settings that cannot be read
 * are no obstacle: a picture without a queue needs none of them. */
static char *usual_model(const char *programs)
{
    struct kiln_config *config = NULL;
    struct kiln_error err;
    char *model = NULL;
    if (kiln_config_load(NULL, &config, NULL, &err) == 0 &&
        kiln_config_text(config, KILN_KEY_MODEL)[0])
        model = strdup(kiln_config_text(config, KILN_KEY_MODEL));
    kiln_config_free(config);
    return model ? model : kiln_demo_model(programs);
}

int kiln_verb_render(struct kiln_cli *cli, int argc, char **argv)
{
    char programs[PATH_MAX], path[PATH_MAX];
    char *words[KILN_GIVEN_MAX];
    struct kiln_error err;
    if (kiln_program_dir(programs, &err))
        return kiln_report(cli, &err);
    kiln_join(path, programs, "kiln-worker");
    if (argc + 8 > KILN_GIVEN_MAX)
        return kiln_usage(cli, "more than %d arguments", KILN_GIVEN_MAX - 8);
    int count = 0;
    words[count++] = path;
    words[count++] = argv[0]; /* the verb */
    const char *given = named(argc, argv, "--model");
    char *model = given ? NULL : usual_model(programs), size[24];
    if (model) {
        words[count++] = "--model";
        words[count++] = model;
        given = model;
    }
    if (strcmp(argv[0], "render") == 0 && given && !named(argc, argv, "--width") &&
        !named(argc, argv, "--height") && kiln_model_size(given, size, sizeof size)) {
        *strchr(size, 'x') = '\0'; /* models are square by nature */
        words[count++] = "--width";
        words[count++] = size;
        words[count++] = "--height";
        words[count++] = size;
    }
    memcpy(words + count, argv + 1, (size_t)(argc - 1) * sizeof *argv);
    words[count + argc - 1] = NULL;
    signal(SIGPIPE, SIG_DFL);
    execv(path, words);
    kiln_warn(cli, "start %s: %s", path, strerror(errno));
    free(model);
    return EX_UNAVAILABLE;
}
