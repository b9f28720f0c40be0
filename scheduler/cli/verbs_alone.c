/* verbs_alone.c - rows of the verbs that need no fleet: one picture, help; the order of all rows.
 */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/verb_tables.h"

const struct kiln_verb kiln_verbs_alone[] = {
    {.name = "render",
     .args = "[--model DIR] --prompt TEXT ... --out FILE.webp",
     .summary = "render one picture without a queue (in kiln-worker)",
     .examples = "kiln render --prompt 'a red star' --seed 7 --out star.webp",
     .more = "`kiln render --help` lists all options.",
     .settings = KILN_SETTINGS_NONE,
     .run = kiln_verb_forward},
    {.name = "tokenize",
     .args = "--model DIR [--raw]",
     .summary = "print the token ids of JSON strings on stdin (in kiln-worker)",
     .settings = KILN_SETTINGS_NONE,
     .run = kiln_verb_forward},
    {.name = "help",
     .args = "[VERB|config|job]",
     .summary = "show this overview, one verb, the settings, or the keys of a job line",
     .examples = "kiln help run\n"
                 "kiln help config        every setting, its value and where it came from\n"
                 "kiln help job           what a job line may say",
     .settings = KILN_SETTINGS_LENIENT,
     .words = {0, KILN_WORDS_MAX},
     .run = kiln_verb_help},
    {.name = NULL},
};

const struct kiln_verb *kiln_verb_at(size_t number)
{
    static const struct kiln_verb *const tables[] = {
        kiln_verbs_work, kiln_verbs_jobs,    kiln_verbs_fleet, kiln_verbs_gallery,
        kiln_verbs_lora, kiln_verbs_measure, kiln_verbs_alone};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct kiln_verb *verb = tables[i]; verb->name; verb++)
            if (number-- == 0)
                return verb;
    return NULL;
}
