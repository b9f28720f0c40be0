/* backup.h - reads the whole ledger in one snapshot, and inspects a database before it is replaced.
 *
 * pg_dump copies the tables.  The list of objects is read here from the same snapshot, so both
 * agree whatever is committed meanwhile.
 */
#ifndef KILN_LEDGER_BACKUP_H
#define KILN_LEDGER_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"

#define KILN_SCHEMA_NAME_MAX 63

struct kiln_snapshot;

struct kiln_snapshot_facts {
    char id[64];                                /* for pg_dump --snapshot */
    char schema_name[KILN_SCHEMA_NAME_MAX + 1]; /* Postgres' schema that the tables are in */
    int schema, server_major;                   /* of Kiln's tables; of Postgres */
    uint64_t jobs;                              /* of all pools */
    int64_t at_ms;                              /* the server's clock */
};

/* Opens a connection of its own and holds the snapshot until it is closed.  Refuses a database of
 * another schema version than this program's. */
int kiln_snapshot_open(const struct kiln_config *config, struct kiln_snapshot **ret,
                       struct kiln_snapshot_facts *facts, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_snapshot_close(struct kiln_snapshot *snapshot); /* accepts NULL */

/* Calls each for every object row, in byte order of the keys; its non-zero return ends the walk. */
typedef int kiln_each_vouched(void *arg, const char *key, uint64_t bytes, const char *sha256,
                              struct kiln_error *err);
int kiln_snapshot_objects(struct kiln_snapshot *snapshot, kiln_each_vouched *each, void *arg,
                          struct kiln_error *err) KILN_MUST_CHECK;

/* What the database holds before a restore. */
struct kiln_site {
    bool has_tables;
    uint64_t jobs;
    uint64_t last_job, last_batch; /* the last numbers given out; 0: none */
    int server_major;
    char schema_name[KILN_SCHEMA_NAME_MAX + 1];
    uint64_t others;  /* tables in that schema, where it has none of Kiln's */
    unsigned daemons; /* schedulers and workers that are connected */
    char daemon[128]; /* one of them */
};
int kiln_site_inspect(const struct kiln_config *config, struct kiln_site *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* The environment for Postgres' programs: ours, with what the setting `postgres` says as PG*
 * variables, so that no password stands in a command line.  malloc'd, each string too; NULL at the
 * end; free with kiln_pg_environment_free. */
int kiln_pg_environment(const struct kiln_config *config, char ***ret,
                        struct kiln_error *err) KILN_MUST_CHECK;
void kiln_pg_environment_free(char **environment); /* accepts NULL */

#endif
