/* directory.c - see directory.h.
 *
 * The list is read whole and sorted: some 30 bytes a file.  The new one is written beside it while
 * the batch is walked.
 */
#include "scheduler/cli/jobs/export/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/cli/core/paths.h"
#include "schemas/text/utc.h"
#include "storage/formats/json_bounds.h"
#include "storage/formats/replace.h"

#define LIST ".kiln-export"
#define LIST_MAX (2L << 30)
#define SHEET "sheet:" /* before the path of a contact sheet, which may be anywhere */

static const char *const folders[] = {"full", "512", "256", "latents"};

struct listed {
    const char *below;
    bool here; /* in this export too */
};

struct kiln_export_dir {
    char path[PATH_MAX];
    size_t made; /* of the path, where the first directory begins that was made here; 0: none */
    bool force, fresh, claimed, done;
    bool empty;      /* nothing was in it */
    bool unfinished; /* by the old list: an export that ended early has written more than it says */
    char *header, *claim; /* of the new list; while it is written */
    char *text;           /* of the old list */
    struct listed *old;   /* [count], sorted */
    size_t count;
    struct kiln_part part; /* the new list */
    FILE *list;            /* NULL: closed */
};

/* --- the old list ------------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->below, ((const struct listed *)b)->below);
}

static struct listed *find(const struct kiln_export_dir *dir, const char *below)
{
    struct listed wanted = {.below = below};
    return dir->count ? bsearch(&wanted, dir->old, dir->count, sizeof wanted, by_name) : NULL;
}

/* Whether an export writes files of such names: nobody who edits a list can have others removed. */
static bool is_ours(const char *below)
{
    const char *slash = strchr(below, '/');
    if (!slash)
        return strcmp(below, "results.jsonl") == 0 || strcmp(below, "index.html") == 0 ||
               strcmp(below, "grid.html") == 0 || strcmp(below, "answers.jsonl") == 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strlen(folders[i]) == (size_t)(slash - below) &&
            strncmp(below, folders[i], (size_t)(slash - below)) == 0)
            return slash[1] >= '0' && slash[1] <= '9' && !strchr(slash + 1, '/');
    return false;
}

static bool is_sheet(const char *name)
{
    return strncmp(name, SHEET "/", sizeof SHEET) == 0;
}

/* The lines behind the header. */
static int read_names(struct kiln_export_dir *dir, char *lines, struct kiln_error *err)
{
    size_t count = 0;
    for (const char *c = lines; c && *c; c++)
        count += *c == '\n';
    dir->old = calloc(count + 1, sizeof *dir->old);
    if (!dir->old)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the files of %s", dir->path);
    char *name;
    while ((name = strsep(&lines, "\n")) != NULL)
        if ((is_ours(name) || is_sheet(name)) && dir->count < count)
            dir->old[dir->count++].below = name;
    qsort(dir->old, dir->count, sizeof *dir->old, by_name);
    return 0;
}

/* Whether an earlier export wrote the file, or may have before it ended early. */
static bool is_known(const struct kiln_export_dir *dir, const char *below)
{
    return find(dir, below) || (dir->unfinished && is_ours(below));
}

/* --- whose it is -------------------------------------------------------------------------------
 */

