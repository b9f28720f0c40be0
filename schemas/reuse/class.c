/* class.c - see class.h. */
#include "schemas/reuse/class.h"

#include <stdio.h>
#include <string.h>

const char *kiln_reuse_class_name(enum kiln_reuse_class class)
{
    static const char *const names[] = {"none", "same_prompt", "canonical", "reworded",
                                        "donor_says_more"};
    return (unsigned)class < KILN_REUSE_CLASS_COUNT ? names[class] : "unknown";
}

const char *kiln_reuse_fallback(const char *why, double wasted, char *out, size_t size)
{
    if (strcmp(why, KILN_REUSE_UNLIKE) == 0)
        snprintf(out, size,
                 "does not go with the prompt, by what the first step changed (%.3g step%s "
                 "wasted)",
                 wasted, wasted == 1 ? "" : "s");
    else if (strcmp(why, KILN_REUSE_SLOWER) == 0)
        snprintf(out, size, "would have saved no time in its batch");
    else
        snprintf(out, size, "is %s", why);
    return out;
}
