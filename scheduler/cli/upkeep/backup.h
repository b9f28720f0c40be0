/* backup.h - a backup of the ledger: a directory of three files.
 *
 *     ledger.dump    pg_dump -Fc of the tables, without owners and grants
 *     objects.jsonl  {"key","bytes","sha256"} a line: the objects of the ledger, by key
 *     backup.json    format, versions, counts, and the sha256 of the two; written last
 *
 * Both come from one snapshot.  The objects are not copied: they are immutable, so any copy of the
 * store that is made after the backup has all of them.  `kiln restore --check` compares.
 */
#ifndef KILN_CLI_BACKUP_H
#define KILN_CLI_BACKUP_H

#include <limits.h>
#include <stdio.h>

#include "scheduler/cli/core/cli.h"
#include "schemas/limits.h"
#include "storage/objects/store.h"

#define KILN_BACKUP_FORMAT 1
#define KILN_BACKUP_DUMP "ledger.dump"
#define KILN_BACKUP_OBJECTS "objects.jsonl"
#define KILN_BACKUP_FACTS "backup.json"

struct kiln_backup {
    int format, schema, postgres_major;
    char kiln[64], schema_name[64], store[512];
    uint64_t jobs, objects, bytes;
    int64_t at_ms;
    char dump_sha256[65], objects_sha256[65];
};
/* Writes DIR/backup.json, and reads and checks it. */
int kiln_backup_write(const struct kiln_backup *backup, const char *dir,
                      struct kiln_error *err) KILN_MUST_CHECK;
int kiln_backup_read(const char *dir, struct kiln_backup *ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* Hex of a file's SHA-256. */
int kiln_file_sha256(const char *path, char ret[65], struct kiln_error *err) KILN_MUST_CHECK;

/* Lists of objects. */
struct kiln_manifest_entry {
    char key[KILN_OBJECT_KEY_MAX + 1], sha256[65];
    uint64_t bytes;
};
/* The ledger's objects, by key, from a snapshot into a file; counts them and their bytes. */
struct kiln_snapshot;
int kiln_manifest_write(struct kiln_snapshot *snapshot, FILE *file, uint64_t *ret_objects,
                        uint64_t *ret_bytes, struct kiln_error *err) KILN_MUST_CHECK;
/* The next line; *ret_more false at the end.  KILN_CORRUPT for a line of another form. */
int kiln_manifest_next(FILE *file, struct kiln_manifest_entry *ret, bool *ret_more,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* --- store_compare.c: a manifest against the store -------------------------------------------- */
struct kiln_compare {
    struct kiln_cli *cli;
    struct kiln_store *store;
    FILE *manifest;
    bool hashes; /* fetch every object and hash it */
    /* Called for each object that is missing or differs. */
    int (*each)(void *arg, const char *what, const struct kiln_manifest_entry *entry,
                struct kiln_error *err);
    void *arg;
    /* results */
    uint64_t compared, missing, differ, extra; /* extra: in the store, not in the manifest */
};
int kiln_store_compare(struct kiln_compare *compare, struct kiln_error *err) KILN_MUST_CHECK;

#endif
