/* records.h - a job of the ledger as JSON; the same keys in `jobs`, `show` and `export`.
 *
 * Written through struct kiln_text and not through jansson, whose integers end at 2^63: a seed has
 * 64 bits.
 */
#ifndef KILN_CLI_RECORDS_H
#define KILN_CLI_RECORDS_H

#include "scheduler/cli/core/cli.h"
#include "schemas/text/text.h"
#include "storage/ledger/read/read.h"

/* Appends JSON by a format such as "{job:u at:t loras:[": a word KEY:TYPE is a member, with a comma
 * if it follows a value; braces, brackets and line ends stand for themselves.  An argument for each
 * type: s const char *, NULL is null; u uint64_t; i int or uint32_t; d double; b bool; t int64_t,
 * milliseconds since 1970, 0 is null; c const struct kiln_counts *, as {"queued":N, ...}; n none,
 * it is null. */
void kiln_json_put(struct kiln_text *out, const char *format, ...);

/* {"job","batch","custom_id","index","state","attempt","width","height","steps","seed",
 * "seed_text","loras","error","error_code" - without the closing brace. */
void kiln_record_short(struct kiln_text *out, const struct kiln_job_row *row);
/* ,"prompt", ... : everything else that was asked for and where it stands. */
void kiln_record_rest(struct kiln_text *out, const struct kiln_job_row *row);
/* ,"images":[...] of the pictures, largest first. */
void kiln_record_images(struct kiln_text *out, const struct kiln_job_row *row);
const struct kiln_object_row *kiln_row_latent(const struct kiln_job_row *row); /* NULL: none */
/* The picture of a stored size by its name (schemas/job/sizes.h), NULL if there is none. */
const struct kiln_object_row *kiln_row_picture(const struct kiln_job_row *row, const char *role);

/* --- a listing that streams: a line a row, JSON or text, until its reader has gone -------------
 */
struct kiln_listing {
    const struct kiln_cli *cli;
    struct kiln_text line; /* of the current row */
    uint64_t rows;
    long left;        /* how many more; 0: any number */
    const char *none; /* printed on stderr if there are no rows; or NULL */
    char head[128];   /* above the first row on a terminal: kiln_listing_head; "" for none */
    int hang;         /* blanks before what does not fit a terminal's line (fit.h); 0: it is cut */
};

/* The names of the columns, printed above the first row if stdout is a terminal. */
void kiln_listing_head(struct kiln_listing *listing, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes the line (the caller has ended it) and clears it.  0; KILN_CANCELLED after the last row
 * that anybody wants, which is no error to report; KILN_NO_MEMORY. */
int kiln_listing_put(struct kiln_listing *listing, struct kiln_error *err) KILN_MUST_CHECK;
/* Releases it; rc is what the walk over the rows returned.  The exit status of the verb. */
int kiln_listing_end(struct kiln_listing *listing, int rc, const struct kiln_error *err);

#endif
