/* doctor_machine.c - `kiln doctor` on this machine: model, GPU, guarded workers, settings file. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/fleet/units.h"
#include "scheduler/cli/fleet/worker_show.h"
#include "scheduler/cli/stack/guard.h"
#include "scheduler/cli/upkeep/doctor.h"

#define STOPPED_ADVICE                                                                             \
    "see why: `kiln worker logs NAME`; then start it again: `kiln worker start NAME`"

/* --- the model -------------------------------------------------------------------------------- */

/* Whether a part of the model has its config and its weights; path is the file that is missing. */
static bool part_is_there(const char *dir, char path[PATH_MAX])
{
    if (access(kiln_join(path, dir, "config.json"), R_OK) != 0)
        return false;
    DIR *files = opendir(dir);
    bool weights = false, readable = true;
    for (struct dirent *entry; files && readable && (entry = readdir(files));) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".safetensors") != 0)
            continue;
        weights = true;
        readable = access(kiln_join(path, dir, entry->d_name), R_OK) == 0;
    }
    int error = files && readable && !weights ? ENOENT : errno;
    if (files)
        closedir(files);
    if (readable && !weights)
        kiln_join(path, dir, "*.safetensors");
    errno = error;
    return weights && readable;
}

/* Fills path with the first file of the model that is not as it should be. */
static bool model_is_whole(const char *model, char path[PATH_MAX])
{
    static const char *const parts[] = {"transformer", "text_encoder", "vae"};
    char dir[PATH_MAX];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!part_is_there(kiln_join(dir, model, parts[i]), path))
            return false;
    if (access(kiln_join(path, model, "scheduler/scheduler_config.json"), R_OK) != 0)
        return false;
    kiln_join(dir, model, "tokenizer");
    return access(kiln_join(path, dir, "tokenizer.json"), R_OK) == 0 ||
           (access(kiln_join(path, dir, "vocab.json"), R_OK) == 0 &&
            access(kiln_join(path, dir, "merges.txt"), R_OK) == 0 &&
            access(kiln_join(path, dir, "tokenizer_config.json"), R_OK) == 0);
}

void kiln_doctor_model(struct kiln_doctor *doctor)
{
    const struct kiln_config *config = doctor->cli->config;
    const char *model = kiln_config_text(config, KILN_KEY_MODEL);
    const char *engine = kiln_config_text(config, KILN_KEY_ENGINE);
    char path[PATH_MAX];
    if (strcmp(engine, "testcard") == 0) {
        kiln_finding(doctor, "model", VERDICT_WARNING, "set engine = pipeline to render prompts",
                     "the engine is testcard: every picture is a test card");
        return;
    }
    if (strcmp(engine, "random") == 0)
        kiln_finding(doctor, "engine", VERDICT_WARNING, "set engine = pipeline to render prompts",
                     "the engine is random: every picture is noise");
    if (!model[0])
        kiln_finding(doctor, "model", VERDICT_BAD,
                     "set model = DIR, a directory in the diffusers layout",
                     "no model is configured");
    else if (model_is_whole(model, path))
        kiln_finding(doctor, "model", VERDICT_OK, "", "%s", model);
    else
        kiln_finding(doctor, "model", VERDICT_BAD,
                     "set model to a directory in the diffusers layout that workers may read",
                     "%s: %s", path, strerror(errno));
}

/* --- devices, workers, files ------------------------------------------------------------------ */

/* The device file must open, and our CUDA library must be there. */
static void check_cuda(struct kiln_doctor *doctor, unsigned number)
{
    char node[64], library[PATH_MAX], bin[PATH_MAX], driver[64] = "", line[256];
    struct kiln_error err;
    snprintf(node, sizeof node, "/dev/nvidia%u", number);
    FILE *file = fopen("/proc/driver/nvidia/version", "re"); /* "Kernel Module  580.65" */
    const char *at = file && fgets(line, sizeof line, file) ? strstr(line, "Kernel Module") : NULL;
    if (at)
        (void)sscanf(at, "Kernel Module%*[^0-9]%63[0-9.]", driver);
    if (file)
        fclose(file);
    if (!driver[0])
        kiln_finding(doctor, "gpu", VERDICT_BAD, "install the driver, or set device = cpu",
                     "device is cuda:%u, but this machine has no NVIDIA driver", number);
    else if (access(node, R_OK | W_OK) != 0)
        kiln_finding(doctor, "gpu", VERDICT_BAD,
                     "see `nvidia-smi -L`; a container must be given the device", "%s: %s", node,
                     strerror(errno));
    else if (kiln_program_dir(bin, &err) == 0 &&
             access(kiln_join(library, bin, "libkiln_cuda.so"), R_OK) != 0 &&
             access(kiln_join(library, bin, "../lib/kiln/libkiln_cuda.so"), R_OK) != 0)
        kiln_finding(doctor, "gpu", VERDICT_BAD,
                     "build Kiln where nvcc is installed, then install it here",
                     "there is no libkiln_cuda.so beside %s", bin);
    else
        kiln_finding(doctor, "gpu", VERDICT_OK, "", "%s, driver %s", node, driver);
}