static char *make_header(const struct kiln_export_owner *owner, bool unfinished)
{
    json_t *json = json_pack("{s:i, s:s, s:s, s:s, s:I}", "kiln_export", 1,
                             owner->search ? "search" : "batch", owner->batch, "pool", owner->pool,
                             "store", owner->store, "created_ms", (json_int_t)owner->created_ms);
    if (json && unfinished)
        json_object_set_new(json, "unfinished", json_true());
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static bool same(const json_t *header, const struct kiln_export_owner *owner, const char *key)
{
    const char *text = json_string_value(json_object_get(header, key));
    const char *mine = strcmp(key, "pool") == 0                        ? owner->pool
                       : strcmp(key, "store") == 0                     ? owner->store
                       : (strcmp(key, "search") == 0) == owner->search ? owner->batch
                                                                       : NULL;
    return text ? mine && strcmp(text, mine) == 0 : !mine;
}

/* Whether the header names the owner, if there is one to compare; else the error says whom it
 * names. */
static int check_owner(struct kiln_export_dir *dir, const char *line,
                       const struct kiln_export_owner *owner, struct kiln_error *err)
{
    const char *path = dir->path;
    json_t *header = json_loads(line, 0, NULL);
    const char *batch = json_string_value(json_object_get(header, "batch"));
    const char *search = json_string_value(json_object_get(header, "search"));
    const char *pool = json_string_value(json_object_get(header, "pool"));
    json_int_t created = json_integer_value(json_object_get(header, "created_ms"));
    char at[64];
    int rc = 0;
    dir->unfinished = json_is_true(json_object_get(header, "unfinished"));
    if (!pool || (!batch && !search))
        rc =
            kiln_fail(err, KILN_EXISTS,
                      "%s/" LIST " cannot be read; choose another directory, or add --force", path);
    else if (!owner)
        rc = 0;
    else if (!same(header, owner, "batch") || !same(header, owner, "search") ||
             !same(header, owner, "pool") || (owner->search && !same(header, owner, "store")))
        rc = kiln_fail(err, KILN_EXISTS,
                       "%s has the export of %s '%.128s' of pool %.64s; choose another directory, "
                       "or add --force",
                       path, batch ? "batch" : "the search", batch ? batch : search, pool);
    else if (created != owner->created_ms)
        rc = kiln_fail(err, KILN_EXISTS,
                       "%s has the export of another batch '%.128s', of %s; choose another "
                       "directory, or add --force",
                       path, batch ? batch : search, kiln_time_text(created, at, sizeof at));
    json_decref(header);
    return rc;
}

/* The first name in the directory, in the order of the alphabet; false: it is empty. */
static bool first_entry(const char *path, char ret[NAME_MAX + 1])
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    ret[0] = '\0';
    while (dir && (entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            (!ret[0] || strcmp(entry->d_name, ret) < 0))
            snprintf(ret, NAME_MAX + 1, "%s", entry->d_name);
    if (dir)
        closedir(dir);
    return ret[0] != '\0';
}

static int read_list(struct kiln_export_dir *dir, const struct kiln_export_owner *owner,
                     struct kiln_error *err)
{
    char entry[NAME_MAX + 1];
    struct stat st;
    int fd = kiln_open_below(dir->path, LIST);
    if (fd < 0) {
        dir->fresh = true;
        dir->empty = !first_entry(dir->path, entry);
        if (dir->force || dir->empty)
            return 0;
        return kiln_fail(err, KILN_EXISTS,
                         "%s has %s, and no export made the directory; choose another one, or add "
                         "--force",
                         dir->path, entry);
    }
    FILE *file = fstat(fd, &st) == 0 && st.st_size < LIST_MAX ? fdopen(fd, "r") : NULL;
    dir->text = file ? calloc(1, (size_t)st.st_size + 1) : NULL;
    size_t got = dir->text ? fread(dir->text, 1, (size_t)st.st_size, file) : 0;
    if (file)
        fclose(file);
    else
        close(fd);
    if (!dir->text || got < (size_t)st.st_size)
        return kiln_fail(err, KILN_IO, "read %s/" LIST, dir->path);
    char *lines = dir->text, *header = strsep(&lines, "\n");
    int rc = check_owner(dir, header, owner, err);
    if (rc && !dir->force)
        return rc;
    return read_names(dir, lines, err);
}

/* --- the contact sheet -------------------------------------------------------------------------
 */

/* SHEET and the absolute path, malloc'd. */
static int name_sheet(const char *path, char **ret, struct kiln_error *err)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    char *real = realpath(folder[0] ? folder : "/", NULL);
    if (!real)
        return kiln_fail(err, KILN_IO, "--sheet %s: the directory %s: %s; make it first", path,
                         folder, strerror(errno));
    const size_t size = sizeof SHEET + strlen(real) + strlen(file) + 1;
    *ret = malloc(size);
    if (*ret)
        snprintf(*ret, size, SHEET "%s/%s", strcmp(real, "/") == 0 ? "" : real, file);
    free(real);
    return *ret ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for the name of a sheet");
}

/* KILN_EXISTS: the file is there, and no export into this directory wrote it. */
static int check_sheet(const struct kiln_export_dir *dir, const char *path, const char *name,
                       struct kiln_error *err)
{
    struct stat st;
    if (dir->force || find(dir, name) || lstat(path, &st) != 0)
        return 0;
    return kiln_fail(err, KILN_EXISTS,
                     "--sheet %s is in the way, and no export into %s wrote it; move it, or add "
                     "--force",
                     path, dir->path);
}

