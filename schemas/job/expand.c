/* expand.c - makes all jobs of a line, one by one.
 *
 * A line of many jobs is checked before the first job is made.  Otherwise a part of the line could
 * be queued and the rest refused.
 */
#include "schemas/job/expand.h"

#include <stdlib.h>

#include "schemas/job/draft.h"

struct kiln_expand {
    struct kiln_draft draft; /* total 0: no line begun */
};

struct kiln_expand *kiln_expand_new(void)
{
    return calloc(1, sizeof(struct kiln_expand));
}

void kiln_expand_free(struct kiln_expand *expand)
{
    if (expand)
        kiln_draft_release(&expand->draft);
    free(expand);
}

/* Jobs of one line differ in checked axes alone, and only a style can still make one too long: one
 * good job of each style shows that all are good. */
static int try_styles(const struct kiln_draft *draft, struct kiln_error *err)
{
    uint64_t each = draft->total / draft->style_count;
    int code = 0;
    for (uint32_t i = 0; i < draft->style_count && !code; i++) {
        struct kiln_job job;
        code = kiln_draft_job(draft, i * each, &job, err);
        if (!code)
            kiln_job_release(&job);
    }
    return code;
}

int kiln_expand_begin(struct kiln_expand *expand, const char *text, size_t len,
                      const struct kiln_job_context *context, struct kiln_error *err)
{
    kiln_draft_release(&expand->draft);
    int code = kiln_draft_open(&expand->draft, text, len, context, err);
    if (!code && expand->draft.total > 1) {
        code = try_styles(&expand->draft, err);
        if (code)
            kiln_draft_release(&expand->draft);
    }
    if (code)
        expand->draft.total = 0;
    return code;
}

uint64_t kiln_expand_count(const struct kiln_expand *expand)
{
    return expand->draft.total;
}

bool kiln_expand_has_seed(const struct kiln_expand *expand)
{
    return expand->draft.has_seed;
}

int kiln_expand_job(const struct kiln_expand *expand, uint64_t which, struct kiln_job *ret_job,
                    struct kiln_error *err)
{
    if (which >= expand->draft.total)
        return kiln_fail(err, KILN_NOT_FOUND, "job %llu of a line that makes %llu",
                         (unsigned long long)which, (unsigned long long)expand->draft.total);
    return kiln_draft_job(&expand->draft, which, ret_job, err);
}
