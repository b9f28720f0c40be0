/* paths.c - directories and files that several verbs look for.
 *
 * Programs and the demo model are found from the directory of this program, so a build tree, an
 * installation and a copy of either need no setting.
 */
#include "scheduler/cli/core/paths.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/formats/card/model_card.h"

char *kiln_join(char *out, const char *dir, const char *name)
{
    if (snprintf(out, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        out[0] = '\0';
    return out;
}

static int make_one(const char *path, struct kiln_error *err)
{
    struct stat st;
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        return 0;
    int code = errno == ENOSPC ? KILN_FULL : errno == EACCES ? KILN_DENIED : KILN_IO;
    return kiln_fail(err, code, "make directory %s: %s", path,
                     errno == EEXIST ? "a file has that name" : strerror(errno));
}

int kiln_make_path(const char *path, struct kiln_error *err)
{
    char upto[PATH_MAX];
    if (path[0] == '\0' || snprintf(upto, sizeof upto, "%s", path) >= PATH_MAX - 512)
        return kiln_fail(err, KILN_BAD_INPUT, "%s: the path is %s", path,
                         path[0] ? "too long" : "empty");
    for (char *slash = strchr(upto + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int rc = make_one(upto, err);
        *slash = '/';
        if (rc)
            return rc;
    }
    return make_one(path, err);
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void kiln_remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int kiln_program_dir(char *out, struct kiln_error *err)
{
    ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (len <= 0)
        return kiln_fail(err, KILN_IO, "read /proc/self/exe: %s", strerror(errno));
    out[len] = '\0';
    *strrchr(out, '/') = '\0';
    return 0;
}

char *kiln_find_shipped(const char *program_dir, const char *tree, const char *share,
                        const char *probe)
{
    const char *const places[] = {tree, share};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[PATH_MAX], file[PATH_MAX];
        kiln_join(path, program_dir, places[i]);
        if (access(kiln_join(file, path, probe), R_OK) == 0)
            return realpath(path, NULL);
    }
    return NULL;
}

char *kiln_demo_model(const char *program_dir)
{
    return kiln_find_shipped(program_dir, "../pipeline/models/sketch",
                             "../share/kiln/models/sketch", "model_index.json");
}

bool kiln_model_size(const char *model, char *out, size_t size)
{
    const uint32_t side = kiln_model_side(model);
    if (side > 0)
        snprintf(out, size, "%" PRIu32 "x%" PRIu32, side, side);
    return side > 0;
}
