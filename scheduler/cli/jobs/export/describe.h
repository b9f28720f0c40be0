/* describe.h - what a picture of an export is written as, with what made it inside. */
#ifndef KILN_CLI_EXPORT_DESCRIBE_H
#define KILN_CLI_EXPORT_DESCRIBE_H

#include "scheduler/cli/jobs/export/fetch.h"

/* Of the picture in full size; the caller releases *ret.  embed: with its metadata. */
int kiln_describe_picture(const struct kiln_job_row *row, enum kiln_picture_format format,
                          bool embed, struct kiln_fetch_as *ret,
                          struct kiln_error *err) KILN_MUST_CHECK;

#endif