int kiln_export_dir_sheet(struct kiln_export_dir *dir, const char *path, struct kiln_error *err)
{
    char *name = NULL;
    int rc = name_sheet(path, &name, err);
    rc = rc ? rc : check_sheet(dir, path, name, err);
    if (rc == 0 && !find(dir, name) && !strchr(name, '\n'))
        rc = kiln_export_dir_note(dir, name, err);
    free(name);
    return rc;
}

/* --- opening and closing -----------------------------------------------------------------------
 */

/* Whether the sheet lies below the directory, by their names alone. */
static bool lies_below(const char *sheet, const char *path)
{
    while (strncmp(sheet, "./", 2) == 0)
        sheet += 2;
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    return strncmp(sheet, path, len) == 0 && sheet[len] == '/';
}

int kiln_export_dir_check(const char *path, const struct kiln_export_owner *owner, bool force,
                          const char *sheet, struct kiln_error *err)
{
    struct kiln_export_dir dir = {.force = force, .part = {.dir = -1, .fd = -1}};
    char *name = NULL;
    snprintf(dir.path, sizeof dir.path, "%s", path);
    int rc = read_list(&dir, owner, err);
    if (rc == 0 && sheet && !(lies_below(sheet, path) && access(path, F_OK) != 0))
        rc = name_sheet(sheet, &name, err);
    if (rc == 0 && name)
        rc = check_sheet(&dir, sheet, name, err);
    free(name);
    free(dir.text);
    free(dir.old);
    return rc;
}

/* Where in the path the first directory begins that is not there; 0: all are. */
static size_t missing_from(const char *path)
{
    char upto[PATH_MAX];
    snprintf(upto, sizeof upto, "%s", path);
    size_t len = strlen(upto), missing = 0;
    while (len > 0 && access(upto, F_OK) != 0) {
        missing = len;
        while (len > 0 && upto[len - 1] != '/')
            len--;
        missing = len ? len : 1;
        while (len > 0 && upto[len - 1] == '/')
            len--;
        upto[len] = '\0';
    }
    return missing;
}

/* An interrupted export leaves a directory that the next one knows: the old list, as unfinished. */
static int claim(struct kiln_export_dir *dir, struct kiln_error *err)
{
    struct kiln_part part = {.dir = -1, .fd = -1};
    int rc = kiln_part_open_below(&part, dir->path, LIST, 0666, err);
    rc = rc ? rc : kiln_part_write(&part, dir->claim, strlen(dir->claim), err);
    for (size_t i = 0; i < dir->count && rc == 0; i++) {
        rc = kiln_part_write(&part, "\n", 1, err);
        rc = rc ? rc : kiln_part_write(&part, dir->old[i].below, strlen(dir->old[i].below), err);
    }
    rc = rc ? rc : kiln_part_write(&part, "\n", 1, err);
    if (rc) {
        kiln_part_drop(&part);
        return rc;
    }
    return kiln_part_keep(&part, false, err);
}

int kiln_export_dir_open(const char *path, const struct kiln_export_owner *owner, bool force,
                         struct kiln_export_dir **ret, struct kiln_error *err)
{
    struct kiln_export_dir *dir = calloc(1, sizeof *dir);
    if (!dir || !(dir->header = make_header(owner, false)) ||
        !(dir->claim = make_header(owner, true))) {
        free(dir ? dir->header : NULL);
        free(dir);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an export");
    }
    snprintf(dir->path, sizeof dir->path, "%s", path);
    dir->force = force;
    dir->part.dir = dir->part.fd = -1;
    dir->made = missing_from(path);
    int rc = kiln_make_path(path, err);
    rc = rc ? rc : read_list(dir, owner, err);
    dir->claimed = rc == 0;
    if (rc == 0)
        rc = claim(dir, err);
    if (rc) {
        kiln_export_dir_close(dir);
        return rc;
    }
    *ret = dir;
    return 0;
}

static void close_list(struct kiln_export_dir *dir)
{
    if (dir->list)
        fclose(dir->list);
    dir->list = NULL;
    kiln_part_drop(&dir->part);
}

