/* verbs.c - the table of verbs: one row a verb, in the order `kiln help` shows them. */
#include <string.h>

#include "scheduler/cli/cli.h"
#include "scheduler/cli/help.h"

const struct kiln_verb kiln_verbs[] = {
    {.name = "help",
     .args = "[VERB|config]",
     .summary = "this overview, one verb, or the settings",
     .examples =
         "kiln help run\nkiln help config        every setting, its value and where it came from",
     .settings = KILN_SETTINGS_LENIENT,
     .run = kiln_verb_help},
    {.name = NULL},
};

const struct kiln_verb *kiln_verb_find(const char *name)
{
    for (const struct kiln_verb *verb = kiln_verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}
