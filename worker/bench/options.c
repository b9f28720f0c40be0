/* options.c - see options.h. */
#include "worker/bench/options.h"

#include <string.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/limits.h"
#include "worker/verbs/verbs.h"

int kiln_bench_size(char *text, int32_t *ret_width, int32_t *ret_height, struct kiln_error *err)
{
    int32_t width, height;
    char *cross = strchr(text, 'x');
    if (cross)
        *cross = '\0';
    int code = kiln_verb_side("sizes", text, &width, err);
    if (code == 0)
        code = kiln_verb_side("sizes", cross ? cross + 1 : text, &height, err);
    if (cross)
        *cross = 'x';
    if (code != 0)
        return kiln_fail(err, code, "--sizes \"%s\": expected N or WxH, multiples of %d, %d to %d",
                         text, KILN_SIDE_STEP, KILN_SIDE_MIN, KILN_SIDE_MAX);
    *ret_width = width;
    *ret_height = height;
    return 0;
}

int kiln_bench_list(const char *name, char *text, int max, kiln_bench_take *take, void *arg,
                   struct kiln_error *err)
{
    int code = 0, count = 0;
    for (char *part = text; part && code == 0;) {
        char *comma = strchr(part, ',');
        if (comma)
            *comma = '\0';
        if (++count > max)
            return kiln_fail(err, KILN_BAD_INPUT, "--%s: at most %d", name, max);
        code = take(arg, part, err);
        part = comma ? comma + 1 : NULL;
    }
    return code;
}

int kiln_bench_last_error(int code, struct kiln_error *err)
{
    return kiln_fail(err, code, "%s", diffusionz_last_error());
}
