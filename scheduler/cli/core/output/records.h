/* records.h - a job of the ledger as JSON; the same keys in `jobs`, `show` and `export`.
 *
 * Written through struct kiln_text and not through jansson, whose integers end at 2^63: a seed has
 * 64 bits.
 */
#ifndef KILN_CLI_RECORDS_H
#define KILN_CLI_RECORDS_H

#include "schemas/text/text.h"
#include "storage/ledger/read/read.h"

/* ,"name":value members; the caller writes the braces and the first member. */
void kiln_json_member_text(struct kiln_text *out, const char *name,
                           const char *value); /* NULL: null */
void kiln_json_member_u64(struct kiln_text *out, const char *name, uint64_t value);
void kiln_json_member_double(struct kiln_text *out, const char *name, double value);
void kiln_json_member_bool(struct kiln_text *out, const char *name, bool value);
void kiln_json_member_time(struct kiln_text *out, const char *name, int64_t ms); /* 0: null */
/* {"queued":N, ...} */
void kiln_json_member_counts(struct kiln_text *out, const char *name,
                             const struct kiln_counts *counts);

/* {"job","batch","custom_id","index","state","attempt","width","height","steps","seed","loras",
 * "error","error_code" - without the closing brace. */
void kiln_record_short(struct kiln_text *out, const struct kiln_job_row *row);
/* ,"prompt", ... : everything else that was asked for and where it stands. */
void kiln_record_rest(struct kiln_text *out, const struct kiln_job_row *row);
/* ,"images":[...] of the pictures, largest first. */
void kiln_record_images(struct kiln_text *out, const struct kiln_job_row *row);
const struct kiln_object_row *kiln_row_latent(const struct kiln_job_row *row); /* NULL: none */
/* The picture of a stored size by its name (schemas/job/sizes.h), NULL if there is none. */
const struct kiln_object_row *kiln_row_picture(const struct kiln_job_row *row, const char *role);

#endif
