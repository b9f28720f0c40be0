/* fetch.h - copies objects of the store into files, several at a time.
 *
 * Each thread opens its own store, and the queue of tasks is bounded.  A file appears under its
 * name only when it is complete, and its object has the SHA-256 of the ledger.  A file that is
 * there already and is right is kept, so a repeated export continues where the last one stopped;
 * pictures as PNG or JPEG are downloaded again, since their objects cannot be made of them.
 */
#ifndef KILN_CLI_EXPORT_FETCH_H
#define KILN_CLI_EXPORT_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/config/config.h"
#include "schemas/error.h"
#include "storage/formats/pictures/picture_write.h"
#include "storage/ledger/read/read.h"

/* --- damaged objects: missing from the store, or different there than in the ledger ------------
 */
/* An export finds them only while it downloads, after results.jsonl and the page were written.  So
 * it is then repeated without them.  Memory grows with the number of damaged objects. */
struct kiln_damage {
    uint64_t job;
    char role[16]; /* "full", "latent" */
    char *why;
    bool named; /* on stderr */
};

/* Zero-initialise. */
struct kiln_damages {
    struct kiln_damage *at;
    size_t count, room;
    size_t named; /* on stderr, one by one */
};

/* NULL if that object is not damaged. */
struct kiln_damage *kiln_damages_find(struct kiln_damages *damages, uint64_t job, const char *role);
void kiln_damages_release(struct kiln_damages *damages);

/* --- downloads -------------------------------------------------------------------------------- */
struct kiln_fetch;
struct kiln_export_dir;

/* What a picture is written as, unless it is a copy of its object. */
struct kiln_fetch_as {
    bool converted;
    enum kiln_picture_format format;
    char *parameters, *xmp; /* malloc'd, or NULL for none (picture_write.h) */
};
void kiln_fetch_as_release(struct kiln_fetch_as *as);

/* dir: where the files go, borrowed; below it no link is followed (replace.h).  owner says which
 * files may be replaced. */
int kiln_fetch_start(const struct kiln_config *config, const char *dir,
                     const struct kiln_export_dir *owner, int threads, struct kiln_fetch **ret,
                     struct kiln_error *err) KILN_MUST_CHECK;
/* Queues one object of a job for the file DIR/BELOW, "FOLDER/NAME"; waits while the queue is full.
 * Takes over *as in any case.  An error of an earlier one is returned here or by kiln_fetch_finish.
 */
int kiln_fetch_add(struct kiln_fetch *fetch, uint64_t job, const struct kiln_object_row *object,
                   const char *below, struct kiln_fetch_as *as,
                   struct kiln_error *err) KILN_MUST_CHECK;
/* Waits for the rest and frees everything, also after an error.  Objects that are damaged or
 * missing are added to *damages, sorted, and are no error. */
int kiln_fetch_finish(struct kiln_fetch *fetch, uint64_t *ret_fetched, uint64_t *ret_kept,
                      struct kiln_damages *damages, struct kiln_error *err) KILN_MUST_CHECK;

#endif