/* Removes what is empty: folders, and if nothing but our own list is there, all that was made. */
static void leave_nothing(struct kiln_export_dir *dir)
{
    char path[PATH_MAX], entry[NAME_MAX + 1];
    for (size_t i = 0; i < sizeof folders / sizeof *folders && dir->claimed; i++)
        (void)rmdir(kiln_join(path, dir->path, folders[i]));
    if (dir->claimed && dir->fresh && dir->empty) {
        (void)unlink(kiln_join(path, dir->path, LIST));
        if (first_entry(dir->path, entry)) { /* downloads, which the next export keeps */
            struct kiln_error none;
            (void)!claim(dir, &none);
            return;
        }
    }
    snprintf(path, sizeof path, "%s", dir->path);
    for (size_t len = strlen(path); dir->made && len >= dir->made && rmdir(path) == 0;) {
        while (len > 0 && path[len - 1] != '/')
            len--;
        while (len > 0 && path[len - 1] == '/')
            len--;
        path[len] = '\0';
    }
}

void kiln_export_dir_close(struct kiln_export_dir *dir)
{
    if (!dir)
        return;
    close_list(dir);
    if (!dir->done)
        leave_nothing(dir);
    free(dir->header);
    free(dir->claim);
    free(dir->text);
    free(dir->old);
    free(dir);
}

/* --- the new list ------------------------------------------------------------------------------
 */

int kiln_export_dir_begin(struct kiln_export_dir *dir, struct kiln_error *err)
{
    close_list(dir);
    for (size_t i = 0; i < dir->count; i++) /* a sheet stays, as pages do */
        dir->old[i].here = is_sheet(dir->old[i].below);
    int rc = kiln_part_open_below(&dir->part, dir->path, LIST, 0666, err);
    if (rc)
        return rc;
    int own = dup(dir->part.fd);
    dir->list = own >= 0 ? fdopen(own, "w") : NULL;
    if (!dir->list) {
        if (own >= 0)
            close(own);
        return kiln_fail(err, KILN_IO, "open %s: %s", dir->part.path, strerror(errno));
    }
    fprintf(dir->list, "%s\n", dir->header);
    for (size_t i = 0; i < dir->count; i++)
        if (dir->old[i].here)
            fprintf(dir->list, "%s\n", dir->old[i].below);
    return 0;
}

int kiln_export_dir_note(struct kiln_export_dir *dir, const char *below, struct kiln_error *err)
{
    struct listed *old = find(dir, below);
    if (old)
        old->here = true;
    if (fprintf(dir->list, "%s\n", below) < 0)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", dir->part.path,
                         strerror(errno));
    return 0;
}

int kiln_export_dir_keep(struct kiln_export_dir *dir, const char *below, struct kiln_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (find(dir, below))
        return kiln_export_dir_note(dir, below, err);
    return is_known(dir, below) && lstat(kiln_join(path, dir->path, below), &st) == 0
               ? kiln_export_dir_note(dir, below, err)
               : 0;
}

int kiln_export_dir_may_write(const struct kiln_export_dir *dir, const char *below,
                              struct kiln_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (dir->force || is_known(dir, below) || lstat(kiln_join(path, dir->path, below), &st) != 0)
        return 0;
    return kiln_fail(err, KILN_EXISTS,
                     "%s is in the way, and no export wrote it; move it, or add --force", path);
}

int kiln_export_dir_list(struct kiln_export_dir *dir, struct kiln_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < dir->count; i++) /* until they are removed they are still ours */
        if (!dir->old[i].here && lstat(kiln_join(path, dir->path, dir->old[i].below), &st) == 0)
            fprintf(dir->list, "%s\n", dir->old[i].below);
    bool good = fflush(dir->list) == 0 && !ferror(dir->list);
    good = fclose(dir->list) == 0 && good;
    dir->list = NULL;
    if (!good)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", dir->part.path,
                         strerror(errno));
    dir->done = true;
    return kiln_part_keep(&dir->part, false, err);
}

uint64_t kiln_export_dir_clean(struct kiln_export_dir *dir)
{
    char path[PATH_MAX];
    struct stat st;
    uint64_t removed = 0;
    for (size_t i = 0; i < dir->count; i++) {
        int fd = dir->old[i].here ? -1 : kiln_open_below(dir->path, dir->old[i].below);
        if (fd < 0) /* gone already, or no regular file: not what was written */
            continue;
        close(fd);
        removed += unlink(kiln_join(path, dir->path, dir->old[i].below)) == 0;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (lstat(kiln_join(path, dir->path, folders[i]), &st) == 0 && S_ISDIR(st.st_mode))
            (void)rmdir(path); /* only if it is empty */
    return removed;
}
