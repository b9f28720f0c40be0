/* backend.c - what the store and every backend share: the rule for keys, and how one put or one
 * deletion fails.
 *
 * The key rule is what makes a key safe as a file name and equal to its own URL encoding: only
 * [A-Za-z0-9/._-], no empty part, no part that starts with a dot (the file backend keeps its
 * temporary files under such names), no part longer than a file name may be.
 */
#include "storage/objects/backend.h"

#include <stdio.h>
#include <string.h>

#include "schemas/limits.h"

#define KEY_PART_MAX 255 /* NAME_MAX of every file system in use */

/* Says which byte or part is wrong: keys come out of templates that people edit. */
int kiln_store_check_key(const char *key, struct kiln_error *err)
{
    size_t len = strlen(key);
    if (len == 0 || len > KILN_OBJECT_KEY_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "object key of %zu bytes; 1 to %d are allowed", len,
                         KILN_OBJECT_KEY_MAX);
    size_t good = strspn(key, KILN_KEY_LETTERS);
    if (good != len)
        return kiln_fail(
            err, KILN_BAD_INPUT,
            "object key '%s' has the byte 0x%02x at %zu; allowed are A-Z a-z 0-9 / . _ -", key,
            (unsigned char)key[good], good);
    for (const char *part = key;; part++) {
        size_t part_len = strcspn(part, "/");
        if (part_len == 0 || part_len > KEY_PART_MAX || part[0] == '.')
            return kiln_fail(err, KILN_BAD_INPUT,
                             "object key '%s': each part between '/' must have 1 to %d bytes and "
                             "not start with '.'",
                             key, KEY_PART_MAX);
        part += part_len;
        if (*part == '\0')
            return KILN_OK;
    }
}

void kiln_put_fail(struct kiln_put *put, const struct kiln_error *err)
{
    put->code = err->code;
    snprintf(put->error, sizeof put->error, "%.*s", (int)sizeof put->error - 1, err->text);
}

void kiln_deletion_fail(struct kiln_deletion *deletion, const struct kiln_error *err)
{
    deletion->code = err->code;
    snprintf(deletion->error, sizeof deletion->error, "%.*s", (int)sizeof deletion->error - 1,
             err->text);
}
