/* records.c - see records.h. */
#include "worker/bench/measured/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void kiln_records_device(const char *path, struct kiln_measured_at *at)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    if (file && getline(&line, &size, file) > 0) {
        json_t *heading = json_loads(line, 0, NULL);
        const char *device = json_string_value(json_object_get(heading, "device"));
        if (device) {
            snprintf(at->device_class, sizeof at->device_class, "%s", device);
            snprintf(at->device, sizeof at->device, "%s", "of the records");
        }
        json_decref(heading);
    }
    free(line);
    if (file)
        fclose(file);
}

/* Reads the file to its end; KILN_BAD_INPUT if it belongs to another measurement. */
static int read_all(struct kiln_records *records, const json_t *heading, const char *depends,
                    kiln_records_take *take, void *arg, struct kiln_error *err)
{
    char *text = NULL;
    size_t size = 0;
    ssize_t len;
    int code = 0;
    for (size_t number = 1; code == 0 && (len = getline(&text, &size, records->file)) > 0;
         number++) {
        json_error_t unused;
        json_t *line = json_loadb(text, (size_t)len, 0, &unused);
        if (number == 1 && !(line && json_equal(line, heading)))
            code = kiln_fail(err, KILN_BAD_INPUT,
                             "--records %s: the file is of another %s; name another file",
                             records->path, depends);
        if (number > 1 && line)
            take(arg, line);
        json_decref(line);
    }
    free(text);
    if (code == 0 && ferror(records->file))
        code = kiln_fail(err, KILN_IO, "read %s: %s", records->path, strerror(errno));
    return code;
}

/* Goes to the end, where a line that was cut short must not swallow the next one. */
static int append_from_here(struct kiln_records *records, json_t *heading, struct kiln_error *err)
{
    if (fseek(records->file, 0, SEEK_END) != 0)
        return kiln_fail(err, KILN_IO, "read %s: %s", records->path, strerror(errno));
    if (ftell(records->file) == 0)
        return kiln_records_put(records, json_incref(heading), err);
    if (fseek(records->file, -1, SEEK_END) == 0 && fgetc(records->file) != '\n' &&
        fputc('\n', records->file) == EOF)
        return kiln_fail(err, KILN_IO, "write %s: %s", records->path, strerror(errno));
    return 0;
}

int kiln_records_open(struct kiln_records *records, const char *path, json_t *heading,
                      const char *depends, bool read_only, kiln_records_take *take, void *arg,
                      struct kiln_error *err)
{
    int code = 0;
    *records = (struct kiln_records){.path = path};
    if (!path) {
        json_decref(heading);
        return 0;
    }
    if (!heading)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %s", path);
    records->file = fopen(path, read_only ? "re" : "a+e");
    if (!records->file)
        code = kiln_fail(err, read_only && errno == ENOENT ? KILN_NOT_FOUND : KILN_IO,
                         "open %s: %s", path, strerror(errno));
    if (code == 0) {
        rewind(records->file);
        code = read_all(records, heading, depends, take, arg, err);
    }
    if (code == 0 && !read_only)
        code = append_from_here(records, heading, err);
    json_decref(heading);
    return code;
}

int kiln_records_put(struct kiln_records *records, json_t *line, struct kiln_error *err)
{
    if (!records->file) {
        json_decref(line);
        return 0;
    }
    const bool good = line && json_dumpf(line, records->file, JSON_COMPACT) == 0 &&
                      fputc('\n', records->file) != EOF && fflush(records->file) == 0;
    json_decref(line);
    return good ? 0
                : kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s",
                            records->path, strerror(errno));
}

void kiln_records_close(struct kiln_records *records)
{
    if (records->file)
        fclose(records->file);
    *records = (struct kiln_records){0};
}
