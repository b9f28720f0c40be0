/* manifest.c - lists of objects as files, a line an object, in byte order of their keys.
 *
 * A line is JSON, so that people and scripts can read it.  All lines have the same form, so that
 * reading a hundred million of them needs no parser.  Keys contain no character that JSON escapes.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/upkeep/backup.h"
#include "storage/ledger/upkeep/backup.h"

#define LINE_MAX_BYTES (KILN_OBJECT_KEY_MAX + 256)

struct writing {
    FILE *file;
    uint64_t objects, bytes;
};

static int write_line(void *arg, const char *key, uint64_t bytes, const char *sha256,
                      struct kiln_error *err)
{
    struct writing *writing = arg;
    writing->objects++;
    writing->bytes += bytes;
    if (fprintf(writing->file, "{\"key\":\"%s\",\"bytes\":%" PRIu64 ",\"sha256\":\"%s\"}\n", key,
                bytes, sha256) < 0)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO,
                         "write the list of objects: %s", strerror(errno));
    return 0;
}

int kiln_manifest_write(struct kiln_snapshot *snapshot, FILE *file, uint64_t *ret_objects,
                        uint64_t *ret_bytes, struct kiln_error *err)
{
    struct writing writing = {.file = file};
    int rc = kiln_snapshot_objects(snapshot, write_line, &writing, err);
    if (rc == 0 && fflush(file) != 0)
        rc = kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write the list of objects: %s",
                       strerror(errno));
    if (rc)
        return rc;
    *ret_objects = writing.objects;
    *ret_bytes = writing.bytes;
    return 0;
}

/* Steps over the text; false if *at does not begin with it. */
static bool skip(const char **at, const char *text)
{
    size_t len = strlen(text);
    if (strncmp(*at, text, len) != 0)
        return false;
    *at += len;
    return true;
}

/* Copies the text up to the next quote; false if it does not fit. */
static bool take_quoted(const char **at, char *out, size_t size)
{
    size_t len = strcspn(*at, "\"");
    if (len == 0 || len >= size || (*at)[len] != '"')
        return false;
    memcpy(out, *at, len);
    out[len] = '\0';
    *at += len + 1;
    return true;
}

static bool parse_line(const char *line, struct kiln_manifest_entry *ret)
{
    const char *at = line;
    int digits = 0;
    if (!skip(&at, "{\"key\":\"") || !take_quoted(&at, ret->key, sizeof ret->key) ||
        !skip(&at, ",\"bytes\":") || at[0] < '0' || at[0] > '9' ||
        sscanf(at, "%19" SCNu64 "%n", &ret->bytes, &digits) != 1)
        return false;
    at += digits;
    return skip(&at, ",\"sha256\":\"") && take_quoted(&at, ret->sha256, sizeof ret->sha256) &&
           strcmp(at, "}\n") == 0 && strspn(ret->sha256, "0123456789abcdef") == 64;
}

int kiln_manifest_next(FILE *file, struct kiln_manifest_entry *ret, bool *ret_more,
                       struct kiln_error *err)
{
    char line[LINE_MAX_BYTES];
    *ret_more = fgets(line, sizeof line, file) != NULL;
    if (*ret_more && !parse_line(line, ret))
        return kiln_fail(err, KILN_CORRUPT, "a line of the list of objects is damaged: %.80s",
                         line);
    if (!*ret_more && ferror(file))
        return kiln_fail(err, KILN_IO, "read the list of objects: %s", strerror(errno));
    return 0;
}
