/* fp8_cache.c - reads, checks and writes the file; see fp8_cache.h.
 *
 * A faulty file never fails a load: the matrices are made from the weights instead.  Checksums are
 * sums of 64-bit words, computed on the device; they find bytes lost in a crash, so that the file
 * needs no fsync.
 */
#include "pipeline/weights/fp8_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "pipeline/torch/async.h"
#include "pipeline/torch/load.h"
#include "pipeline/weights/loading.h"
#include "pipeline/weights/stream.h"
#include "schemas/room.h"
#include "storage/formats/replace.h"
#include "storage/formats/safetensors.h"

#define FORMAT "kiln fp8 1"
#define ROOM_LEFT ((uint64_t)1 << 30) /* on the disk, beside the file */

struct matrix {
    char name[KILN_ST_NAME_MAX];
    kt rows;
    uint64_t sums[2]; /* of codes and factors */
};

struct kiln_fp8_cache {
    char path[PATH_MAX];
    char source[8192]; /* names, sizes and times of the weights' files */
    int device;
    struct kiln_st *st; /* NULL: nothing to read */
    struct kiln_weights_stream *stream;
    struct matrix *matrices;
    size_t count, capacity;
    bool made, lost; /* a matrix was made here; one did not fit into the list */
    char note[KILN_ERROR_TEXT_MAX];
};

/* Sets the note; the first one stays. */
KILN_PRINTF(2, 3) static void say(struct kiln_fp8_cache *c, const char *fmt, ...)
{
    va_list args;
    if (c->note[0])
        return;
    va_start(args, fmt);
    vsnprintf(c->note, sizeof c->note, fmt, args);
    va_end(args);
}

/* --- the source ----------------------------------------------------------------------- */

static int is_weights(const struct dirent *d)
{
    const size_t len = strlen(d->d_name), end = strlen(".safetensors");
    return len > end && strcmp(d->d_name + len - end, ".safetensors") == 0;
}

/* Adds the files of a folder to the text, and their bytes to *bytes.  Names are written to JSON
 * without escapes, so they must not need any. */
