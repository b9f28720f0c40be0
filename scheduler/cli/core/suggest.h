/* suggest.h - the names that exist, to suggest the nearest ones for a name that does not. */
#ifndef KILN_CLI_SUGGEST_H
#define KILN_CLI_SUGGEST_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

struct kiln_suggest {
    char **at;
    size_t count, room;
};

/* Keeps a copy of the name; the signature is that of kiln_each_name.  arg is a struct kiln_suggest.
 */
int kiln_suggest_add(void *arg, const char *name, struct kiln_error *err);
bool kiln_suggest_has(const struct kiln_suggest *names, const char *name);
/* "the nearest are 'ann', 'bob'", into KILN_SUGGEST_LIST_MAX bytes; "" and false without any name.
 * Moves the names it lists to the front. */
#define KILN_SUGGEST_LIST_MAX 256
bool kiln_suggest_list(struct kiln_suggest *names, const char *name, char *out, size_t size);
/* Ends the search for a name that does not exist, and releases the names: returns rc, the error of
 * collecting them, or fails with KILN_NOT_FOUND: "there is no WHAT 'NAME'; the nearest are ...". */
int kiln_suggest_refuse(struct kiln_suggest *names, int rc, const char *what, const char *name,
                        struct kiln_error *err);
void kiln_suggest_release(struct kiln_suggest *names);

/* Whether a person may mean this worker by the word: its name, or what stands behind a '-' in it,
 * as gpu0 for HOST-gpu0.  Older releases wrote cuda0, cuda-0 or cuda:0 for gpu0, in both. */
bool kiln_worker_meant(const char *name, const char *word);

struct kiln_cli;
struct kiln_ledger;
/* 0 if the pool has such a batch; KILN_NOT_FOUND, naming the nearest or the job of that number, if
 * not. */
int kiln_check_batch(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* The error of a job that does not exist, rc with *err: names the batch of that number if there is
 * one, which may have been meant.  Returns rc. */
int kiln_no_job(struct kiln_cli *cli, struct kiln_ledger *ledger, uint64_t job, int rc,
                struct kiln_error *err);
/* 0 if the pool has such a job; KILN_NOT_FOUND, as kiln_no_job says it, if not. */
int kiln_check_job(struct kiln_cli *cli, struct kiln_ledger *ledger, uint64_t job,
                   struct kiln_error *err) KILN_MUST_CHECK;

#endif