void kiln_doctor_device(struct kiln_doctor *doctor)
{
    const char *at = kiln_config_text(doctor->cli->config, KILN_KEY_DEVICE);
    for (unsigned number; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (sscanf(at, "cuda:%u", &number) == 1)
            check_cuda(doctor, number);
}

static bool read_plan(const char *dir, struct kiln_stack *stack, struct kiln_guard_plan *plan)
{
    struct kiln_error err;
    char path[PATH_MAX];
    return access(kiln_join(path, dir, KILN_GUARD_PLAN), R_OK) == 0 &&
           kiln_stack_open(stack, dir, false, &err) == 0 && kiln_guard_read(stack, plan, &err) == 0;
}

/* Workers that are units of systemd. */
static void check_units(struct kiln_doctor *doctor)
{
    struct kiln_unit *units = kiln_units_here() ? calloc(KILN_GUARD_MAX, sizeof *units) : NULL;
    struct kiln_error err;
    int count = 0;
    if (units && kiln_units_list(units, &count, &err))
        kiln_finding(doctor, "crew", VERDICT_WARNING, "", "%s", err.text);
    for (int i = 0; i < count; i++)
        if (strcmp(units[i].line.state, "given_up") == 0)
            kiln_finding(doctor, "crew", VERDICT_BAD, STOPPED_ADVICE, "worker %s was stopped: %s",
                         units[i].line.name, units[i].line.reason);
    free(units);
}

void kiln_doctor_guard(struct kiln_doctor *doctor)
{
    struct kiln_stack stack;
    struct kiln_guard_plan *plan = malloc(sizeof *plan);
    char *conf = doctor->cli->config_path ? realpath(doctor->cli->config_path, NULL) : NULL;
    int wanted = 0;
    if (conf)
        *strrchr(conf, '/') = '\0';
    /* The directory of kiln.conf, or the one that `kiln worker` uses without --dir. */
    bool found =
        plan && ((conf && read_plan(conf, &stack, plan)) || read_plan(".kiln", &stack, plan));
    free(conf);
    for (int i = 0; found && i < plan->count; i++) {
        struct kiln_guard_report report;
        wanted += plan->at[i].wanted;
        if (plan->at[i].wanted && kiln_guard_report(&stack, plan->at[i].name, &report) &&
            strcmp(report.state, "given_up") == 0)
            kiln_finding(doctor, "crew", VERDICT_BAD, STOPPED_ADVICE, "worker %s was stopped: %s",
                         plan->at[i].id, report.reason);
    }
    if (wanted && !kiln_guard_find(&stack))
        kiln_finding(doctor, "crew", VERDICT_WARNING,
                     "start the guard: `kiln up` (a private stack) or `kiln worker start`",
                     "no guard is running, so %s of this machine will not be restarted",
                     KILN_COUNT((uint64_t)wanted, "worker"));
    free(plan);
    check_units(doctor);
}

void kiln_doctor_files(struct kiln_doctor *doctor, bool fix)
{
    struct stat st;
    const struct kiln_cli *cli = doctor->cli;
    const char *conninfo = kiln_config_text(cli->config, KILN_KEY_POSTGRES);
    bool secret = strstr(conninfo, "password=") || strstr(conninfo, "://");
    const int swept = fix ? kiln_socket_dirs_sweep() : 0;
    if (swept > 0)
        kiln_finding(doctor, "sockets", VERDICT_OK, "", "removed %s of stacks that no longer exist",
                     KILN_COUNT((uint64_t)swept, "socket folder"));
    if (!cli->config_path || !secret || stat(cli->config_path, &st) != 0 || !(st.st_mode & 077))
        return;
    if (fix && chmod(cli->config_path, st.st_mode & 0700) == 0)
        kiln_finding(doctor, "files", VERDICT_OK, "", "closed %s to other users", cli->config_path);
    else
        kiln_finding(
            doctor, "files", VERDICT_WARNING,
            "run `kiln doctor --fix` or chmod 600; better: put the password into a passfile",
            "other users may read %s, which may contain a password", cli->config_path);
}
