/* main.c - kiln-worker: the daemon, and the verbs that render or tokenize without a queue. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "schemas/spin.h"
#include "schemas/telemetry/log.h"
#include "storage/daemon/config_flags.h"
#include "storage/daemon/hardening.h"
#include "worker/daemon.h"
#include "worker/numa.h"
#include "worker/sigbus.h"
#include "worker/verbs/verbs.h"

static const char usage[] =
    "Usage: kiln-worker [--id NAME] [--config FILE] [--SETTING VALUE]...\n"
    "       kiln-worker render | tokenize --help\n"
    "\n"
    "Renders the jobs of a pool on one device and stores the pictures.\n"
    "\n"
    "  --id NAME        one name, one worker; default HOST-DEVICE\n"
    "  --pool NAME      the queue it works for\n"
    "  --device DEVICE  cpu or cuda:N\n"
    "  --model DIR      diffusers layout\n"
    "  --engine NAME    pipeline, or testcard to run everything but the model\n"
    "`kiln help config` lists all settings; each is a flag here.\n"
    "\n"
    "Signals: TERM finishes the current batch within drain_s and returns the rest, a\n"
    "second one stops at the next step; HUP reads the settings again.\n"
    "\n"
    "Examples:\n"
    "  kiln-worker --config .kiln/kiln.conf --device cuda:0 --id gpu0\n"
    "  kiln-worker --config .kiln/kiln.conf --engine testcard\n";

/* --id is the only flag that is not a setting; anything else is refused. */
static int read_rest(const char **rest, int count, const char **ret_id, struct kiln_error *err)
{
    const char *left[2] = {NULL, NULL};
    for (int i = 0; i < count; i++) {
        if (strcmp(rest[i], "--id") == 0 && i + 1 < count)
            *ret_id = rest[++i];
        else if (strcmp(rest[i], "--id") == 0)
            return kiln_fail(err, KILN_CONFIG, "--id needs a name");
        else if (strncmp(rest[i], "--id=", 5) == 0)
            *ret_id = rest[i] + 5;
        else if (!left[0])
            left[0] = rest[i];
    }
    return left[0] ? kiln_config_flags_refuse(left, 1, err) : 0;
}

/* The settings say how to log, so an error in them goes to stderr as plain text. */
static int run_daemon(int argc, char **argv)
{
    struct kiln_config *config = NULL;
    struct kiln_daemon_source source = {argc, argv};
    struct kiln_error err;
    const char *id = NULL;
    int count = 0;
    const char **rest = calloc((size_t)argc + 1, sizeof *rest);
    int code = rest ? kiln_config_flags(argc, argv, rest, &count, &config, &err)
                    : kiln_fail(&err, KILN_NO_MEMORY, "no memory for the arguments");
    int status = kiln_code_exit(code);
    if (code == 0 && (code = read_rest(rest, count, &id, &err)) != 0)
        status = EX_USAGE; /* a mistake on the command line, not a wrong setting */
    if (code == 0) {
        const char *format = kiln_config_text(config, KILN_KEY_LOG_FORMAT);
        kiln_log_setup("kiln-worker",
                       kiln_level_by_name(kiln_config_text(config, KILN_KEY_LOG_LEVEL)),
                       strcmp(format, "json") == 0);
        if (kiln_config_stray(config))
            kiln_log(KILN_LOG_WARNING, "setting_unknown",
                     kiln_f("what", "%s", kiln_config_stray(config)));
        kiln_harden(config);
        status = kiln_daemon_run(config, id, &source);
    } else {
        fprintf(stderr, "kiln-worker: %s\n", err.text);
    }
    kiln_config_free(config);
    free(rest);
    return status;
}

/* Executes this program again in the same process, by its path, since the link would name it "exe".
 * If that fails, continues as it is.  `kiln` sets the variable itself, so only other callers get
 * here. */
static void start_again(char **argv)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    if (len < 0)
        return;
    path[len] = '\0';
    (void)execv(path, argv);
}

int main(int argc, char **argv)
{
    if (kiln_spin_briefly())
        start_again(argv);
    kiln_sigbus_explain("kiln-worker");
    kiln_numa_order_gpus();
    if (argc > 1 && strcmp(argv[1], "render") == 0)
        return kiln_verb_render(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "tokenize") == 0)
        return kiln_verb_tokenize(argc - 1, argv + 1);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            return EX_OK;
        }
        if (strcmp(argv[i], "--version") == 0)
            return kiln_verb_version();
    }
    return run_daemon(argc, argv);
}
