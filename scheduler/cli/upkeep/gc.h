/* gc.h - the two halves of `kiln gc`: finding orphans, and removing them.
 *
 * Finding writes a manifest, an unnamed file with one line an orphan, in order of keys.  So memory
 * is that of one page however large the store is, and nothing is removed before its amount is
 * known. Removing reads the manifest and asks the ledger again for each key.  If the program ends
 * in between, the remaining orphans wait for the next run.
 */
#ifndef KILN_CLI_GC_H
#define KILN_CLI_GC_H

#include <stdio.h>

#include "scheduler/cli/core/output/progress.h"
#include "schemas/limits.h"
#include "storage/ledger/upkeep/garbage.h"
#include "storage/objects/store.h"

#define KILN_GC_GROUP KILN_DELETIONS_MAX /* objects whose jobs are locked at a time */
_Static_assert(KILN_GC_GROUP <= KILN_UNCLAIMED_MAX, "a group is one question to the ledger");

struct kiln_gc {
    struct kiln_cli *cli;
    struct kiln_ledger *ledger;
    struct kiln_store *store;
    int64_t grace_s;
    bool dry_run;
    FILE *manifest;
    struct kiln_bar bar;
    /* What was found: objects by kind. */
    uint64_t listed, named, live, young, foreign;
    uint64_t orphans, orphan_bytes;
    uint64_t unknown; /* orphans of jobs that this ledger never had */
    /* What was removed. */
    uint64_t removed, removed_bytes, spared, failed;
    struct kiln_error failure; /* the first one */
};

/* Lists the store; fills the manifest and the counts.  Objects younger than grace_s are kept. */
int kiln_gc_find_orphans(struct kiln_gc *gc, struct kiln_error *err) KILN_MUST_CHECK;
/* Calls each for every line of the manifest. */
typedef int kiln_gc_each(void *arg, uint64_t job, uint64_t bytes, const char *key,
                         struct kiln_error *err);
int kiln_gc_read(struct kiln_gc *gc, kiln_gc_each *each, void *arg,
                 struct kiln_error *err) KILN_MUST_CHECK;

/* Objects to remove together; starts as {.gc = gc}. */
struct kiln_gc_group {
    struct kiln_gc *gc;
    uint64_t total; /* for the bar; 0: not known */
    size_t count;
    size_t decided; /* removed, or refused by the store */
    struct kiln_deletion deletions[KILN_GC_GROUP];
    struct kiln_found found[KILN_GC_GROUP];
    uint64_t bytes[KILN_GC_GROUP];
    char keys[KILN_GC_GROUP][KILN_OBJECT_KEY_MAX + 1];
};
/* A kiln_gc_each, arg a struct kiln_gc_group: removes the group when it is full. */
int kiln_gc_add(void *arg, uint64_t job, uint64_t bytes, const char *key, struct kiln_error *err);
/* Removes the objects of the group that are still orphans.  A refusal of the store is counted and
 * kept in gc->failure; the result is an error only if the next group would fail too. */
int kiln_gc_remove(struct kiln_gc_group *group, struct kiln_error *err) KILN_MUST_CHECK;

#endif
