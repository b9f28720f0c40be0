/* identity.h - which job of a batch a line of a file is, and which jobs the file no longer has.
 *
 * The key of a job is made of its content (kiln_job_line_key), so that an edited file can be sent
 * again: only what changed is new.  What the batch has already is read from the ledger before the
 * first line.  Where the ledger cannot be reached, jobs are sent all the same; the scheduler finds
 * those that are there already, but nobody marks those that are gone.
 */
#ifndef KILN_ENQUEUE_IDENTITY_H
#define KILN_ENQUEUE_IDENTITY_H

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/jobs/enqueue/digest_map.h"
#include "schemas/job.h"
#include "schemas/text/text.h"
#include "schemas/wire/wire.h"

/* The default batch of a file: its name without directory and format, "prompts" for
 * ../prompts.txt; and the source of its jobs, "prompts.txt", so that prompts.jsonl in the same
 * batch takes none of them away.  A character that no batch name may have becomes '-'; if any is
 * outside ASCII, a hash of the name follows.  false: no regular file, so it has no name to come
 * back to. */
bool kiln_file_names(const char *path, char ret_batch[KILN_BATCH_NAME_MAX + 1],
                     char ret_source[KILN_BATCH_NAME_MAX + 1]);

/* Starts as {0}. */
struct kiln_identity {
    const char *batch;
    const char *source;            /* the file's name; NULL: from no file */
    struct kiln_ledger *ledger;    /* NULL: not reached */
    struct kiln_digest_map lines;  /* how often each line occurred */
    struct kiln_digest_map known;  /* keys of the batch */
    struct kiln_error unreachable; /* why ledger is NULL */
    uint64_t own;                  /* keys of the source that were not gone, and */
    uint64_t own_met, met;         /* how many of them, and of all known keys, the file has */
};

/* Reads the keys of the batch: all of them for a dry run, else only those of the source. batch and
 * source are borrowed.  An unreachable ledger is no error. */
int kiln_identity_open(struct kiln_identity *identity, struct kiln_cli *cli, const char *batch,
                       const char *source, bool all, struct kiln_error *err) KILN_MUST_CHECK;
/* The key of the next job.  line is its line with the seed that it was given, or without; copy is
 * its number within that line of the file.  *ret_known: the batch was read and has it. */
int kiln_identity_key(struct kiln_identity *identity, const struct kiln_job *job, uint64_t copy,
                      const struct kiln_text *line, char ret_key[KILN_INTAKE_KEY_MAX + 1],
                      bool *ret_known, struct kiln_error *err) KILN_MUST_CHECK;
/* For reading the file again from the beginning. */
void kiln_identity_rewind(struct kiln_identity *identity);

/* After the last job: the keys that the file had before and has no longer, in texts of a line each,
 * of at most KILN_INTAKE_GONE_MAX bytes. */
typedef int kiln_each_gone(void *arg, const char *keys, size_t len, struct kiln_error *err);
int kiln_identity_gone(struct kiln_identity *identity, struct kiln_cli *cli, kiln_each_gone *each,
                       void *arg, uint64_t *ret_count, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_identity_release(struct kiln_identity *identity);

#endif
