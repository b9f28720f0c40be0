/* doctor_machine.c - what `kiln doctor` looks at on this machine. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/fleet/units.h"
#include "scheduler/cli/fleet/worker_show.h"
#include "scheduler/cli/stack/crew.h"
#include "scheduler/cli/stack/side.h"
#include "scheduler/cli/upkeep/doctor.h"

#define MODEL_TO_DO "set model to a directory in the diffusers layout that workers may read"
#define ROOM_WARNING (1ull << 30)
#define ROOM_BAD (100ull << 20)
#define FILES_WARNING 20000 /* a picture is four files and two directories */
#define FILES_BAD 1000

/* --- the model -------------------------------------------------------------------------------- */

/* Whether a part of the model has its config and weights; path is the file that it is about. */
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

void kiln_doctor_model(struct kiln_doctor *doctor, const char *model)
{
    static const char *const parts[] = {"transformer", "text_encoder", "vae"};
    char dir[PATH_MAX], path[PATH_MAX];
    bool whole = true;
    for (size_t i = 0; whole && i < sizeof parts / sizeof *parts; i++)
        whole = part_is_there(kiln_join(dir, model, parts[i]), path);
    if (whole)
        whole = access(kiln_join(path, model, "scheduler/scheduler_config.json"), R_OK) == 0;
    kiln_join(dir, model, "tokenizer");
    if (whole && access(kiln_join(path, dir, "tokenizer.json"), R_OK) != 0)
        whole = access(kiln_join(path, dir, "vocab.json"), R_OK) == 0 &&
                access(kiln_join(path, dir, "merges.txt"), R_OK) == 0 &&
                access(kiln_join(path, dir, "tokenizer_config.json"), R_OK) == 0;
    if (whole)
        kiln_find(doctor, "model", KILN_FINDING_OK, "", "%s", model);
    else
        kiln_find(doctor, "model", KILN_FINDING_BAD, MODEL_TO_DO, "%s: %s", path, strerror(errno));
}

/* --- disks, devices, files -------------------------------------------------------------------- */

void kiln_doctor_room(struct kiln_doctor *doctor, const char *what, const char *path)
{
    struct statvfs fs;
    char room[32];
    if (statvfs(path, &fs) != 0) {
        kiln_find(doctor, what, KILN_FINDING_WARNING, "", "statvfs %s: %s", path, strerror(errno));
        return;
    }
    unsigned long long bytes = (unsigned long long)fs.f_bavail * fs.f_frsize;
    unsigned long long files =
        fs.f_files ? fs.f_favail : FILES_WARNING; /* 0: they are not counted */
    enum kiln_finding verdict = bytes < ROOM_BAD || files < FILES_BAD ? KILN_FINDING_BAD
                                : bytes < ROOM_WARNING || files < FILES_WARNING
                                    ? KILN_FINDING_WARNING
                                    : KILN_FINDING_OK;
    kiln_bytes_text((double)bytes, room, sizeof room);
    if (files < FILES_WARNING)
        kiln_find(doctor, what, verdict, KILN_MAKE_ROOM, "%s and %llu files free at %s", room,
                  files, path);
    else
        kiln_find(doctor, what, verdict, verdict == KILN_FINDING_OK ? "" : KILN_MAKE_ROOM,
                  "%s free at %s", room, path);
}

/* The driver's own words, "Kernel Module  580.65"; "" without a driver. */
static void driver_version(char out[64])
{
    char line[256];
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    out[0] = '\0';
    if (!file)
        return;
    const char *at = fgets(line, sizeof line, file) ? strstr(line, "Kernel Module") : NULL;
    fclose(file);
    if (at)
        (void)sscanf(at, "Kernel Module%*[^0-9]%63[0-9.]", out);
}

/* A device file that can be opened, and the library that draws on it. */
static void check_cuda(struct kiln_doctor *doctor, unsigned number)
{
    char node[64], library[PATH_MAX], bin[PATH_MAX], driver[64];
    struct kiln_error err;
    snprintf(node, sizeof node, "/dev/nvidia%u", number);
    driver_version(driver);
    if (!driver[0])
        kiln_find(doctor, "gpu", KILN_FINDING_BAD, "install the driver, or set device = cpu",
                  "device is cuda:%u, and this machine has no NVIDIA driver", number);
    else if (access(node, R_OK | W_OK) != 0)
        kiln_find(doctor, "gpu", KILN_FINDING_BAD,
                  "see `nvidia-smi -L`; a container needs the device handed in", "%s: %s", node,
                  strerror(errno));
    else if (kiln_program_dir(bin, &err) == 0 &&
             access(kiln_join(library, bin, "libkiln_cuda.so"), R_OK) != 0 &&
             access(kiln_join(library, bin, "../lib/kiln/libkiln_cuda.so"), R_OK) != 0)
        kiln_find(doctor, "gpu", KILN_FINDING_BAD, "build where nvcc is (`make`), and install",
                  "there is no libkiln_cuda.so beside %s", bin);
    else
        kiln_find(doctor, "gpu", KILN_FINDING_OK, "", "%s, driver %s", node, driver);
}

