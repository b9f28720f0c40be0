/* restore_stream.h - a dump into the database, all of it or nothing. */
#ifndef KILN_CLI_RESTORE_STREAM_H
#define KILN_CLI_RESTORE_STREAM_H

#include "scheduler/cli/upkeep/backup.h"
#include "storage/ledger/upkeep/backup.h"

/* Replaces the tables of the site by those of the dump, in one transaction: whatever fails or ends
 * it, the database is as it was.  Numbers of jobs and batches go on behind all that were ever given
 * out, so that nothing made since the backup is taken for a new job's.  KILN_TIMEOUT: nothing moved
 * for still_s, at either end. */
int kiln_restore_stream(struct kiln_cli *cli, const struct kiln_backup *backup,
                        const struct kiln_site *site, const char *dump, double still_s,
                        struct kiln_error *err) KILN_MUST_CHECK;

#endif
