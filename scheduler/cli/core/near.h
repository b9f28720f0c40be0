/* near.h - names that there are, for the one that is not among them. */
#ifndef KILN_CLI_NEAR_H
#define KILN_CLI_NEAR_H

#include <stddef.h>

#include "schemas/error.h"

struct kiln_near {
    char **at;
    size_t count, room;
};

/* Keeps a copy of the name; the signature is that of kiln_each_name.  arg is a struct kiln_near. */
int kiln_near_add(void *arg, const char *name, struct kiln_error *err);
bool kiln_near_has(const struct kiln_near *near, const char *name);
/* "the nearest are 'ann', 'bob'", into KILN_NEAR_LIST_MAX bytes; "" and false if there is none at
 * all.  Moves those that it names to the front. */
#define KILN_NEAR_LIST_MAX 256
bool kiln_near_list(struct kiln_near *near, const char *name, char *out, size_t size);
/* Fails with KILN_NOT_FOUND: "there is no WHAT 'NAME'; the nearest are ...". */
int kiln_near_refuse(struct kiln_near *near, const char *what, const char *name,
                     struct kiln_error *err);
void kiln_near_release(struct kiln_near *near);

/* --- near_batch.c ----------------------------------------------------------------------------- */
struct kiln_cli;
struct kiln_ledger;
/* 0 if the pool has such a batch; KILN_NOT_FOUND, naming the nearest, if not. */
int kiln_check_batch(struct kiln_cli *cli, struct kiln_ledger *ledger, const char *batch,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