void kiln_doctor_device(struct kiln_doctor *doctor)
{
    const char *at = kiln_config_text(doctor->cli->config, KILN_KEY_DEVICE);
    for (unsigned number; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (sscanf(at, "cuda:%u", &number) == 1)
            check_cuda(doctor, number);
}

static bool is_crew(const char *dir, struct kiln_stack *stack, struct kiln_crew_plan *plan)
{
    struct kiln_error err;
    char path[PATH_MAX];
    return access(kiln_join(path, dir, "crew.json"), R_OK) == 0 &&
           kiln_stack_open(stack, dir, false, &err) == 0 && kiln_crew_read(stack, plan, &err) == 0;
}

/* Beside kiln.conf as in a stack, or where `kiln worker` keeps one without --dir. */
static bool find_crew(const struct kiln_doctor *doctor, struct kiln_stack *stack,
                      struct kiln_crew_plan *plan)
{
    char *conf = doctor->cli->config_path ? realpath(doctor->cli->config_path, NULL) : NULL;
    if (conf)
        *strrchr(conf, '/') = '\0';
    bool found = (conf && is_crew(conf, stack, plan)) || is_crew(".kiln", stack, plan);
    free(conf);
    return found;
}

/* The same where systemd keeps them. */
static void check_units(struct kiln_doctor *doctor)
{
    struct kiln_unit *units = kiln_units_here() ? calloc(KILN_CREW_MAX, sizeof *units) : NULL;
    struct kiln_error err;
    int count = 0;
    if (units && kiln_units_list(units, &count, &err))
        kiln_find(doctor, "crew", KILN_FINDING_WARNING, "", "%s", err.text);
    for (int i = 0; i < count; i++)
        if (strcmp(units[i].line.state, "given_up") == 0)
            kiln_find(doctor, "crew", KILN_FINDING_BAD,
                      "`kiln worker logs NAME` says more; `kiln worker start NAME` tries again",
                      "%s was given up: %s", units[i].line.name, units[i].line.reason);
    free(units);
}

void kiln_doctor_crew(struct kiln_doctor *doctor)
{
    struct kiln_stack stack;
    struct kiln_crew_plan *plan = malloc(sizeof *plan);
    int wanted = 0;
    bool found = plan && find_crew(doctor, &stack, plan);
    for (int i = 0; found && i < plan->count; i++) {
        struct kiln_hand_report report;
        wanted += plan->at[i].wanted;
        if (plan->at[i].wanted && kiln_hand_report(&stack, plan->at[i].name, &report) &&
            strcmp(report.state, "given_up") == 0)
            kiln_find(doctor, "crew", KILN_FINDING_BAD,
                      "`kiln worker logs NAME` says more; `kiln worker start NAME` tries again",
                      "%s was given up: %s", plan->at[i].name, report.reason);
    }
    if (wanted && !kiln_crew_find_guard(&stack))
        kiln_find(doctor, "crew", KILN_FINDING_WARNING,
                  "`kiln worker start` starts the guard again",
                  "%d workers of this machine have no guard", wanted);
    free(plan);
    check_units(doctor);
}

void kiln_doctor_files(struct kiln_doctor *doctor, bool fix)
{
    struct stat st;
    const struct kiln_cli *cli = doctor->cli;
    const char *conninfo = kiln_config_text(cli->config, KILN_KEY_POSTGRES);
    bool secret = strstr(conninfo, "password=") || strstr(conninfo, "://");
    const int swept = fix ? kiln_side_sweep() : 0;
    if (swept > 0)
        kiln_find(doctor, "sockets", KILN_FINDING_OK, "",
                  "%d socket folder%s of stacks that are gone %s removed", swept,
                  swept == 1 ? "" : "s", swept == 1 ? "was" : "were");
    if (!cli->config_path || !secret || stat(cli->config_path, &st) != 0 || !(st.st_mode & 077))
        return;
    if (fix && chmod(cli->config_path, st.st_mode & 0700) == 0)
        kiln_find(doctor, "files", KILN_FINDING_OK, "", "%s was open to others, and is not now",
                  cli->config_path);
    else
        kiln_find(doctor, "files", KILN_FINDING_WARNING,
                  "`kiln doctor --fix`, or chmod 600; better a passfile than a password there",
                  "others may read %s, which may hold a password", cli->config_path);
}