static bool add_folder(struct kiln_fp8_cache *c, const char *dir, const char *folder,
                       uint64_t *bytes)
{
    char path[PATH_MAX];
    struct dirent **files;
    snprintf(path, sizeof path, "%s/%s", dir, folder);
    const int n = scandir(path, &files, is_weights, alphasort);
    bool fits = n > 0;
    for (int i = 0; i < n; i++) {
        struct stat st;
        const size_t used = strlen(c->source), left = sizeof c->source - used;
        int len = snprintf(path, sizeof path, "%s/%s/%s", dir, folder, files[i]->d_name);
        fits = fits && len > 0 && (size_t)len < sizeof path && stat(path, &st) == 0;
        if (fits) {
            len =
                snprintf(c->source + used, left, "%s/%s %lld %lld.%09ld;", folder, files[i]->d_name,
                         (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
            fits = len > 0 && (size_t)len < left;
            *bytes += (uint64_t)st.st_size;
        }
        free(files[i]);
    }
    if (n >= 0)
        free(files);
    for (const char *t = c->source; *t; t++)
        fits = fits && (unsigned char)*t >= ' ' && *t != '"' && *t != '\\';
    return fits;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void open_file(struct kiln_fp8_cache *c)
{
    struct kiln_error err;
    if (access(c->path, F_OK) != 0)
        return;
    kiln_loading_note(c->path, 0, 0);
    if (kiln_st_open(c->path, &c->st, &err)) {
        say(c, "%s is made anew: %.800s", c->path, err.text);
        return;
    }
    const char *format = kiln_st_metadata(c->st, "format");
    const char *source = kiln_st_metadata(c->st, "source");
    bool same = format && source && strcmp(format, FORMAT) == 0 && strcmp(source, c->source) == 0;
    if (same && c->device != KT_CPU &&
        kiln_weights_stream_open(c->st, c->device, &c->stream, &err)) {
        say(c, "%s is not read: %.800s", c->path, err.text);
        same = false;
    } else if (!same) {
        say(c, "%s is made anew: it was made of other weights than those of the model now",
            c->path);
    }
    if (same)
        return;
    kiln_st_close(c->st);
    c->st = NULL;
}

struct kiln_fp8_cache *kiln_fp8_cache_open(const char *dir, const char *const *folders,
                                           size_t folder_count, int device, uint64_t worth)
{
    struct kiln_fp8_cache *c = calloc(1, sizeof *c);
    uint64_t bytes = 0;
    if (!c)
        return NULL;
    c->device = device;
    const int len = snprintf(c->path, sizeof c->path, "%s/%s", dir, KILN_FP8_CACHE_NAME);
    bool known = len > 0 && (size_t)len < sizeof c->path - sizeof ".part";
    for (size_t i = 0; i < folder_count; i++)
        known = known && add_folder(c, dir, folders[i], &bytes);
    if (!known || bytes < worth) {
        free(c);
        return NULL;
    }
    open_file(c);
    return c;
}

static kt load(struct kiln_fp8_cache *c, struct kt_scope *s, const struct kiln_st_tensor *t,
               enum kt_dtype dtype)
{
    struct kiln_error err;
    if (!c->stream)
        return kt_from_host(s, t->data, dtype, dtype, (int)t->ndim, t->shape);
    for (size_t i = 0; i < kiln_st_count(c->st); i++)
        if (kiln_st_at(c->st, i) == t)
            return kiln_weights_stream_load(c->stream, s, i, dtype, dtype, &err);
    return NULL;
}

static bool is_shaped(const struct kiln_st_tensor *t, enum kiln_st_dtype dtype, uint32_t ndim,
                      int64_t rows, int64_t cols)
{
    return t && t->dtype == dtype && t->ndim == ndim && t->shape[0] == rows &&
           (ndim == 1 || t->shape[1] == cols);
}

static void keep(struct kiln_fp8_cache *c, const char *name, kt rows)
{
    struct matrix *grown = kiln_room(c->matrices, c->count, &c->capacity, sizeof *grown);
    if (!grown) {
        c->lost = true;
        return;
    }
    c->matrices = grown;
    struct matrix *m = &c->matrices[c->count++];
    *m = (struct matrix){.rows = rows};
    snprintf(m->name, sizeof m->name, "%s", name);
}

kt kiln_fp8_cache_take(struct kiln_fp8_cache *c, struct kt_scope *scope, const char *name,
                       int64_t rows, int64_t cols)
{
    if (!c || !c->st)
        return NULL;
    char scale[KILN_ST_NAME_MAX + 8];
    snprintf(scale, sizeof scale, "%s.scale", name);
    const struct kiln_st_tensor *codes = kiln_st_find(c->st, name);
    const struct kiln_st_tensor *factors = kiln_st_find(c->st, scale);
    if (!is_shaped(codes, KILN_ST_F8_E4M3, 2, rows, cols) ||
        !is_shaped(factors, KILN_ST_F32, 1, rows, 0))
        return NULL;
    /* In a scope of its own: an error here must not fail the load. */
    struct kt_scope *inner = kt_scope_new(c->device);
    kt read = kt_rows_of(inner, load(c, inner, codes, KT_U8), load(c, inner, factors, KT_F32));
    char key[KILN_ST_NAME_MAX + 8], sum[64] = "";
    uint64_t sums[2];
    snprintf(key, sizeof key, "sum %s", name);
    const char *want = kiln_st_metadata(c->st, key);
    if (read && want && kt_rows_sums(inner, read, sums))
        snprintf(sum, sizeof sum, "%016" PRIx64 " %016" PRIx64, sums[0], sums[1]);
    kt taken = NULL;
    if (want && strcmp(want, sum) == 0 && sum[0])
        taken = kt_keep(scope, read);
    else
        say(c, "%s is made anew: %s in it is damaged", c->path, name);
    kt_scope_free(inner);
    if (taken)
        keep(c, name, taken);
    return taken;
}

void kiln_fp8_cache_note(struct kiln_fp8_cache *c, const char *name, kt matrix)
{
    if (!c || !matrix)
        return;
    c->made = true;
    keep(c, name, matrix);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Of a matrix's codes and factors. */
static uint64_t bytes_of(const struct matrix *m, int part)
{
    const uint64_t rows = (uint64_t)kt_size(m->rows, 0), cols = (uint64_t)kt_size(m->rows, 1);
    return part == 0 ? rows * cols : rows * sizeof(float);
}

static uint64_t all_bytes(const struct kiln_fp8_cache *c)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        bytes += bytes_of(&c->matrices[i], 0) + bytes_of(&c->matrices[i], 1);
    return bytes;
}

/* The file's head: its length, then what is where.  NULL without memory. */
static char *make_head(const struct kiln_fp8_cache *c, size_t *ret_size)
{
    char *text = NULL;
    FILE *head = open_memstream(&text, ret_size);
    if (!head)
        return NULL;
    fprintf(head, "%8s{\"__metadata__\":{\"format\":\"%s\",\"source\":\"%s\"", "", FORMAT,
            c->source);
    for (size_t i = 0; i < c->count; i++)
        fprintf(head, ",\"sum %s\":\"%016" PRIx64 " %016" PRIx64 "\"", c->matrices[i].name,
                c->matrices[i].sums[0], c->matrices[i].sums[1]);
    fputc('}', head);
    uint64_t at = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct matrix *m = &c->matrices[i];
        const int64_t rows = kt_size(m->rows, 0), cols = kt_size(m->rows, 1);
        const uint64_t mid = at + bytes_of(m, 0), end = mid + bytes_of(m, 1);
        fprintf(head,
                ",\"%s\":{\"dtype\":\"F8_E4M3\",\"shape\":[%" PRId64 ",%" PRId64
                "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}"
                ",\"%s.scale\":{\"dtype\":\"F32\",\"shape\":[%" PRId64
                "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                m->name, rows, cols, at, mid, m->name, rows, mid, end);
        at = end;
    }
    fputc('}', head);
    if (fclose(head) != 0) {
        free(text);
        return NULL;
    }
    const uint64_t size = *ret_size - 8;
    for (int i = 0; i < 8; i++)
        text[i] = (char)(size >> (8 * i));
    return text;
}

/* Writes one matrix, through host memory. */
static bool put_matrix(int fd, const struct matrix *m, int device)
{
    struct kt_scope *s = kt_scope_new(device);
    kt parts[2] = {NULL, NULL};
    kt_rows_parts(s, m->rows, &parts[0], &parts[1]);
    bool done = true;
    errno = EIO;
    for (int i = 0; i < 2 && done; i++) {
        struct kiln_error err;
        struct kt_fetch *f = kt_fetch_start(s, parts[i]);
        size_t size = 0;
        done = f && kt_fetch_wait(f, &err) == 0;
        const void *data = done ? kt_fetch_data(f, &size) : NULL;
        done = done && size == bytes_of(m, i) && kiln_write_all(fd, data, size) == 0;
        kt_fetch_free(f);
    }
    kt_scope_free(s);
    return done;
}

static bool put_all(int fd, const struct kiln_fp8_cache *c)
{
    size_t size = 0;
    char *head = make_head(c, &size);
    uint64_t written = 0, of = all_bytes(c);
    bool done = head && kiln_write_all(fd, head, size) == 0;
    for (size_t i = 0; i < c->count && done; i++) {
        kiln_loading_note(c->path, written, of);
        done = put_matrix(fd, &c->matrices[i], c->device);
        written += bytes_of(&c->matrices[i], 0) + bytes_of(&c->matrices[i], 1);
    }
    free(head);
    return done;
}

/* Opens and locks the unfinished file, and empties it.  -1 with errno set; EWOULDBLOCK if another
 * process is writing it. */
static int open_part(const char *part)
{
    struct stat here, there;
    const int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return -1;
    int reason = flock(fd, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
    if (!reason && (fstat(fd, &here) != 0 || stat(part, &there) != 0 ||
                    here.st_ino != there.st_ino || here.st_dev != there.st_dev))
        reason = EWOULDBLOCK; /* it has been renamed to the finished file */
    if (!reason && ftruncate(fd, 0) != 0)
        reason = errno;
    if (!reason)
        return fd;
    close(fd);
    errno = reason;
    return -1;
}

static void write_file(struct kiln_fp8_cache *c)
{
    char dir[PATH_MAX], part[PATH_MAX + 8];
    struct statvfs fs;
    struct kt_scope *s = kt_scope_new(c->device);
    bool summed = true;
    for (size_t i = 0; i < c->count && summed; i++)
        summed = kt_rows_sums(s, c->matrices[i].rows, c->matrices[i].sums);
    kt_scope_free(s);
    if (!summed)
        return;
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(c->path, '/') - c->path), c->path);
    if (statvfs(dir, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < ROOM_LEFT + all_bytes(c)) {
        say(c, "%s is not written: the disk has no room for it", c->path);
        return;
    }
    snprintf(part, sizeof part, "%s.part", c->path);
    const int fd = open_part(part);
    if (fd < 0) {
        if (errno != EWOULDBLOCK)
            say(c, "%s cannot be written, every start quantises: %s", c->path, strerror(errno));
        return;
    }
    if (!put_all(fd, c) || rename(part, c->path) != 0) {
        say(c, "%s cannot be written, every start quantises: %s", c->path, strerror(errno));
        unlink(part);
    }
    close(fd); /* and with it the lock, once the name is settled */
}

void kiln_fp8_cache_close(struct kiln_fp8_cache *c, bool write, char *note, size_t size)
{
    struct kiln_error ignored;
    if (!c)
        return;
    if (c->stream)
        (void)!kiln_weights_stream_close(c->stream, &ignored);
    kiln_st_close(c->st);
    kiln_loading_note(c->path, 0, 0);
    if (write && c->made && !c->lost)
        write_file(c);
    if (c->note[0])
        snprintf(note, size, "%s", c->note);
    free(c->matrices);
    free(c);
}
