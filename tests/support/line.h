/* line.h - a job as the line that is sent: malloc'd, NULL without memory. */
#ifndef KILN_TEST_LINE_H
#define KILN_TEST_LINE_H

#include "schemas/job/line.h"
#include "schemas/text/text.h"

static inline char *test_line(const struct kiln_job *job)
{
    struct kiln_text out = {0};
    kiln_job_line_write(job, true, &out);
    return kiln_text_take(&out);
}

#endif
