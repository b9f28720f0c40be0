/* verbs.c - see verb_tables.h. */
#include "scheduler/cli/verb_tables.h"

const struct kiln_verb *kiln_verb_at(size_t number)
{
    static const struct kiln_verb *const tables[] = {
        kiln_verbs_work, kiln_verbs_jobs, kiln_verbs_fleet, kiln_verbs_measure, kiln_verbs_alone};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct kiln_verb *verb = tables[i]; verb->name; verb++)
            if (number-- == 0)
                return verb;
    return NULL;
}
