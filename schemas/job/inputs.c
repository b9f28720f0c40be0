/* inputs.c - see inputs.h. */
#include "schemas/job/inputs.h"

#include <string.h>

bool kiln_input_key_valid(const char *key)
{
    static const char *const endings[] = {".webp", ".png", ".jpg"};
    const size_t prefix = sizeof KILN_INPUTS_PREFIX - 1;
    if (strncmp(key, KILN_INPUTS_PREFIX, prefix) != 0 ||
        strspn(key + prefix, "0123456789abcdef") != 64)
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcmp(key + prefix + 64, endings[i]) == 0)
            return true;
    return false;
}
