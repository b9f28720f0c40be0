/* migrate.h - brings the ledger's schema to the version this program was built with.
 *
 * The files schemas/sql/NNNN_name.sql are embedded at build time.  All pending ones are applied
 * in one transaction under an advisory lock; schema_migrations keeps version, name, sha256 and
 * time.  A database newer than the program, or one whose applied file differs, is refused.
 *
 * A file NNNN_name.concurrent.sql builds one index beside the work of the fleet (index_build.h).
 * What stands before it is committed first.  No program needs such an index to be right, so
 * programs start without it, and an interrupted build is repeated by the next kiln_migrate.
 */
#ifndef KILN_MIGRATE_H
#define KILN_MIGRATE_H

#include "schemas/config/config.h"
#include "schemas/embedded.h"
#include "schemas/error.h"
#include "storage/ledger/index_build.h"

struct kiln_migration {
    const struct kiln_embedded *files; /* NULL: those embedded in this program */
    bool dry_run;                      /* only looks */
    kiln_index_progress *progress;     /* of indexes that are being built; may be NULL */
    void *arg;
    int from, to; /* out: schema versions before and after; equal: nothing to do */
};
/* It also brings schema_migrations.works_with up to date: the oldest schema whose programs may go
 * on working with a database of the row's version, because all that came since only adds; NULL:
 * none but its own.  A program that is older finds it there (kiln_ledger_check): so a fleet is
 * upgraded one process at a time. */
int kiln_migrate(const struct kiln_config *config, struct kiln_migration *migration,
                 struct kiln_error *err) KILN_MUST_CHECK;
/* The newest version embedded in this program, and the newest that its programs cannot work
 * without. */
int kiln_migrate_version(void);
int kiln_migrate_needed(void);

#endif
