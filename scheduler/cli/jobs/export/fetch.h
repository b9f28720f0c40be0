/* fetch.h - copies objects of the store into files, several at a time.
 *
 * Each thread has a store of its own; the queue between the caller and them is bounded.  A file
 * appears under its name only when it is whole and its SHA-256 is that of the ledger; a file that
 * is there already with the same bytes is left alone, so an export that was cut short goes on.
 */
#ifndef KILN_CLI_EXPORT_FETCH_H
#define KILN_CLI_EXPORT_FETCH_H

#include <limits.h>

#include "scheduler/cli/jobs/export/damage.h"
#include "schemas/config.h"
#include "schemas/error.h"
#include "storage/ledger/read/read.h"

struct kiln_fetch;

/* dir: where the files go, lent; below it no link is followed (replace.h). */
int kiln_fetch_start(const struct kiln_config *config, const char *dir, int threads,
                     struct kiln_fetch **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Queues one object of a job for the file DIR/BELOW, "FOLDER/NAME"; waits while the queue is full.
 *  An error of an earlier one is returned here or by kiln_fetch_finish. */
int kiln_fetch_add(struct kiln_fetch *fetch, uint64_t job, const struct kiln_object_row *object,
                   const char *below, struct kiln_error *err) KILN_MUST_CHECK;
/* Waits for the rest and frees everything, also after an error.  Objects that are damaged or
 * missing are added to *damages, sorted, and are no error. */
int kiln_fetch_finish(struct kiln_fetch *fetch, uint64_t *ret_fetched, uint64_t *ret_kept,
                      struct kiln_damages *damages, struct kiln_error *err) KILN_MUST_CHECK;

#endif
