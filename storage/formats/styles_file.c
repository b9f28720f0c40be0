/* styles_file.c - see styles_file.h. */
#include "storage/formats/styles_file.h"

#include <stdlib.h>

#include "storage/formats/user_file.h"

#define STYLES_FILE_MAX (4 * 1024 * 1024)

int kiln_styles_file_read(const char *path, struct kiln_styles **ret, struct kiln_error *err)
{
    struct kiln_error why;
    char *text;
    size_t len;
    if (path[0] == '\0')
        return 0;
    int code = kiln_user_file_read(path, STYLES_FILE_MAX, &text, &len, &why);
    if (code)
        return kiln_fail(err, code == KILN_NO_MEMORY ? code : KILN_CONFIG, "styles: %s", why.text);
    code = kiln_styles_parse(text, len, path, ret, err);
    free(text);
    return code;
}
