/* backup_facts.c - backup.json: the facts about a backup, checked before it is used; and lists of
 * objects, a line an object, in byte order of their keys.
 *
 * A line of a list is JSON, so that people and scripts can read it.  All lines have the same form,
 * so that reading a hundred million of them needs no parser.  Keys contain no character that JSON
 * escapes.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/upkeep/backup.h"
#include "schemas/digest.h"
#include "storage/ledger/upkeep/backup.h"

#define HASH_PIECE (1 << 16)
#define LINE_MAX_BYTES (KILN_OBJECT_KEY_MAX + 256)

int kiln_file_sha256(const char *path, char ret[65], struct kiln_error *err)
{
    unsigned char piece[HASH_PIECE], digest[KILN_SHA256_SIZE];
    FILE *file = fopen(path, "re");
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    bool ok = file && sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1;
    for (size_t len; ok && (len = fread(piece, 1, sizeof piece, file)) > 0;)
        ok = EVP_DigestUpdate(sha, piece, len) == 1;
    ok = ok && !ferror(file) && EVP_DigestFinal_ex(sha, digest, NULL) == 1;
    EVP_MD_CTX_free(sha);
    int rc = ok ? 0
                : kiln_fail(err, file || errno != ENOENT ? KILN_IO : KILN_NOT_FOUND, "read %s: %s",
                            path, strerror(errno));
    if (file)
        fclose(file);
    if (ok)
        kiln_hex(digest, sizeof digest, ret);
    return rc;
}

int kiln_backup_write(const struct kiln_backup *backup, const char *dir, struct kiln_error *err)
{
    char path[PATH_MAX];
    json_t *facts = json_pack(
        "{s:i, s:s, s:i, s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:s}", "format", backup->format,
        "kiln", backup->kiln, "schema", backup->schema, "schema_name", backup->schema_name,
        "postgres", backup->postgres_major, "at_ms", (json_int_t)backup->at_ms, "jobs",
        (json_int_t)backup->jobs, "objects", (json_int_t)backup->objects, "bytes",
        (json_int_t)backup->bytes, "store", backup->store, "dump_sha256", backup->dump_sha256,
        "objects_sha256", backup->objects_sha256);
    kiln_join(path, dir, KILN_BACKUP_FACTS);
    int fd = facts ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    bool ok = fd >= 0 && json_dumpfd(facts, fd, JSON_INDENT(2)) == 0 && fsync(fd) == 0;
    if (fd >= 0)
        ok = close(fd) == 0 && ok;
    json_decref(facts);
    return ok ? 0
              : kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", path,
                          strerror(errno));
}

static void copy(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
}

static bool unpack(json_t *facts, struct kiln_backup *ret)
{
    const char *kiln, *schema_name, *store, *dump, *objects;
    json_int_t at_ms, jobs, count, bytes;
    if (json_unpack(facts, "{s:i, s:s, s:i, s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:s}", "format",
                    &ret->format, "kiln", &kiln, "schema", &ret->schema, "schema_name",
                    &schema_name, "postgres", &ret->postgres_major, "at_ms", &at_ms, "jobs", &jobs,
                    "objects", &count, "bytes", &bytes, "store", &store, "dump_sha256", &dump,
                    "objects_sha256", &objects))
        return false;
    copy(ret->kiln, sizeof ret->kiln, kiln);
    copy(ret->schema_name, sizeof ret->schema_name, schema_name);
    copy(ret->store, sizeof ret->store, store);
    copy(ret->dump_sha256, sizeof ret->dump_sha256, dump);
    copy(ret->objects_sha256, sizeof ret->objects_sha256, objects);
    ret->at_ms = at_ms;
    ret->jobs = (uint64_t)jobs;
    ret->objects = (uint64_t)count;
    ret->bytes = (uint64_t)bytes;
    return true;
}

/* A file that changed since the backup must not become the ledger. */
static int check_file(const char *dir, const char *name, const char *sha256, struct kiln_error *err)
{
    char path[PATH_MAX], hex[65];
    int rc = kiln_file_sha256(kiln_join(path, dir, name), hex, err);
    if (rc == 0 && strcmp(hex, sha256) != 0)
        rc = kiln_fail(err, KILN_CORRUPT, "%s has changed since the backup: its sha256 is %s", path,
                       hex);
    return rc;
}

int kiln_backup_read(const char *dir, struct kiln_backup *ret, struct kiln_error *err)
{
    char path[PATH_MAX];
    json_error_t why;
    kiln_join(path, dir, KILN_BACKUP_FACTS);
    if (access(path, R_OK) != 0)
        return kiln_fail(err, errno == ENOENT ? KILN_NOT_FOUND : KILN_IO,
                         "%s: %s; a complete backup has this file", path, strerror(errno));
    json_t *facts = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    int format = (int)json_integer_value(json_object_get(facts, "format"));
    int rc = 0;
    if (!facts)
        rc = kiln_fail(err, KILN_CORRUPT, "%s is not JSON: %s", path, why.text);
    else if (format > KILN_BACKUP_FORMAT)
        rc = kiln_fail(
            err, KILN_UNSUPPORTED,
            "%s: the backup has format %d, this program reads up to %d: install a newer Kiln", path,
            format, KILN_BACKUP_FORMAT);
    else if (!unpack(facts, ret))
        rc = kiln_fail(err, KILN_CORRUPT, "%s lacks keys that a backup has", path);
    json_decref(facts);
    if (rc == 0)
        rc = check_file(dir, KILN_BACKUP_DUMP, ret->dump_sha256, err);
    if (rc == 0)
        rc = check_file(dir, KILN_BACKUP_OBJECTS, ret->objects_sha256, err);
    return rc;
}

/* --- lists of objects --------------------------------------------------------------------------
 */

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
