/* export.h - a batch into a directory: `kiln export` and the last part of `kiln run`; or what a
 * search finds: `kiln gallery export`.
 *
 *     OUT/results.jsonl         one line a job, in index order (a search: newest first)
 *     OUT/full/NAME.webp        the pictures, or .png, .jpg; NAME is index (a search: job) and
 *                               custom_id
 *     OUT/512/, OUT/256/        smaller ones, always WebP
 *     OUT/latents/NAME.safetensors.zst   with latents
 *     OUT/index.html            with html
 *     OUT/answers.jsonl         with answers: the answer file of an OpenAI batch (answers.h)
 *     OUT/grid.html             with grid: the pictures by two settings
 *     OUT/.kiln-export          whose directory it is, and what was written (directory.h)
 *     a contact sheet           with sheet, in that file
 */
#ifndef KILN_CLI_EXPORT_H
#define KILN_CLI_EXPORT_H

#include "scheduler/cli/core/cli.h"
#include "storage/formats/pictures/picture_read.h"
#include "storage/ledger/read/read.h"

struct kiln_ledger;

/* The jobs of an export, each with its objects; total may be 0 for "not known". */
struct kiln_export_source {
    int (*walk)(void *arg, struct kiln_ledger *session, const char *pool, kiln_each_job *each,
                void *each_arg, struct kiln_error *err);
    void *arg;
    uint64_t total;
    const char *search; /* its words and filters: whose directory it is */
};

struct kiln_export {
    const char *batch, *out;
    const struct kiln_export_source *source; /* instead of the batch, which is a title then */
    bool html, latents, answers;
    bool all;                        /* also jobs that their file no longer has */
    bool partial;                    /* an unfinished batch is no error */
    bool force;                      /* take over a directory that is another's (directory.h) */
    enum kiln_picture_format format; /* of the pictures in full size */
    const char *sheet;               /* FILE.webp, or NULL */
    int columns;                     /* of the sheet */
    bool grid;                       /* with these keys across and down (core/output/crosstab.h) */
    int x, y;
    const char *note; /* above the pictures of the page, or NULL */
    /* results */
    uint64_t jobs, pictures, fetched, kept, damaged;
    uint64_t gone;             /* left out, because their file no longer has them */
    uint64_t removed;          /* files that only an earlier export had */
    struct kiln_counts states; /* of the jobs */
    bool embed, whole;         /* by the setting embed_metadata; all of the batch has come in */
};

/* Says what to do about damaged objects, if there are any; the exit status of an export that
 * succeeded otherwise. */
int kiln_export_status(const struct kiln_cli *cli, const struct kiln_export *export);
/* Reads --sheet, --columns, --grid and --note into *export.  0 or an exit status. */
int kiln_export_args(struct kiln_cli *cli, const struct kiln_args *args,
                     struct kiln_export *export) KILN_MUST_CHECK;

/* Reads --format.  0 or an exit status. */
int kiln_export_format(struct kiln_cli *cli, const struct kiln_args *args,
                       struct kiln_export *export) KILN_MUST_CHECK;

/* The whole of a verb after its options were read: exports, says what it did, prints the path.  An
 * exit status. */
int kiln_export_verb(struct kiln_cli *cli, struct kiln_export *export) KILN_MUST_CHECK;

/* Whether kiln_export_batch would refuse the directory or the sheet, before there is anything to
 * export.  batch NULL: nothing is asked of the ledger yet.  A new batch owns no directory. */
int kiln_export_check(struct kiln_cli *cli, const struct kiln_export *export,
                      struct kiln_error *err) KILN_MUST_CHECK;

/* May be repeated on the same directory: files that are already there are not downloaded again.
 * Objects that are missing from the store or damaged there are named on stderr and left out; the
 * result is 0 then, and export->damaged counts them. */
int kiln_export_batch(struct kiln_cli *cli, struct kiln_export *export,
                      struct kiln_error *err) KILN_MUST_CHECK;

#endif
