/* size.c - see size.h. */
#include "worker/bench/size.h"

#include <string.h>

#include "schemas/limits.h"

int kiln_take_size(const struct kiln_verb_option *option, char *value, struct kiln_error *err)
{
    struct kiln_bench_size *size = option->to;
    struct kiln_verb_option side = *option;
    char *cross = strchr(value, 'x');
    if (cross)
        *cross = '\0';
    side.to = &size->width;
    int code = kiln_take_side(&side, value, err);
    side.to = &size->height;
    if (code == 0)
        code = kiln_take_side(&side, cross ? cross + 1 : value, err);
    if (cross)
        *cross = 'x';
    return code ? kiln_fail(err, code,
                            "--sizes \"%s\": expected N or WxH, multiples of %d, %d to %d", value,
                            KILN_SIDE_STEP, KILN_SIDE_MIN, KILN_SIDE_MAX)
                : 0;
}
