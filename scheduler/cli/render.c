/* render.c - `kiln render` and `kiln tokenize` are kiln-worker's: the same arguments go to it.
 *
 * So kiln itself stays free of LibTorch and starts in a few milliseconds.  Who names no model gets
 * that of KILN_MODEL or of the settings file, else the demo model.
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

static bool names_model(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--model") == 0 || strncmp(argv[i], "--model=", 8) == 0)
            return true;
    return false;
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
    if (argc + 4 > KILN_GIVEN_MAX)
        return kiln_usage(cli, "more than %d arguments", KILN_GIVEN_MAX - 4);
    int count = 0;
    words[count++] = path;
    words[count++] = argv[0]; /* the verb */
    char *model = names_model(argc, argv) ? NULL : usual_model(programs);
    if (model) {
        words[count++] = "--model";
        words[count++] = model;
    }
    memcpy(words + count, argv + 1, (size_t)(argc - 1) * sizeof *argv);
    words[count + argc - 1] = NULL;
    signal(SIGPIPE, SIG_DFL);
    execv(path, words);
    kiln_warn(cli, "start %s: %s", path, strerror(errno));
    free(model);
    return EX_UNAVAILABLE;
}
