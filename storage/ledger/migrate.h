/* migrate.h - brings the ledger's schema to the version this program was built with.
 *
 * The files schemas/sql/NNNN_name.sql are embedded at build time.  All pending ones are applied
 * in one transaction under an advisory lock; schema_migrations keeps version, name, sha256 and
 * time.  A database newer than the program, or one whose applied file differs, is refused.
 */
#ifndef KILN_MIGRATE_H
#define KILN_MIGRATE_H

#include "schemas/config.h"
#include "schemas/error.h"

/* *ret_from, *ret_to: schema versions before and after (equal: nothing to do).  dry_run only looks.
 */
int kiln_migrate(const struct kiln_config *config, bool dry_run, int *ret_from, int *ret_to,
                 struct kiln_error *err) KILN_MUST_CHECK;
/* The oldest schema whose programs may go on working with a database of this version, because all
 * that came since only adds; 0: none but its own.  Kept in schema_migrations.works_with, where a
 * program that is older finds it (kiln_ledger_check): so a fleet is upgraded one process at a time.
 * Every kiln_migrate brings what is kept there up to date. */
int kiln_migrate_works_with(int version);
/* The newest version embedded in this program. */
int kiln_migrate_version(void);

#endif
