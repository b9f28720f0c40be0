/* directory.h - the directory of an export: whose it is, and which of its files Kiln wrote.
 *
 * An export writes into a new or empty directory, or into one that an export of the same batch
 * made: OUT/.kiln-export names batch and stack in its first line (JSON) and after that every file
 * that was written, one a line; "sheet:/PATH" is a contact sheet, which may lie elsewhere.
 * Anything else is refused by name, unless force takes the directory over.  Files of the list that
 * the new export does not have are removed at the end, sheets excepted; no other file is ever
 * removed, and none is overwritten without force.
 */
#ifndef KILN_CLI_EXPORT_DIRECTORY_H
#define KILN_CLI_EXPORT_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_export_owner {
    const char *batch;  /* or the words and filters of a search */
    bool search;        /* it is one */
    const char *pool;   /* of the stack, */
    const char *store;  /* of a batch for people alone: its time tells it apart */
    int64_t created_ms; /* and when the batch began: another batch of the name is another owner */
};

struct kiln_export_dir;

/* Whether kiln_export_dir_open and kiln_export_dir_sheet would refuse, without writing anything.
 * owner NULL: not known yet; sheet NULL: none. */
int kiln_export_dir_check(const char *path, const struct kiln_export_owner *owner, bool force,
                          const char *sheet, struct kiln_error *err) KILN_MUST_CHECK;
/* Makes the directory and claims it.  KILN_EXISTS names what is in the way. */
int kiln_export_dir_open(const char *path, const struct kiln_export_owner *owner, bool force,
                         struct kiln_export_dir **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Before every walk over the batch: nothing has been noted. */
int kiln_export_dir_begin(struct kiln_export_dir *dir, struct kiln_error *err) KILN_MUST_CHECK;
/* This export has the file; "NAME" or "FOLDER/NAME". */
int kiln_export_dir_note(struct kiln_export_dir *dir, const char *below,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* This export writes the sheet; KILN_EXISTS: the file is there and no export here wrote it. */
int kiln_export_dir_sheet(struct kiln_export_dir *dir, const char *path,
                          struct kiln_error *err) KILN_MUST_CHECK;
/* If an earlier export wrote the file, it stays. */
int kiln_export_dir_keep(struct kiln_export_dir *dir, const char *below,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* KILN_EXISTS: a file of that name is there and no export wrote it.  Any thread. */
int kiln_export_dir_may_write(const struct kiln_export_dir *dir, const char *below,
                              struct kiln_error *err) KILN_MUST_CHECK;
/* Writes the list; before results.jsonl and the pages are put in place. */
int kiln_export_dir_list(struct kiln_export_dir *dir, struct kiln_error *err) KILN_MUST_CHECK;
/* After that: removes what only earlier exports had.  Returns how many files. */
uint64_t kiln_export_dir_clean(struct kiln_export_dir *dir);
/* Without a list it leaves nothing that is empty behind.  Accepts NULL. */
void kiln_export_dir_close(struct kiln_export_dir *dir);

#endif
