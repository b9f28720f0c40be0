/* class.c - see class.h. */
#include "schemas/reuse/class.h"

#include <stdio.h>

const char *kiln_reuse_class_name(enum kiln_reuse_class class)
{
    static const char *const names[] = {"none", "same_prompt", "canonical", "reworded",
                                        "donor_says_more"};
    return (unsigned)class < KILN_REUSE_CLASS_COUNT ? names[class] : "unknown";
}

const char *kiln_reuse_saving(double sigma, double own, double forwards, char *out, size_t size)
{
    if (sigma > 0)
        snprintf(out, size, "at sigma %.4g, saved %.3g of %.3g steps", sigma, own - forwards, own);
    else
        snprintf(out, size, "saved %.3g of %.3g steps", own - forwards, own);
    return out;
}
