/* fuzz_job_line.c - any bytes as a job line.
 *
 * What is taken must survive its own line, and jansson must take it too (but for seeds beyond its
 * integers); what is refused must say why.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job/expand.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/line.h"

static void check_round_trip(const struct kiln_job *job)
{
    struct kiln_job back;
    struct kiln_error err;
    bool has_seed;
    char *line = test_line(job);
    fuzz_require(line &&
                 kiln_job_line_parse(line, strlen(line), NULL, &back, &has_seed, &err) == 0);
    char *again = test_line(&back);
    fuzz_require(again && strcmp(line, again) == 0 && has_seed);
    kiln_job_release(&back);
    free(line);
    free(again);
}

static void check_json(const char *text, size_t len)
{
    json_error_t problem;
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
    fuzz_require(value || strstr(problem.text, "too big integer"));
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_expand *expand = kiln_expand_new();
    struct kiln_error err = {0};
    struct kiln_job job;
    fuzz_require(expand);
    int code = kiln_expand_begin(expand, (const char *)data, size, NULL, &err);
    uint64_t count = kiln_expand_count(expand);
    fuzz_require((code == 0) == (count > 0));
    for (uint64_t which = 0; which < count; which += 1 + count / 4) {
        code = kiln_expand_job(expand, which, &job, &err);
        fuzz_require(code == 0 || count == 1);
        if (code)
            break;
        check_json((const char *)data, size);
        check_round_trip(&job);
        kiln_job_release(&job);
    }
    fuzz_require(code == 0 || (code == KILN_BAD_INPUT && err.text[0]));
    kiln_expand_free(expand);
    return 0;
}
