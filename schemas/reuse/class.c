/* class.c - see class.h. */
#include "schemas/reuse/class.h"

const char *kiln_reuse_class_name(enum kiln_reuse_class class)
{
    static const char *const names[] = {"none", "same_prompt", "canonical", "reworded",
                                        "donor_says_more"};
    return (unsigned)class < KILN_REUSE_CLASS_COUNT ? names[class] : "unknown";
}
