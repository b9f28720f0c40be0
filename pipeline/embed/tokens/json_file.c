/* json_file.c - see json_file.h. */
#include "pipeline/embed/tokens/json_file.h"

#include <stdlib.h>

#include "storage/formats/json_bounds.h"
#include "storage/formats/regular.h"

#define DEPTH_MAX 32

int kiln_json_file(const char *path, size_t bytes_max, size_t values_max, json_t **ret,
                   struct kiln_error *err)
{
    char *text;
    size_t len;
    json_error_t where;
    int rc = kiln_regular_read(path, bytes_max, &text, &len, err);
    if (rc)
        return rc;
    rc = kiln_json_bounds(text, len, DEPTH_MAX, values_max, path, err);
    json_t *json = rc ? NULL : json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (rc)
        return rc;
    if (!json)
        return kiln_fail(err, KILN_CORRUPT, "%s:%d: %s", path, where.line, where.text);
    *ret = json;
    return 0;
}
